"""Import of subscribers from a CSV file of any size, in constant memory.

- A new address is added. It is verified if its line says so, or if its line says nothing and the
  caller wants all of those verified.
- Addresses that differ only in case are one; the list keeps the spelling that came first.
- An address that is on the list keeps its GUID and age. Its line can verify or unverify it, so that
  a file can be exported, edited and imported again. If a file has an address more than once, the
  last line that says something counts.
- A blocked address stays blocked. A line with a reason blocks its address.
- An address that has unsubscribed elsewhere, according to its line, is removed and recorded as a
  departure: no other line of the file and no later import adds it again.
- Subscribers who unsubscribed here are rejected, unless the caller re-subscribes them.
- A line that cannot be used is reported, and does not stop the others, unless there are too many.
- A cancelled import stops reading at once. An interrupted one is finished by importing again.

Lines are read in chunks and sorted by address, and their GUIDs are in order, too. So rows that are
written together are stored together, which is several times faster than random order.
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
from postroom.domain.audience.addresses import AddressKey
from postroom.domain.audience.lists import ListName, Subscriber, SubscriberGuid, new_guids
from postroom.services import entities
from postroom.services.audience.departures import DepartedFrom, Departures
from postroom.services.audience.files.import_report import ImportReport, RejectedLine, UnusableLines
from postroom.services.audience.files.subscriber_lines import Chunk, SubscriberFile
from postroom.services.audience.list_growth import Figures, ListCounts, figures_of
from postroom.services.audience.lists import ListService
from postroom.services.concurrency import retry_on_conflict
from postroom.services.events import EventService
from postroom.storage import Conflict, Entity, KeyRange, NotFound, Operation, Replace, Store, Table

CHUNK_LINES = 20_000
BATCH = 50  # subscribers: two rows each make the 100 operations of one atomic batch
BATCHES_AT_ONCE = 32

T = TypeVar("T")


Progress = Callable[[int, ImportReport], None]
"""Called with the bytes of the file that are done, and the report so far."""

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
        """Import a file, which must be seekable. `NoSuch` list; `Invalid` file.

        `verified` is for new addresses whose line says nothing. `even_unsubscribed` re-subscribes
        people who unsubscribed. With `dry_run` nothing is written, and the report says what would
        be done; a new address that occurs again more than `CHUNK_LINES` later counts twice.
        """
        name = (await self._lists.get(list_name)).name
        stop = threading.Event()
        source = await _in_thread(stop, lambda: SubscriberFile(file, encoding, stop))
        report = ImportReport(columns=source.columns, sample=source.sample, dry_run=dry_run)
        importing = _ImportWriter(
            self._rows, self._departures, name, report, default_verified=verified
        )
        done = 0
        try:
            left = None if even_unsubscribed else await self._departures.of_list(name)
            unusable = UnusableLines()
            async with aclosing(_read_ahead(source, left, stop)) as chunks:
                async for prepared in chunks:
                    chunk = prepared.chunk
                    await self._lists.get(list_name)  # it may have been deleted meanwhile
                    unusable.count(chunk.lines, chunk.empty, chunk.rejected)
                    await importing.unsubscribe(prepared)
                    if chunk.watched:
                        await self._reject_departed(name, prepared)
                    report.reject(chunk.rejected)
                    if on_rejected is not None:
                        for line in chunk.rejected:
                            on_rejected(line)
                    on_done = _byte_progress(progress, done, chunk, report) if progress else None
                    await importing.write(prepared, on_done)
                    done = chunk.bytes_read
                    if progress and not chunk.wanted:  # nothing to write is progress, too
                        progress(done, report)
                    await self._counts.add(name, importing.taken_change())
                    unusable.check(added=report.added, updated=report.updated)
        finally:
            source.release()
        if dry_run:
            return report
        await self._events.record(
            "import",
            f"import into {list_name} finished: {report.added:,} added,"
            f" {report.updated:,} updated, {report.rejected:,} rejected",
            subject=f"list:{list_name}",
        )
        return report

    async def _reject_departed(self, name: ListName, prepared: _PreparedChunk) -> None:
        """Reject the lines of addresses that unsubscribed and are not on the list."""
        chunk = prepared.chunk
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
                left = f"{gone[address]:%Y-%m-%d}"
                reason = f"unsubscribed on {left}: only the owner can subscribe again"
                chunk.rejected.append(RejectedLine(line, address, reason))
        chunk.rejected.sort(key=lambda each: each.line)
        prepared.batches = await asyncio.to_thread(_batches, chunk.wanted)


class _AddressBatch(msgspec.Struct):
    """Neighbouring addresses; with them, `end` addresses of the chunk are done."""

    addresses: list[AddressKey]
    guids: list[SubscriberGuid]
    end: int


class _PreparedChunk(msgspec.Struct):
    """A chunk of the file, ready to be written."""

    chunk: Chunk
    batches: list[_AddressBatch]


def _batches(wanted: dict[AddressKey, bool | None]) -> list[_AddressBatch]:
    addresses = sorted(wanted)
    guids = new_guids(len(addresses))
    return [
        _AddressBatch(addresses[start : start + BATCH], guids[start : start + BATCH], start + BATCH)
        for start in range(0, len(addresses), BATCH)
    ]


class _ImportWriter:
    """Writes the chunks of one import."""

    def __init__(
        self,
        rows: Table,
        departures: Departures,
        name: ListName,
        report: ImportReport,
        *,
        default_verified: bool,
    ) -> None:
        self._rows = rows
        self._departures = departures
        self._list = name
        self._report = report
        self._default_verified = default_verified
        self._now = clock.now()
        # As long as no address was on the list, rows are inserted without reading first.
        self._reads_first = report.dry_run
        self._unsubscribed: set[AddressKey] = set()
        self._change = Figures()

    def taken_change(self) -> Figures:
        """Return how the list's figures have changed since the last call."""
        change, self._change = self._change, Figures()
        return Figures() if self._report.dry_run else change

    async def unsubscribe(self, prepared: _PreparedChunk) -> None:
        """Remove addresses that unsubscribed according to a line of this or an earlier chunk."""
        chunk = prepared.chunk
        back = self._unsubscribed & chunk.wanted.keys() if self._unsubscribed else set()
        for each in back:
            del chunk.wanted[each]
            chunk.watched.pop(each, None)
        if back:
            self._report.unsubscribed += len(back)
            prepared.batches = await asyncio.to_thread(_batches, chunk.wanted)
        self._unsubscribed.update(chunk.unsubscribed)
        self._report.unsubscribed += len(chunk.unsubscribed)
        if self._report.dry_run:
            return
        unsubscribed = sorted(chunk.unsubscribed)
        for start in range(0, len(unsubscribed), BATCH):
            addresses = unsubscribed[start : start + BATCH]
            # Recorded first: an interruption may leave someone on the list, but is never forgotten.
            await self._departures.note_many(self._list, addresses, self._now)
            for subscriber in (await self._read(addresses)).values():
                if subscriber.key in addresses:
                    with suppress(NotFound):  # removed by another process at this moment
                        await self._rows.apply(entities.subscriber_removal(subscriber))
                        self._change += -figures_of(subscriber)

    async def write(self, prepared: _PreparedChunk, on_done: Callable[[int], None] | None) -> None:
        """Write a chunk; call `on_done` with how many of its addresses are done."""
        self._report.unchanged += prepared.chunk.repeated
        work_left = iter(prepared.batches)

        async def work() -> None:
            for batch in work_left:
                await self._write_batch(prepared.chunk, batch)
                if on_done is not None:
                    on_done(batch.end)

        await _all_of(work() for _ in range(BATCHES_AT_ONCE))

    async def _write_batch(self, chunk: Chunk, batch: _AddressBatch) -> None:
        """Add new addresses and change the others, even if other processes do so, too."""
        addresses, guids = batch.addresses, batch.guids

        async def attempt() -> None:
            nonlocal guids
            there: dict[AddressKey, Subscriber] = {}
            if self._reads_first:
                there = await self._read(addresses)
                self._reads_first = bool(there) or self._report.dry_run
            operations, added, updated, change = self._operations(chunk, addresses, guids, there)
            try:
                if operations and not self._report.dry_run:
                    await self._rows.apply(operations)
            except Conflict:
                self._reads_first = True
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
        chunk: Chunk,
        addresses: list[AddressKey],
        guids: list[SubscriberGuid],
        there: dict[AddressKey, Subscriber],
    ) -> tuple[list[Operation], int, int, Figures]:
        """Return the operations for these addresses, how many are added, how many are changed, and
        the change of the list's figures."""
        change = Figures()
        operations: list[Operation] = []
        new: dict[bool, dict[AddressKey, SubscriberGuid]] = {True: {}, False: {}}
        updated = 0
        for address, guid in zip(addresses, guids, strict=True):
            said = chunk.wanted[address]
            old = there.get(address)
            if old is None:
                new[self._default_verified if said is None else said][address] = guid
                continue
            changed = self._changed(old, said, chunk.blocked.get(address))
            if changed != old:
                operations.append(Replace(entities.subscriber_entity(changed), old.etag))
                updated += 1
                change += figures_of(changed) + -figures_of(old)
        for verified, added in new.items():
            if added:
                blocked = len(chunk.blocked.keys() & added.keys()) if chunk.blocked else 0
                receiving = (len(added) - blocked) * verified
                change += Figures(len(added), len(added) * verified, receiving)
                verified_at = self._now if verified else None
                operations += entities.new_subscribers(
                    self._list, added, self._now, verified_at, chunk.blocked, chunk.spellings
                )
        return operations, sum(map(len, new.values())), updated, change

    def _count_states(
        self, chunk: Chunk, addresses: list[AddressKey], there: dict[AddressKey, Subscriber]
    ) -> None:
        """Count the newly confirmed and those that their line blocks."""
        wanted, default = chunk.wanted, self._default_verified
        for address in addresses:
            said = wanted[address]
            if address in there:
                self._report.confirmed += bool(said) and not there[address].verified
            else:
                self._report.confirmed += default if said is None else said
        if chunk.blocked:
            self._report.blocked += len(chunk.blocked.keys() & set(addresses))

    def _changed(self, old: Subscriber, said: bool | None, blocked: str | None) -> Subscriber:
        """Return the subscriber as its line says."""
        if said is not None and said != old.verified:
            verified_at = self._now if said else None
            old = msgspec.structs.replace(old, verified=said, verified_at=verified_at)
        return old if blocked is None else msgspec.structs.replace(old, blocked=blocked)

    async def _read(self, addresses: list[AddressKey]) -> dict[AddressKey, Subscriber]:
        """Return those of these addresses that are on the list.

        They are close together in key order, so one query finds them; if there are too many others
        in between, each is read on its own.
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
) -> AsyncGenerator[_PreparedChunk]:
    """Yield the file's chunks; while one is used, the next is prepared in a thread.

    Addresses that may have unsubscribed are watched.
    """
    watch = left.may_hold if left else None
    read = source.chunks(CHUNK_LINES, watch)
    chunks = (_PreparedChunk(chunk, _batches(chunk.wanted)) for chunk in read)

    def following() -> asyncio.Task[_PreparedChunk | None]:
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
    """Run `work` in a thread. When cancelled, stop the thread and wait for it: it uses a file that
    the caller will close."""
    running = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([running])
        raise


async def _all_of(works: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Run all at the same time. If one fails, cancel the others and raise its error unchanged."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _byte_progress(
    progress: Progress, before: int, chunk: Chunk, report: ImportReport
) -> Callable[[int], None]:
    """Convert addresses of a chunk to bytes of the file, precisely enough for a progress bar."""
    size = chunk.bytes_read - before

    def on_done(addresses: int) -> None:
        progress(before + size * min(addresses, len(chunk.wanted)) // len(chunk.wanted), report)

    return on_done
