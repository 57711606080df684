"""Fields for stored settings, which all pages of this folder share: what is shown, what is locked
because the environment or the file decides, and what a form changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from postroom.domain.errors import Invalid, Overtaken
from postroom.settings import FILE, FoundSetting, Settings, check_stored
from postroom.web.requests.visit import Visit

CONFLICT = (
    "Someone else has changed the settings, and your changes were not saved. They are still in the"
    " form, without secrets: check them and save again."
)


class SettingField(msgspec.Struct, frozen=True):
    """A setting on a page. `choices` makes it a menu."""

    name: str
    label: str
    help: str = ""
    type: str = "text"
    placeholder: str = ""
    choices: Mapping[str, str] = msgspec.field(default_factory=dict)


class ShownField(msgspec.Struct, frozen=True):
    """A field with its value. A secret is never shown: `is_set` says whether there is one, and
    `masked` is what may be shown of it. `lock` says who decides instead of this page."""

    field: SettingField
    value: str
    is_secret: bool
    is_set: bool
    masked: str = ""
    lock: str = ""
    problem: str = ""


def lock_of(found: FoundSetting) -> str:
    """Return where a setting is fixed, for people; empty if the page can change it."""
    if not found.is_fixed:
        return ""
    if found.origin == FILE:
        return f"Set by {found.setting.name} in {FILE}"
    if found.origin.startswith("--"):
        return f"Set by {found.origin} on the command line"
    return f"Set by {found.origin} in the environment"


def show_fields(
    settings: Settings,
    fields: Sequence[SettingField],
    typed: Mapping[str, str] | None = None,
    problems: Mapping[str, str] | None = None,
) -> dict[str, ShownField]:
    """Return the fields by name; `typed` are values that could not be saved yet."""
    return {
        each.name: _shown(
            settings.found[each.name], each, (typed or {}).get(each.name), problems or {}
        )
        for each in fields
    }


def _shown(
    found: FoundSetting, field: SettingField, typed: str | None, problems: Mapping[str, str]
) -> ShownField:
    lock = lock_of(found)
    is_secret = found.setting.secret or found.setting.is_url
    value = "" if is_secret else found.text if typed is None or lock else typed
    return ShownField(
        field=field,
        value=value,
        is_secret=is_secret,
        is_set=bool(found.text),
        masked=found.shown if is_secret and found.text else "",
        lock=lock,
        problem=problems.get(field.name, ""),
    )


async def save_fields(
    visit: Visit, fields: Sequence[SettingField]
) -> tuple[dict[str, str], dict[str, str]]:
    """Store what the form changes, all of it or nothing. Return what was typed, and what is wrong
    with it by field; "" stands for the whole form."""
    typed = {each.name: (await visit.text(each.name)).strip() for each in fields}
    changes, problems = await read_changes(visit, fields)
    if changes and not problems and (problem := await save_changes(visit, changes)):
        problems[""] = problem
    return typed, problems


async def read_changes(
    visit: Visit, fields: Sequence[SettingField]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return what the form changes, checked (None: removed), and what is wrong by field.

    An empty secret keeps what is stored; it is removed only on request. Anything else that is empty
    returns to its default. What is fixed elsewhere is left alone.
    """
    changes: dict[str, str | None] = {}
    problems: dict[str, str] = {}
    for each in fields:
        found = visit.context.settings.found[each.name]
        text = (await visit.text(each.name)).strip()
        is_secret = found.setting.secret or found.setting.is_url
        is_removed = is_secret and await visit.text(f"remove_{each.name}") == "yes"
        is_same = not text and not is_removed if is_secret else text == found.text
        if found.is_fixed or is_same:
            continue
        try:
            changes[each.name] = check_stored(each.name, text) if text and not is_removed else None
        except Invalid as exc:
            problems[each.name] = exc.problem
    return changes, problems


async def save_changes(visit: Visit, changes: Mapping[str, str | None]) -> str:
    """Store checked texts, use them, and record who did it. Return why not, if not."""
    version = await visit.text("version")
    try:
        await visit.context.live.change(changes, by=visit.who.email, version=version)
    except Overtaken:
        await visit.context.live.refresh()
        return CONFLICT
    except Invalid as exc:
        return str(exc)
    await visit.audit("changed settings", describe_changes(visit.context.settings, changes))
    return ""


def describe_changes(settings: Settings, changes: Mapping[str, str | None]) -> str:
    """Return the changes, without secrets, for the audit log."""
    return ", ".join(
        f"{name} removed"
        if text is None
        else f"{name} changed"
        if settings.found[name].setting.secret
        else f"{name} = {settings.found[name].shown[:100]}"
        for name, text in changes.items()
    )
