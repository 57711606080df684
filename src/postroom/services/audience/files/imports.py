"""Import of subscribers from a CSV file of any size, or an archive of some, in constant memory.

- A new address is added. It is verified if its line says so, or if its line says nothing and the
  caller wants all of those verified.
- Addresses that differ only in case are one; the list keeps the spelling that came first.
- An address that is on the list keeps its GUID and age. Its line can verify or unverify it, so that
  a file can be exported, edited and imported again. If a file has an address more than once, the
  last line that says something counts.
- Columns that are named like fields of the list fill them (`field_columns.py`). A value that does
  not fit its field rejects the line, and so does a missing value of a required field, for a new
  address. What happens to the values of an address that is on the list is up to the caller.
- An id in old unsubscribe links is recorded with the subscriber.
- A blocked address stays blocked. A line with a reason blocks its address. A suppressed address is
  added, and blocked by its suppression.
- An address that has unsubscribed elsewhere, according to its line, is removed and recorded as a
  unsubscribe: no other line of the file and no later import adds it again.
- Subscribers who unsubscribed here are rejected, unless the caller re-subscribes them.
- A line that cannot be used is reported, and does not stop the others, unless there are too many.
- A cancelled import stops reading immediately. An interrupted one is finished by importing again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, aclosing
from datetime import datetime
from functools import partial
from io import SEEK_END
from typing import BinaryIO

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import AddressKey
from postroom.domain.audience.consent import BY_IMPORT, ConsentSource
from postroom.domain.audience.field_declarations import parse_fields
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.renamed_fields import former_names
from postroom.domain.errors import Invalid
from postroom.services import entities
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.files.archives import FilePart, opened_parts
from postroom.services.audience.files.columns.choice_values import with_more_choices
from postroom.services.audience.files.columns.columns import ColumnPlan, parse_choice
from postroom.services.audience.files.columns.dates import DateOrder
from postroom.services.audience.files.import_report import (
    Existing,
    ImportReport,
    RejectedLine,
    UnusableLines,
)
from postroom.services.audience.files.line_chunks import Chunk
from postroom.services.audience.files.reading_ahead import (
    PreparedChunk,
    batches_of,
    in_thread,
    read_ahead,
)
from postroom.services.audience.files.subscriber_lines import SubscriberFile
from postroom.services.audience.files.writing.blocked_lines import BlockedLines
from postroom.services.audience.files.writing.import_writer import BATCHES_AT_ONCE, ImportWriter
from postroom.services.audience.files.writing.planned_rows import PlannedRows
from postroom.services.audience.growth.list_growth import ListCounts
from postroom.services.audience.lists import ListService
from postroom.services.audience.signup.foreign_ids import ForeignIds
from postroom.services.audience.signup.unsubscribes import UnsubscribedFrom, Unsubscribes
from postroom.services.audience.suppression.many_suppressions import ManySuppressions
from postroom.services.audience.suppression.suppression_rows import SuppressionRows
from postroom.services.concurrency import all_of, retry_on_conflict
from postroom.services.events import EventService
from postroom.storage import Store

Progress = Callable[[int, ImportReport], None]
"""Called with the bytes of the file that are done, and the report so far."""

OnRejected = Callable[[RejectedLine], None]


class ImportService:
    def __init__(
        self,
        store: Store,
        lists: ListService,
        fields: FieldService,
        counts: ListCounts,
        events: EventService,
        suppressions: SuppressionRows,
        many_suppressions: ManySuppressions,
        unsubscribes: Unsubscribes,
        foreign_ids: ForeignIds,
    ) -> None:
        self._rows = store.table(entities.LISTS)
        self._lists = lists
        self._fields = fields
        self._unsubscribes = unsubscribes
        self._suppressions = suppressions
        self._foreign_ids = foreign_ids
        self._many_suppressions = many_suppressions
        self._events = events
        self._counts = counts

    async def import_csv(
        self,
        list_name: str,
        file: BinaryIO,
        *,
        encoding: str | None = None,
        verified: bool = False,
        even_unsubscribed: bool = False,
        unsubscribed_until: datetime | None = None,
        existing: Existing = Existing.OVERWRITE,
        create_fields: bool = False,
        guess_types: bool = False,
        columns: Mapping[str, str] | None = None,
        date_order: DateOrder = DateOrder.YEAR_FIRST,
        dry_run: bool = False,
        progress: Progress | None = None,
        on_rejected: OnRejected | None = None,
        source: ConsentSource = BY_IMPORT,
        on_every_list: bool = True,
    ) -> ImportReport:
        """Import a CSV file or an archive of some; it must be seekable. `NoSuch` list; `Invalid`.

        `verified` is for new addresses whose line says nothing. `even_unsubscribed` re-subscribes
        people who unsubscribed; with `unsubscribed_until`, only those who had by then. `existing`
        says what becomes of the values of addresses that are on the list. `create_fields` declares
        fields for unknown columns: of text, or with `guess_types` of the type of their first
        values, if they have any. `columns` says what columns are used for (`columns.parse_choice`),
        `date_order` how dates are read. `on_every_list` says whether a mailbox that is gone, or a
        complaint, may be suppressed on every list; otherwise it is on this one. With `dry_run`
        nothing is written, and the report says what would be done.
        """
        name = (await self._lists.get(list_name)).name
        report = ImportReport(dry_run=dry_run)
        plan = ColumnPlan(
            create_fields=create_fields,
            guess_types=guess_types,
            chosen={column: parse_choice(text) for column, text in (columns or {}).items()},
            date_order=date_order,
        )
        with ExitStack() as stack:
            planned = stack.enter_context(PlannedRows()) if dry_run else None
            writer = ImportWriter(
                self._rows,
                self._unsubscribes,
                self._blocked_lines(name, report, planned, on_every_list=on_every_list),
                self._foreign_ids,
                name,
                report,
                default_verified=verified,
                existing=existing,
                source=source,
                planned=planned,
            )
            parts = await in_thread(
                threading.Event(), lambda: stack.enter_context(opened_parts(file))
            )
            for part, part_progress in _with_progress(parts, progress, file):
                since = unsubscribed_until if even_unsubscribed else None
                is_watched = since is not None or not even_unsubscribed
                left = await self._unsubscribes.of_list(name) if is_watched else None
                run = _PartRun(part, encoding, left, since, part_progress, on_rejected)
                await self._import_part(name, run, plan, writer, report)
        if not dry_run:
            await self._record_end(list_name, report)
        return report

    def _blocked_lines(
        self,
        name: ListName,
        report: ImportReport,
        planned: PlannedRows | None,
        *,
        on_every_list: bool,
    ) -> BlockedLines:
        return BlockedLines(
            self._suppressions,
            self._many_suppressions,
            name,
            report,
            clock.now(),
            on_every_list=on_every_list,
            planned=planned,
        )

    async def _record_end(self, list_name: str, report: ImportReport) -> None:
        await self._events.record(
            "import",
            f"import into {list_name} finished: {report.added:,} added,"
            f" {report.updated:,} updated, {report.rejected:,} rejected",
            subject=f"list:{list_name}",
        )

    async def _import_part(
        self,
        name: ListName,
        run: _PartRun,
        plan: ColumnPlan,
        writer: ImportWriter,
        report: ImportReport,
    ) -> None:
        """Import one CSV file."""
        fields = (await self._fields.of(name)).fields
        in_archive = bool(run.part.name)
        plan = msgspec.structs.replace(
            plan,
            fields=fields,
            least=run.part.least,
            # The others may have other values: then a column without a field is text.
            guess_types=plan.guess_types and not in_archive,
            in_archive=in_archive,
        )
        writer.former_names = former_names(fields)
        stop = threading.Event()
        try:
            source = await in_thread(
                stop, lambda: SubscriberFile(run.part.file, run.encoding, stop, plan=plan)
            )
        except Invalid:
            report.columns = SubscriberFile.unread_columns(run.part.file, run.encoding)
            if run.progress:
                run.progress(0, report)  # its columns can be chosen
            raise
        report.columns, report.sample, report.tool = source.columns, source.sample, source.tool
        report.warning = source.warning or report.warning
        progress, done, unusable = run.progress, 0, UnusableLines()
        try:
            created = await self._create(name, source.new_fields, dry_run=report.dry_run)
            report.created_fields += [each for each in created if each not in report.created_fields]
            async with aclosing(read_ahead(source, run.left, stop)) as chunks:
                async for prepared in chunks:
                    chunk = prepared.chunk
                    await self._lists.get(name)  # it may have been deleted in the meantime
                    await self._check_fields(name, source, dry_run=report.dry_run)
                    unusable.count(chunk.lines, chunk.empty, chunk.rejected)
                    await writer.unsubscribe(prepared)
                    if chunk.watched or chunk.incomplete:
                        await self._reject_unwanted(name, prepared, run.since, writer.is_planned)
                    run.reject(report, chunk.rejected)
                    await writer.suppress(chunk)
                    on_done = _byte_progress(progress, done, chunk, report) if progress else None
                    await writer.write(prepared, on_done)
                    run.reject(report, writer.taken_rejected())
                    done = chunk.bytes_read
                    if progress and not chunk.wanted:  # nothing to write is progress, too
                        progress(done, report)
                    await self._counts.add(name, writer.taken_change())
                    unusable.check(added=report.added, updated=report.updated)
            await self._check_fields(name, source, dry_run=report.dry_run)
        finally:
            source.release()

    async def _check_fields(self, name: ListName, source: SubscriberFile, *, dry_run: bool) -> None:
        """Raise `Invalid` if a field that the file fills was renamed or removed in the meantime:
        nobody would see its values."""
        known = {each.name for each in (await self._fields.of(name)).fields.all}
        if (gone := source.filled_fields - known) and not dry_run:
            problem = f"the field {min(gone)} was renamed or removed during the import"
            raise Invalid("columns", problem)

    async def _create(self, name: ListName, new: list[Field], *, dry_run: bool) -> list[str]:
        """Declare fields for columns of the file, and more choices of others; return the names of
        new ones. `Invalid`.

        They are declared before the first row is written: an interruption leaves nothing unseen.
        """
        if not new:
            return []
        created: list[str] = []

        async def attempt() -> None:
            old = await self._fields.of(name)
            created.clear()
            known = {each.name for each in old.fields.declared}
            created.extend(each.name for each in new if each.name not in known)
            wanted = {each.name: each for each in new}
            declared = [
                *(with_more_choices(each, wanted.get(each.name)) for each in old.fields.own),
                *(wanted[name] for name in created),
            ]
            if dry_run:
                parse_fields(declared)
            else:
                await self._fields.declare(name, declared, old.etag)

        await retry_on_conflict(attempt, "list", name)
        return created

    async def _reject_unwanted(
        self,
        name: ListName,
        prepared: PreparedChunk,
        since: datetime | None,
        is_planned: Callable[[AddressKey], bool | None],
    ) -> None:
        """Reject the lines of addresses that are not on the list and unsubscribed (after `since`,
        if given), or lack a value that is required."""
        chunk = prepared.chunk
        asked = sorted(chunk.watched.keys() | chunk.incomplete.keys())
        work_left = iter(asked)
        reasons: dict[AddressKey, str] = {}

        async def work() -> None:
            for address in work_left:
                left_at: datetime | None = None
                if address in chunk.watched:
                    left_at = await self._unsubscribes.left_at(name, address)
                    if left_at is not None and since is not None and left_at <= since:
                        left_at = None
                if left_at is None and address not in chunk.incomplete:
                    continue
                is_there = is_planned(address)
                if is_there is None:
                    row = entities.email_row(address)
                    is_there = await self._rows.get(name, row) is not None
                if not is_there:
                    reasons[address] = _reason(left_at, chunk.incomplete.get(address, ""))

        await all_of(work() for _ in range(BATCHES_AT_ONCE))
        for address in asked:
            if address in reasons and address in chunk.wanted:
                del chunk.wanted[address]
                line = chunk.watched.get(address) or chunk.numbers[address]
                chunk.rejected.append(RejectedLine(line, address, reasons[address]))
        chunk.rejected.sort(key=lambda each: each.line)
        prepared.batches = await asyncio.to_thread(batches_of, chunk.wanted)


class _PartRun(msgspec.Struct):
    """The import of one CSV file; in an archive, rejected lines name it."""

    part: FilePart
    encoding: str | None
    left: UnsubscribedFrom | None
    since: datetime | None
    """Only those who unsubscribed later stay off the list."""
    progress: Progress | None
    on_rejected: OnRejected | None

    def reject(self, report: ImportReport, lines: list[RejectedLine]) -> None:
        if self.part.name:
            lines = [
                msgspec.structs.replace(each, reason=f"{each.reason} ({self.part.name})")
                for each in lines
            ]
        report.reject(lines)
        if self.on_rejected is not None:
            for line in lines:
                self.on_rejected(line)


def _with_progress(
    parts: list[FilePart], progress: Progress | None, file: BinaryIO
) -> Iterator[tuple[FilePart, Progress | None]]:
    """Yield each part with a function that converts its progress to that of the whole file."""
    if len(parts) == 1 and not parts[0].name:
        yield parts[0], progress
        return
    whole, size = sum(each.size for each in parts) or 1, file.seek(0, SEEK_END)
    before = 0
    for part in parts:
        yield part, partial(_scaled, progress, before, size / whole) if progress else None
        before += part.size


def _scaled(progress: Progress, before: int, scale: float, done: int, report: ImportReport) -> None:
    progress(int((before + done) * scale), report)


def _reason(left_at: datetime | None, missing: str) -> str:
    if left_at is not None:
        return f"unsubscribed on {left_at:%Y-%m-%d}: only the owner can subscribe again"
    return f"{missing} is required"


def _byte_progress(
    progress: Progress, before: int, chunk: Chunk, report: ImportReport
) -> Callable[[int], None]:
    """Convert addresses of a chunk to bytes of the file, precisely enough for a progress bar."""
    size = chunk.bytes_read - before

    def on_done(addresses: int) -> None:
        progress(before + size * min(addresses, len(chunk.wanted)) // len(chunk.wanted), report)

    return on_done
