"""Subscribers into a list from a CSV file: any number, in flat memory.

- An address that is new is added. It is verified only if its line says so, or the caller says it
  for all lines that say nothing.
- Addresses that differ only in case are one: a list keeps the spelling that came first.
- An address that is on the list keeps its GUID and its age. Where its line says true or false, that
  counts (so a file that was exported, edited and imported again means what it says); a line that
  says nothing changes nothing. If a file names an address more than once, the last word counts.
- An address that is blocked stays so. A line that says why one is blocked blocks it.
- An address that has unsubscribed elsewhere, by its line, leaves the list, and is remembered as
  having left: no other line of the file and no later import brings it back.
- People who have unsubscribed stay away, and their line is reported, unless the
  caller wants them even so: only they can come back, by signing up.
- A line that cannot be used is reported, and does not stop the others. After too many of
  them the import stops (`unusable_lines.py`).
- An import that is cancelled stops reading at once.
- An import that was interrupted is finished by importing the same file again.

Lines are taken in chunks and sorted by address, and their GUIDs are in order too: so rows that are
neighbours in the store are written together, which is several times faster than in random order.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any, BinaryIO, TypeVar

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, AddressKey
from postroom.domain.audience.lists import ListName, Subscriber, SubscriberGuid, new_guids
from postroom.services import entities
from postroom.services.audience.departures import DepartedFrom, Departures
from postroom.services.audience.files.columns import Column, Meaning
from postroom.services.audience.files.subscriber_lines import Chunk, RejectedLine, SubscriberFile
from postroom.services.audience.files.unusable_lines import UnusableLines
from postroom.services.audience.list_counts import Figures, ListCounts, figures_of
from postroom.services.audience.lists import ListService
from postroom.services.events import EventService
from postroom.services.optimistic import retry_on_conflict
from postroom.storage import (
    Conflict,
    Entity,
    KeyRange,
    NotFound,
    Operation,
    Replace,
    Store,
    Table,
)

CHUNK_LINES = 20_000
BATCH = 50  # subscribers: two rows each make the 100 operations of one atomic batch
BATCHES_AT_ONCE = 32
REJECTED_KEPT = 10_000

T = TypeVar("T")


class ImportReport(msgspec.Struct):
    """What an import did, or would do (`dry_run`). Each line is in one of the first five counts.

    `unsubscribed` addresses are not on the list afterwards. Of all others, so many are `confirmed`
    that were not, and so many are `blocked` by their line. `errors` holds the first of the rejected
    lines; `rejected` counts them all. `sample` has the first rows as they are in the file.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    unsubscribed: int = 0
    rejected: int = 0
    confirmed: int = 0
    blocked: int = 0
    errors: list[RejectedLine] = []
    columns: list[Column] = []
    sample: list[list[str]] = []
    dry_run: bool = False

    @property
    def lines(self) -> int:
        return self.added + self.updated + self.unchanged + self.unsubscribed + self.rejected

    @property
    def ignored_columns(self) -> list[str]:
        """Return the names of the columns that are not used."""
        unused = (each.name for each in self.columns if each.meaning is Meaning.UNUSED)
        return [name for name in unused if name]


Progress = Callable[[int, ImportReport], None]
"""Told now and then: bytes of the file that are dealt with, and the report so far."""

OnRejected = Callable[[RejectedLine], None]


