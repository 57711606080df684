"""The fields of a list: index, add, edit, rename, reorder, delete."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from starlette.responses import Response

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import (
    BUILT_IN,
    FROM_THE_ROW,
    LONGEST_TEXT,
    Field,
    parse_value,
    value_text,
)
from postroom.domain.audience.lists import MailingList
from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.languages import LANGUAGES
from postroom.services.accounts.users import Role
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
_COUNT_SECONDS: Final = 2.0
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


async def index(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    declared = await visit.services.fields.of(mailing_list.name)
    return visit.render(
        "admin/audience/fields.html",
        list=mailing_list,
        fields=declared.fields.declared,
        types=TYPES,
        built_in=(*FROM_THE_ROW, *BUILT_IN),
    )


async def edit(visit: Visit) -> Response:
    """Show the form of a field, or of a new one, and save it."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    name = visit.parameter("field")
    current = await _field(visit, mailing_list, name) if name else None
    if visit.request.method == "GET":
        return _show(visit, mailing_list, current, _texts(current or Field("")))
    given = await _given(visit)
    before = _before(await visit.text("before"))
    try:
        new = _new_field(given)
        if current is None:
            await visit.services.field_changes.add(mailing_list.name, new)
        else:
            await visit.services.field_changes.change(mailing_list.name, name, new, before)
    except Invalid as exc:
        problems = {_input_of(exc.field): exc.problem}
        return _show(visit, mailing_list, current, given, before, problems, status=422)
    except Exists:
        problems = {"name": "is already taken: choose another one"}
        return _show(visit, mailing_list, current, given, before, problems, status=409)
    except NotNow as exc:
        problems = {"name": str(exc)}
        return _show(visit, mailing_list, current, given, before, problems, status=409)
    except Overtaken:
        saved = await _field(visit, mailing_list, name)
        found = differences(_LABELS, given, _texts(saved))
        return _show(visit, mailing_list, saved, given, saved, theirs=found, status=409)
    await visit.audit(
        "changed field" if current else "added field", f"{mailing_list.name}: {new.name}"
    )
    is_done = new.name == name or current is None or await _rename(visit, mailing_list)
    flash = "Saved." if current else f"Field {new.name} added."
    if not is_done:
        flash = "Saved. The values are being renamed in the background."
    return visit.redirect(f"/lists/{mailing_list.name}/fields", flash)


async def rename(visit: Visit) -> Response:
    """Resume a renaming that was interrupted."""
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    is_done = await _rename(visit, mailing_list)
    flash = "All values are renamed." if is_done else "Renaming resumed."
    return visit.redirect(f"/lists/{mailing_list.name}/fields", flash)


async def _rename(visit: Visit, mailing_list: MailingList) -> bool:
    """Rename values; return False if that continues in the background."""
    renaming = visit.context.background.start(
        visit.services.field_changes.finish_renaming(mailing_list.name),
        f"renaming of a field of the list {mailing_list.name}",
    )
    done, _ = await asyncio.wait([renaming], timeout=_RENAMING_WAIT)
    if done:
        renaming.result()
    return bool(done)


async def move(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    name, by = await visit.text("field"), -1 if await visit.text("by") == "-1" else 1
    await visit.services.field_changes.move(mailing_list.name, name, by=by)
    await visit.audit("moved field", f"{mailing_list.name}: {name}")
    return visit.redirect(f"/lists/{mailing_list.name}/fields")


async def delete(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    is_asking = visit.request.method == "GET"
    name = visit.parameter("field") if is_asking else await visit.text("field")
    field = await _field(visit, mailing_list, name)
    if is_asking:
        return visit.render(
            "admin/confirm.html",
            title=f"Delete field {field.shown_label}?",
            points=await _consequences(visit, mailing_list, name),
            button="Delete field",
            fields={"field": name},
            back=f"/lists/{mailing_list.name}/fields",
        )
    await visit.services.field_changes.remove(mailing_list.name, name)
    await visit.audit("deleted field", f"{mailing_list.name}: {name}")
    return visit.redirect(f"/lists/{mailing_list.name}/fields", f"Field {name} deleted.")


async def _consequences(visit: Visit, mailing_list: MailingList, name: str) -> list[str]:
    found = await visit.services.field_changes.count_values(
        mailing_list.name, name, seconds=_COUNT_SECONDS
    )
    people = counted(found.count, "subscriber has", "subscribers have")
    points = [
        f"{people if found.is_exact else f'More than {people}'} a value. Values are no longer shown"
        " or used; they come back if you add a field of the same name and type.",
        "Messages that show the field can no longer be sent until you remove it from them.",
    ]
    if segments := await visit.services.segments.using(mailing_list.name, name):
        names = ", ".join(each.name for each in segments)
        points.append(f"These segments use it and stop working: {names}.")
    return points


async def _field(visit: Visit, mailing_list: MailingList, name: str) -> Field:
    declared = (await visit.services.fields.of(mailing_list.name)).fields.declared
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
    mailing_list: MailingList,
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
        "list": mailing_list,
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


VIEWS = (
    View("/lists/{name}/fields", index, role=Role.VIEWER),
    View("/lists/{name}/fields/move", move, role=Role.EDITOR, methods=("POST",)),
    View("/lists/{name}/fields/rename", rename, role=Role.EDITOR, methods=("POST",)),
    View("/lists/{name}/field", edit, role=Role.EDITOR, methods=("GET", "POST")),
    View("/lists/{name}/field/delete", delete, role=Role.EDITOR, methods=("GET", "POST")),
)
