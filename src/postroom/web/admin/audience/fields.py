"""The fields of a list, or of all lists: index, add, edit, rename, reorder, delete."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from starlette.responses import PlainTextResponse, Response

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import (
    BUILT_IN,
    FROM_THE_ROW,
    LONGEST_TEXT,
    Field,
    parse_value,
    value_text,
)
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import EVERY_LIST, ListName
from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.languages import LANGUAGES
from postroom.services.accounts.users import Role
from postroom.services.audience.fields.field_changes import ValueCount
from postroom.web.public.visitor import LANGUAGE_NAMES
from postroom.web.rendering.templating import counted
from postroom.web.requests.forms import Difference, differences
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

TYPES: Final = {
    FieldType.TEXT.value: "Text",
    FieldType.INTEGER.value: "Whole number",
    FieldType.NUMBER.value: "Number",
    FieldType.BOOLEAN.value: "Yes or no",
    FieldType.DATE.value: "Date",
    FieldType.CHOICE.value: "One of several choices",
    FieldType.CHOICES.value: "Several choices",
}
_COUNT_SECONDS: Final = 0.03  # what remains is counted once the page is there
_FULL_COUNT_SECONDS: Final = 20.0
_RENAMING_WAIT: Final = 2.0  # seconds; renaming many values continues in the background
_SWITCHES: Final = ("required", "public")
_LABELS: Final = {
    "name": "Name",
    **{f"label_{each}": f"Label ({LANGUAGE_NAMES[each]})" for each in LANGUAGES},
    "type": "Type",
    "choices": "Choices",
    "max_length": "Maximum length",
    "default": "Default",
    "required": "Required",
    "public": "Public",
}


class _Owner(msgspec.Struct, frozen=True):
    """The list whose fields a page shows, or all lists."""

    name: ListName

    @property
    def is_every_list(self) -> bool:
        return self.name == EVERY_LIST

    @property
    def url(self) -> str:
        return "" if self.is_every_list else f"/lists/{self.name}"

    def __str__(self) -> str:
        return "all lists" if self.is_every_list else self.name


async def _owner(visit: Visit) -> _Owner:
    name = visit.parameter("name")
    return _Owner((await visit.services.lists.get(name)).name if name else EVERY_LIST)


async def index(visit: Visit) -> Response:
    owner = await _owner(visit)
    declared = await visit.services.fields.of(owner.name)
    names = {each.name for each in declared.fields.declared}
    return visit.render(
        "admin/audience/fields.html",
        owner=owner,
        fields=declared.fields.own,
        shared=declared.fields.shared,
        types=TYPES,
        built_in=[each for each in (*FROM_THE_ROW, *BUILT_IN) if each not in names],
    )


async def edit(visit: Visit) -> Response:
    """Show the form of a field, or of a new one, and save it."""
    owner = await _owner(visit)
    name = visit.parameter("field")
    current = await _field(visit, owner, name) if name else None
    if visit.request.method == "GET":
        return _show(visit, owner, current, _texts(current or Field("")))
    given = await _given(visit)
    before = _before(await visit.text("before"))
    try:
        new = _new_field(given)
        if current is None:
            await visit.services.field_changes.add(owner.name, new)
        else:
            await visit.services.field_changes.change(owner.name, name, new, before)
    except Invalid as exc:
        problems = {_input_of(exc.field): exc.problem}
        return _show(visit, owner, current, given, before, problems, status=422)
    except Exists:
        problems = {"name": "is already taken: choose another one"}
        return _show(visit, owner, current, given, before, problems, status=409)
    except NotNow as exc:
        problems = {"name": str(exc)}
        return _show(visit, owner, current, given, before, problems, status=409)
    except Overtaken:
        saved = await _field(visit, owner, name)
        found = differences(_LABELS, given, _texts(saved))
        return _show(visit, owner, saved, given, saved, theirs=found, status=409)
    await visit.audit("changed field" if current else "added field", f"{owner}: {new.name}")
    is_done = new.name == name or current is None or await _rename(visit, owner)
    flash = "Saved." if current else f"Field {new.name} added."
    if not is_done:
        flash = "Saved. The values are being renamed in the background."
    return visit.redirect(f"{owner.url}/fields", flash)


async def rename(visit: Visit) -> Response:
    """Resume a rename that was interrupted."""
    owner = await _owner(visit)
    is_done = await _rename(visit, owner)
    flash = "All values are renamed." if is_done else "Rename resumed."
    return visit.redirect(f"{owner.url}/fields", flash)


async def _rename(visit: Visit, owner: _Owner) -> bool:
    """Rename values; return False if that continues in the background."""
    renaming = visit.context.background.start(
        visit.services.field_changes.finish_rename(owner.name),
        f"rename of a field of {owner}",
    )
    done, _ = await asyncio.wait([renaming], timeout=_RENAMING_WAIT)
    return bool(done) and renaming.result() is not None


async def move(visit: Visit) -> Response:
    owner = await _owner(visit)
    name, by = await visit.text("field"), -1 if await visit.text("by") == "-1" else 1
    await visit.services.field_changes.move(owner.name, name, by=by)
    await visit.audit("moved field", f"{owner}: {name}")
    return visit.redirect(f"{owner.url}/fields")


async def delete(visit: Visit) -> Response:
    owner = await _owner(visit)
    is_asking = visit.request.method == "GET"
    name = visit.parameter("field") if is_asking else await visit.text("field")
    field = await _field(visit, owner, name)
    if is_asking and visit.is_partial:
        found = await visit.services.field_changes.count_values(
            owner.name, name, seconds=_FULL_COUNT_SECONDS
        )
        return PlainTextResponse(_values_lost(name, found))
    if is_asking:
        found = await visit.services.field_changes.count_values(
            owner.name, name, seconds=_COUNT_SECONDS
        )
        return visit.render(
            "admin/confirm.html",
            title=f"Delete field “{field.shown_label}”?",
            points=[_values_lost(name, found), *await _consequences(visit, owner, name)],
            first_point_url="" if found.is_exact else f"{visit.path}?field={name}",
            button="Delete field",
            fields={"field": name},
            back=f"{owner.url}/fields",
        )
    await visit.services.field_changes.remove(owner.name, name)
    await visit.audit("deleted field", f"{owner}: {name}")
    return visit.redirect(f"{owner.url}/fields", f"Field {name} deleted.")


async def _consequences(visit: Visit, owner: _Owner, name: str) -> list[str]:
    if name in BUILT_IN:
        return ["Messages that show the field need a default for those without a value."]
    points = [
        "Messages that show the field can no longer be sent until you remove it from them.",
    ]
    names: list[str] = []
    for each in await visit.lists.names() if owner.is_every_list else [owner.name]:
        segments = await visit.services.segments.using(each, name)
        names += [f"{each}: {one.name}" if owner.is_every_list else one.name for one in segments]
    if names:
        points.append(f"These segments use it and stop working: {', '.join(names)}.")
    return points


def _values_lost(name: str, found: ValueCount) -> str:
    if not found.count and found.is_exact:
        return "No subscriber has a value."
    people = counted(found.count, "subscriber has", "subscribers have")
    if name in BUILT_IN:
        after = "Values stay, because every list has this field"
    else:
        after = (
            "Values are no longer shown or used; they come back if you add a field of the same name"
            " and type"
        )
    return f"{people if found.is_exact else f'More than {people}'} a value. {after}."


async def _field(visit: Visit, owner: _Owner, name: str) -> Field:
    declared = (await visit.services.fields.of(owner.name)).fields.own
    for each in declared:
        if each.name == name:
            return each
    raise NoSuch("field", name)


# -- the form -------------------------------------------------------------------------------------


async def _given(visit: Visit) -> dict[str, str]:
    given = {name: (await visit.text(name)).strip() for name in _LABELS}
    return {**given, **{name: "yes" if given[name] else "no" for name in _SWITCHES}}


def _new_field(given: dict[str, str]) -> Field:
    """Return the field as it was entered. `Invalid`; the service checks the rest."""
    labels = {each: given[f"label_{each}"] for each in LANGUAGES if given[f"label_{each}"]}
    kind = given["type"]
    if kind not in set(FieldType):
        raise Invalid("type", f"must be one of {', '.join(TYPES)}, not {kind[:40]!r}")
    has_choices = kind in (FieldType.CHOICE, FieldType.CHOICES)
    choices = [each.strip() for each in given["choices"].splitlines() if each.strip()]
    longest = given["max_length"] if kind == FieldType.TEXT else ""
    if longest and not (longest.isascii() and longest.isdigit() and len(longest) <= 9):
        raise Invalid("max_length", f"must be between 1 and {LONGEST_TEXT}, not {longest[:40]!r}")
    new = Field(
        given["name"],
        FieldType(kind),
        label=labels.get(LANGUAGES[0], "") if set(labels) <= {LANGUAGES[0]} else labels,
        required=given["required"] == "yes",
        public=given["public"] == "yes",
        choices=tuple(choices) if has_choices else (),
        max_length=int(longest) if longest else LONGEST_TEXT,
    )
    try:
        return msgspec.structs.replace(new, default=parse_value(new, given["default"]))
    except Invalid as exc:
        raise Invalid("default", exc.problem) from exc


def _texts(field: Field) -> dict[str, str]:
    """Return a field as the form has it."""
    return {
        "name": field.name,
        **{f"label_{each}": field.labels.get(each, "") for each in LANGUAGES},
        "type": field.type.value,
        "choices": "\n".join(field.choices),
        "max_length": str(field.max_length),
        "default": value_text(field.default),
        "required": "yes" if field.required else "no",
        "public": "yes" if field.public else "no",
    }


def _before(text: str) -> Field | None:
    """Return the field that the form was filled with."""
    try:
        return msgspec.json.decode(text, type=Field)
    except msgspec.DecodeError:
        return None


def _input_of(path: str) -> str:
    """Return the input for the path of a mistake, such as `fields.0.label.de`."""
    parts = path.split(".")
    return "_".join(parts[2:]) if parts[0] == "fields" and len(parts) > 2 else path


def _show(
    visit: Visit,
    owner: _Owner,
    current: Field | None,
    values: dict[str, str],
    before: Field | None = None,
    problems: dict[str, str] | None = None,
    *,
    theirs: list[Difference] | None = None,
    status: int = 200,
) -> Response:
    edited = before or current
    more: dict[str, Any] = {
        "owner": owner,
        "field": current.name if current else "",
        "before": msgspec.json.encode(edited).decode() if edited else "",
        "values": values,
        "problems": problems or {},
        "theirs": theirs or [],
        "types": TYPES,
        "languages": LANGUAGE_NAMES,
        "has_translations": any(values[f"label_{each}"] for each in LANGUAGES[1:]),
    }
    return visit.render("admin/audience/field_form.html", status=status, **more)


_LIST: Final = "/lists/{name}"
_WRITES: Final = ("GET", "POST")

VIEWS = (
    View(f"{_LIST}/fields", index, right=ListRight.VIEW),
    View(f"{_LIST}/fields/move", move, right=ListRight.MANAGE, methods=("POST",)),
    View(f"{_LIST}/fields/rename", rename, right=ListRight.MANAGE, methods=("POST",)),
    View(f"{_LIST}/field", edit, right=ListRight.MANAGE, methods=_WRITES),
    View(f"{_LIST}/field/delete", delete, right=ListRight.MANAGE, methods=_WRITES),
    # Of all lists.
    View("/fields", index, role=Role.VIEWER),
    View("/fields/move", move, role=Role.EDITOR, methods=("POST",)),
    View("/fields/rename", rename, role=Role.EDITOR, methods=("POST",)),
    View("/field", edit, role=Role.EDITOR, methods=_WRITES),
    View("/field/delete", delete, role=Role.EDITOR, methods=_WRITES),
)