class ImportService:
    def __init__(
        self, store: Store, lists: ListService, counts: ListCounts, events: EventService
    ) -> None:
        self._rows = store.table(entities.LISTS)
        self._lists = lists
        self._departures = Departures(store)
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
        dry_run: bool = False,
        progress: Progress | None = None,
        on_rejected: OnRejected | None = None,
    ) -> ImportReport:
        """Put the addresses of a file on a list. `NoSuch` list; `Invalid` file.

        The file must allow seeking. `verified` counts for new addresses whose line says nothing.
        `even_unsubscribed` brings back those who have left. With `dry_run` nothing is written, and
        the report says what would be done; an address that is new and occurs again more than
        `CHUNK_LINES` later counts as added twice.
        """
        mailing_list = await self._lists.get(list_name)
        stop = threading.Event()
        source = await _in_thread(stop, lambda: SubscriberFile(file, encoding, stop))
        report = ImportReport(columns=source.columns, sample=source.sample, dry_run=dry_run)
        importing = _Importing(
            self._rows,
            self._departures,
            mailing_list.name,
            report,
            verified_unless_said=verified,
        )
        done = 0
        try:
            left = None
            if not even_unsubscribed:
                left = await self._departures.of_list(mailing_list.name)
            unusable = UnusableLines()
            async with aclosing(_read_ahead(source, left, stop)) as chunks:
                async for chunk in chunks:
                    await self._lists.get(list_name)  # it may have been deleted meanwhile
                    unusable.count(chunk.lines, chunk.empty, chunk.rejected)
                    await importing.unsubscribe(chunk)
                    if chunk.watched:
                        await self._leave_out_departed(mailing_list.name, chunk)
                    _note_rejected(report, chunk.rejected, on_rejected)
                    tell = _telling(progress, done, chunk, report) if progress else None
                    await importing.write(chunk, tell)
                    done = chunk.bytes_read
                    if progress and not chunk.wanted:  # nothing to write is progress, too
                        progress(done, report)
                    await self._counts.add(mailing_list.name, importing.taken_change())
                    unusable.check(added=report.added, updated=report.updated)
        finally:
            source.release()
        if dry_run:
            return report
        await self._events.record(
            "import",
            f"an import into {list_name} is finished: {report.added:,} added,"
            f" {report.updated:,} updated, {report.rejected:,} rejected",
            subject=f"list:{list_name}",
        )
        return report

    async def _leave_out_departed(self, name: ListName, chunk: _Prepared) -> None:
        """Those who left and are not on the list: reported, and taken out of what is written."""
        watched = sorted(chunk.watched.items())
        work_left = iter(watched)
        gone: dict[AddressKey, datetime] = {}

        async def work() -> None:
            for address, _ in work_left:
                left_at = await self._departures.left_at(name, address)
                if left_at is None:
                    continue
                if await self._rows.get(name, entities.email_row(address)) is None:
                    gone[address] = left_at

        await _all_of(work() for _ in range(BATCHES_AT_ONCE))
        for address, line in watched:
            if address in gone:
                del chunk.wanted[address]
                reason = (
                    f"unsubscribed on {gone[address]:%Y-%m-%d}: only its owner can come back, by"
                    " signing up"
                )
                chunk.rejected.append(RejectedLine(line, address, reason))
        chunk.rejected.sort(key=lambda each: each.line)
        chunk.batches = await asyncio.to_thread(_batches, chunk.wanted)


class _Batch(msgspec.Struct):
    """Neighbours in the order of addresses. `end`: so many of its chunk are done with it."""

    addresses: list[AddressKey]
    guids: list[SubscriberGuid]
    end: int


class _Prepared(msgspec.Struct):
    """A chunk of the file, ready to be written."""

    wanted: dict[AddressKey, bool | None]
    spellings: dict[AddressKey, Address]
    blocked: dict[AddressKey, str]
    watched: dict[AddressKey, int]
    unsubscribed: list[AddressKey]
    batches: list[_Batch]
    rejected: list[RejectedLine]
    lines: int
    empty: int
    repeated: int
    bytes_read: int


def _prepared(chunk: Chunk) -> _Prepared:
    return _Prepared(
        wanted=chunk.wanted,
        spellings=chunk.spellings,
        blocked=chunk.blocked,
        watched=chunk.watched,
        unsubscribed=sorted(chunk.unsubscribed),
        batches=_batches(chunk.wanted),
        rejected=chunk.rejected,
        lines=chunk.lines,
        empty=chunk.empty,
        repeated=chunk.repeated,
        bytes_read=chunk.bytes_read,
    )


def _batches(wanted: dict[AddressKey, bool | None]) -> list[_Batch]:
    addresses = sorted(wanted)
    guids = new_guids(len(addresses))
    return [
        _Batch(addresses[start : start + BATCH], guids[start : start + BATCH], start + BATCH)
        for start in range(0, len(addresses), BATCH)
    ]


