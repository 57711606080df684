"""An import of an uploaded file, as pages show it and the store keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import msgspec

from postroom.domain.audience.lists.lists import ListName
from postroom.services.audience.files.columns.dates import DateOrder
from postroom.services.audience.files.import_report import Existing, ImportReport


class Stage(StrEnum):
    READING = "reading"
    CHECKING = "checking"
    READY = "ready"
    IMPORTING = "importing"
    DONE = "done"


class ImportOptions(msgspec.Struct, frozen=True):
    """What the user says about a file."""

    encoding: str = ""
    verified: bool = False
    even_unsubscribed: bool = False
    existing: Existing = Existing.OVERWRITE
    create_fields: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    date_order: DateOrder = DateOrder.YEAR_FIRST
    on_every_list: bool = False
    """Whether they may suppress addresses on every list."""


class ImportState(msgspec.Struct, frozen=True, omit_defaults=True):
    """An import: its progress, its report, and why it stopped.

    `done` of `size` bytes are done, or subscribers while they are read from another tool. `before`
    is the report up to the last interruption, and part of `report`. `owner` is the process that
    works on it, and was alive at `alive_at`; without one, the next process continues. `attempts`
    counts those that have.
    """

    id: str
    list_name: ListName
    file_name: str
    options: ImportOptions
    stage: Stage
    alive_at: datetime
    size: int = 0
    done: int = 0
    report: ImportReport = msgspec.field(default_factory=ImportReport)
    before: ImportReport | None = None
    problem: str = ""
    is_stopped: bool = False
    confirmed_at: datetime | None = None
    owner: str = ""
    attempts: int = 0
    etag: str = ""

    @property
    def is_running(self) -> bool:
        return self.stage in (Stage.READING, Stage.CHECKING, Stage.IMPORTING)


def continued(before: ImportReport, report: ImportReport) -> ImportReport:
    """Return the report of an import that was interrupted after `before`, and then began again at
    the first line of the file: lines that were imported before count once, as what they did."""
    added, updated = before.added + report.added, before.updated + report.updated
    unsubscribed = before.unsubscribed + report.unsubscribed
    used = added + updated + unsubscribed + report.rejected
    return msgspec.structs.replace(
        report,
        added=added,
        updated=updated,
        unsubscribed=unsubscribed,
        unchanged=max(0, report.lines - used),
        confirmed=before.confirmed + report.confirmed,
        suppressed=before.suppressed + report.suppressed,
        created_fields=_united(before.created_fields, report.created_fields),
    )


def _united(one: Iterable[str], other: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*one, *other)))
