"""The second step of an import: what each column of the file is used for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Fields
from postroom.services.audience.files.columns.columns import SKIP, FileColumn
from postroom.services.audience.files.columns.dates import DateOrder
from postroom.services.audience.files.columns.meanings import Meaning
from postroom.services.audience.files.import_report import ImportReport
from postroom.web.requests.visit import Visit

_OFFERED: Final = (
    Meaning.ADDRESS,
    Meaning.NAME,
    Meaning.STATUS,
    Meaning.VERIFIED,
    Meaning.HAS_UNSUBSCRIBED,
    Meaning.IS_BLOCKED,
    Meaning.BLOCKED,
    Meaning.JOINED,
    Meaning.CONFIRMED_AT,
    Meaning.JOINED_FROM,
    Meaning.CONFIRMED_FROM,
    Meaning.NOTE,
    Meaning.ATTRIBUTES,
    Meaning.FOREIGN_ID,
)
_NEW: Final = {
    FieldType.TEXT: "New field: text",
    FieldType.INTEGER: "New field: whole number",
    FieldType.NUMBER: "New field: number",
    FieldType.BOOLEAN: "New field: yes or no",
    FieldType.DATE: "New field: date",
    FieldType.CHOICE: "New field: one choice",
    FieldType.CHOICES: "New field: several choices",
}
DATE_ORDERS: Final = {
    DateOrder.YEAR_FIRST.value: "2026-01-31 or 31.1.2026",
    DateOrder.DAY_FIRST.value: "31/1/2026 (day first)",
    DateOrder.MONTH_FIRST.value: "1/31/2026 (month first)",
}


class MappedColumn(msgspec.Struct, frozen=True):
    """A column, what it is used for now, what that could be, and its first values."""

    name: str
    choice: str
    choices: dict[str, str]
    values: list[str]


def mapped_columns(
    report: ImportReport, fields: Fields, chosen: Mapping[str, str]
) -> list[MappedColumn]:
    """Return the columns of a file that was checked, for the form; `chosen` has earlier choices."""
    found = []
    for column, values in _with_values(report):
        choice = chosen.get(column.name) or _choice(column)
        choices = {choice: column.meaning.text, **_choices(fields)}
        found.append(MappedColumn(column.name, choice, choices, values))
    return found


def _with_values(report: ImportReport) -> list[tuple[FileColumn, list[str]]]:
    return [
        (column, [row[place] for row in report.sample if place < len(row) and row[place].strip()])
        for place, column in enumerate(report.columns)
    ]


def _choice(column: FileColumn) -> str:
    if column.is_new:
        return f"new:{column.type.value}"
    if column.field:
        return f"field:{column.field}"
    if column.meaning is Meaning.STATE:
        return Meaning.STATUS.value
    return SKIP if column.meaning is Meaning.UNUSED else column.meaning.value


def _choices(fields: Fields) -> dict[str, str]:
    """Return what a column can be used for."""
    return {
        SKIP: Meaning.UNUSED.text,
        **{each.value: each.text for each in _OFFERED},
        **{f"field:{each.name}": f"Field: {each.shown_label}" for each in fields.all},
        **{f"new:{each.value}": text for each, text in _NEW.items()},
    }


async def given_columns(visit: Visit) -> tuple[tuple[str, str], ...]:
    """Return the choices of the form: names of columns, and what they are used for."""
    form = await visit.form()
    names = [each for each in form.getlist("column[]") if isinstance(each, str)]
    choices = [each for each in form.getlist("used_as[]") if isinstance(each, str)]
    return tuple(zip(names, choices, strict=False))