class _Importing:
    """One import under way."""

    def __init__(
        self,
        rows: Table,
        departures: Departures,
        name: ListName,
        report: ImportReport,
        *,
        verified_unless_said: bool,
    ) -> None:
        self._rows = rows
        self._departures = departures
        self._list = name
        self._report = report
        self._verified_unless_said = verified_unless_said
        self._now = clock.now()
        # Whether to look first: as long as nothing was there, an insertion is tried blindly.
        self._look_first = report.dry_run
        self._unsubscribed: set[AddressKey] = set()
        self._change = Figures()

    def taken_change(self) -> Figures:
        """Return how the list's figures have changed since this was asked last."""
        change, self._change = self._change, Figures()
        return Figures() if self._report.dry_run else change

    async def unsubscribe(self, chunk: _Prepared) -> None:
        """Let those leave whose line says that they did; earlier chunks' are not wanted, either."""
        back = self._unsubscribed & chunk.wanted.keys() if self._unsubscribed else set()
        for each in back:
            del chunk.wanted[each]
            chunk.watched.pop(each, None)
        if back:
            self._report.unsubscribed += len(back)
            chunk.batches = await asyncio.to_thread(_batches, chunk.wanted)
        self._unsubscribed.update(chunk.unsubscribed)
        self._report.unsubscribed += len(chunk.unsubscribed)
        if self._report.dry_run:
            return
        for start in range(0, len(chunk.unsubscribed), BATCH):
            addresses = chunk.unsubscribed[start : start + BATCH]
            # Remembered first: an interruption leaves somebody on the list, never out of mind.
            await self._departures.note_many(self._list, addresses, self._now)
            for subscriber in (await self._read(addresses)).values():
                if subscriber.key in addresses:
                    with suppress(NotFound):  # they left by themselves at this moment
                        await self._rows.apply(entities.subscriber_removal(subscriber))
                        self._change += -figures_of(subscriber)

    async def write(self, chunk: _Prepared, tell: Callable[[int], None] | None) -> None:
        """Write all of a chunk; `tell` is told how many of its addresses are done."""
        self._report.unchanged += chunk.repeated
        work_left = iter(chunk.batches)

        async def work() -> None:
            for batch in work_left:
                await self._write_batch(chunk, batch)
                if tell is not None:
                    tell(batch.end)

        await _all_of(work() for _ in range(BATCHES_AT_ONCE))

    async def _write_batch(self, chunk: _Prepared, batch: _Batch) -> None:
        """Add those that are new and change the others. Somebody else may do so, too."""
        addresses, guids = batch.addresses, batch.guids

        async def attempt() -> None:
            nonlocal guids
            there: dict[AddressKey, Subscriber] = {}
            if self._look_first:
                there = await self._read(addresses)
                self._look_first = bool(there) or self._report.dry_run
            operations, added, updated, change = self._operations(chunk, addresses, guids, there)
            try:
                if operations and not self._report.dry_run:
                    await self._rows.apply(operations)
            except Conflict:
                self._look_first = True
                guids = new_guids(len(addresses))  # one of them may be taken
                raise
            self._change += change
            self._report.added += added
            self._report.updated += updated
            self._report.unchanged += len(addresses) - added - updated
            self._count_states(chunk, addresses, there)

        await retry_on_conflict(attempt, "list", self._list)

    def _operations(
        self,
        chunk: _Prepared,
        addresses: list[AddressKey],
        guids: list[SubscriberGuid],
        there: dict[AddressKey, Subscriber],
    ) -> tuple[list[Operation], int, int, Figures]:
        """Return what is to be done for these addresses; how many are added, how many changed; and
        how that changes the list's figures."""
        change = Figures()
        operations: list[Operation] = []
        new: dict[bool, dict[AddressKey, SubscriberGuid]] = {True: {}, False: {}}
        updated = 0
        for address, guid in zip(addresses, guids, strict=True):
            said = chunk.wanted[address]
            old = there.get(address)
            if old is None:
                new[self._verified_unless_said if said is None else said][address] = guid
                continue
            changed = self._changed(old, said, chunk.blocked.get(address))
            if changed != old:
                operations.append(Replace(entities.subscriber_entity(changed), old.etag))
                updated += 1
                change += figures_of(changed) + -figures_of(old)
        for verified, added in new.items():
            if added:
                blocked = len(chunk.blocked.keys() & added.keys()) if chunk.blocked else 0
                change += Figures(
                    len(added), len(added) * verified, (len(added) - blocked) * verified
                )
                verified_at = self._now if verified else None
                operations += entities.new_subscribers(
                    self._list, added, self._now, verified_at, chunk.blocked, chunk.spellings
                )
        return operations, sum(map(len, new.values())), updated, change

    def _count_states(
        self, chunk: _Prepared, addresses: list[AddressKey], there: dict[AddressKey, Subscriber]
    ) -> None:
        """Count who is confirmed now and was not, and whom a line blocks."""
        wanted, default = chunk.wanted, self._verified_unless_said
        for address in addresses:
            said = wanted[address]
            if address in there:
                self._report.confirmed += bool(said) and not there[address].verified
            else:
                self._report.confirmed += default if said is None else said
        if chunk.blocked:
            self._report.blocked += len(chunk.blocked.keys() & set(addresses))

    def _changed(self, old: Subscriber, said: bool | None, blocked: str | None) -> Subscriber:
        """As the line wants it."""
        if said is not None and said != old.verified:
            verified_at = self._now if said else None
            old = msgspec.structs.replace(old, verified=said, verified_at=verified_at)
        return old if blocked is None else msgspec.structs.replace(old, blocked=blocked)

    async def _read(self, addresses: list[AddressKey]) -> dict[AddressKey, Subscriber]:
        """Those that are on the list already.

        They are neighbours in the order of keys, so one query finds them, unless so many others
        lie between that it is better to ask for each.
        """
        first, last = entities.email_row(addresses[0]), entities.email_row(addresses[-1])
        result = await self._rows.query(
            KeyRange.only(self._list), KeyRange.between(first, last), limit=4 * BATCH
        )
        rows: Sequence[Entity | None] = result.entities
        if result.next is not None:
            rows = await asyncio.gather(
                *(self._rows.get(self._list, entities.email_row(each)) for each in addresses)
            )
        found = (entities.subscriber_from(each) for each in rows if each is not None)
        return {each.key: each for each in found}


async def _read_ahead(
    source: SubscriberFile, left: DepartedFrom | None, stop: threading.Event
) -> AsyncGenerator[_Prepared]:
    """The file's chunks; while one is being used, the next is made ready in a thread.

    Watched are those who may have left.
    """
    watch = left.may_hold if left else None
    chunks = map(_prepared, source.chunks(CHUNK_LINES, watch))

    def following() -> asyncio.Task[_Prepared | None]:
        return asyncio.create_task(_in_thread(stop, lambda: next(chunks, None)))

    coming = following()
    try:
        while (chunk := await coming) is not None:
            coming = following()
            yield chunk
    finally:
        stop.set()
        await asyncio.wait([coming])


async def _in_thread(stop: threading.Event, work: Callable[[], T]) -> T:
    """Work in a thread. If this is cancelled, the thread is told to stop, and has stopped before
    anybody takes its file away."""
    running = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([running])
        raise


async def _all_of(works: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Do all at once. If one fails the others are stopped, and its error is raised as it is."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _telling(
    progress: Progress, before: int, chunk: _Prepared, report: ImportReport
) -> Callable[[int], None]:
    """From addresses of a chunk to bytes of the file: near enough for a progress bar."""
    size = chunk.bytes_read - before

    def tell(addresses: int) -> None:
        progress(before + size * min(addresses, len(chunk.wanted)) // len(chunk.wanted), report)

    return tell


def _note_rejected(
    report: ImportReport, rejected: list[RejectedLine], tell: OnRejected | None
) -> None:
    report.rejected += len(rejected)
    report.errors += rejected[: max(0, REJECTED_KEPT - len(report.errors))]
    if tell is not None:
        for each in rejected:
            tell(each)
