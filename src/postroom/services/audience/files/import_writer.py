"""Writing the chunks of an import."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import AddressKey
from postroom.domain.audience.fields import check_size
from postroom.domain.audience.lists import ListName, Subscriber, SubscriberGuid, new_guids
from postroom.domain.errors import Invalid
from postroom.services import entities
from postroom.services.audience.departures import Departures
from postroom.services.audience.files.import_report import Existing, ImportReport, RejectedLine
from postroom.services.audience.files.meanings import Meaning
from postroom.services.audience.files.reading_ahead import (
    BATCH,
    AddressBatch,
    PreparedChunk,
    batches_of,
)
from postroom.services.audience.files.sign_up_details import consent_of, note_of, time_of
from postroom.services.audience.files.subscriber_lines import Chunk
from postroom.services.audience.list_growth import Figures, figures_of
from postroom.services.audience.subscriber_rows import insertion
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import Conflict, Entity, KeyRange, NotFound, Operation, Replace, Table

BATCHES_AT_ONCE = 32


class ImportWriter:
    """Writes the chunks of one import."""

    def __init__(
        self,
        rows: Table,
        departures: Departures,
        name: ListName,
        report: ImportReport,
        *,
        default_verified: bool,
        existing: Existing,
    ) -> None:
        self._rows = rows
        self._departures = departures
        self._list = name
        self._report = report
        self._default_verified = default_verified
        self._existing = existing
        self.former_names: dict[str, str] = {}
        """Of fields whose values are being renamed."""
        self._too_large: dict[AddressKey, RejectedLine] = {}
        self._now = clock.now()
        # As long as no address was on the list, rows are inserted without reading first.
        self._reads_first = report.dry_run
        self._unsubscribed: set[AddressKey] = set()
        self._blocked: set[AddressKey] = set()
        self._change = Figures()

    def taken_change(self) -> Figures:
        """Return how the list's figures have changed since the last call."""
        change, self._change = self._change, Figures()
        return Figures() if self._report.dry_run else change

    async def unsubscribe(self, prepared: PreparedChunk) -> None:
        """Remove addresses that unsubscribed according to a line of this or an earlier chunk."""
        chunk = prepared.chunk
        back = self._unsubscribed & chunk.wanted.keys() if self._unsubscribed else set()
        for each in back:
            del chunk.wanted[each]
            chunk.watched.pop(each, None)
        if back:
            self._report.unsubscribed += len(back)
            prepared.batches = await asyncio.to_thread(batches_of, chunk.wanted)
        self._unsubscribed.update(chunk.unsubscribed)
        self._blocked.update(chunk.blocked)
        unsubscribed = sorted(chunk.unsubscribed)
        for start in range(0, len(unsubscribed), BATCH):
            await self._unsubscribe(unsubscribed[start : start + BATCH])

    async def _unsubscribe(self, addresses: list[AddressKey]) -> None:
        there = {
            key: each for key, each in (await self._read(addresses)).items() if key in addresses
        }
        known = await self._departures.known(self._list, addresses)
        unchanged = len(known - there.keys())
        self._report.unchanged += unchanged
        self._report.unsubscribed += len(addresses) - unchanged
        if self._report.dry_run:
            return
        # Recorded first: an interruption may leave someone on the list, but is never forgotten.
        new = [each for each in addresses if each not in known]
        await self._departures.note_many(self._list, new, self._now)
        for subscriber in there.values():
            with suppress(NotFound):  # removed by another process at this moment
                await self._rows.apply(entities.subscriber_removal(subscriber))
                self._change += -figures_of(subscriber)

    def taken_rejected(self) -> list[RejectedLine]:
        """Return the lines that were rejected while they were written, since the last call."""
        rejected, self._too_large = list(self._too_large.values()), {}
        return rejected

    async def write(self, prepared: PreparedChunk, on_done: Callable[[int], None] | None) -> None:
        """Write a chunk; call `on_done` with how many of its addresses are done."""
        self._report.unchanged += prepared.chunk.repeated
        work_left = iter(prepared.batches)

        async def work() -> None:
            for batch in work_left:
                await self._write_batch(prepared.chunk, batch)
                if on_done is not None:
                    on_done(batch.end)

        await all_of(work() for _ in range(BATCHES_AT_ONCE))

    async def _write_batch(self, chunk: Chunk, batch: AddressBatch) -> None:
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
            too_large = len(self._too_large.keys() & set(addresses)) if self._too_large else 0
            self._report.unchanged += len(addresses) - added - updated - too_large
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
        single: dict[AddressKey, Subscriber] = {}
        updated = 0
        for address, guid in zip(addresses, guids, strict=True):
            said = chunk.wanted[address]
            old = there.get(address)
            if old is None:
                verified = self._default_verified if said is None else said
                if address in chunk.details:
                    single[address] = self._new(chunk, address, guid, verified=verified)
                else:
                    new[verified][address] = guid
                continue
            changed = self._changed(old, said, chunk.blocked.get(address))
            if (described := chunk.attributes.get(address)) is not None:
                changed = self._described(changed, described, chunk.numbers[address])
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
                    self._list,
                    added,
                    self._now,
                    verified_at,
                    chunk.blocked,
                    chunk.spellings,
                    chunk.attributes,
                )
        for subscriber in single.values():
            operations += insertion(subscriber)
            change += figures_of(subscriber)
        return operations, sum(map(len, new.values())) + len(single), updated, change

    def _new(
        self, chunk: Chunk, address: AddressKey, guid: SubscriberGuid, *, verified: bool
    ) -> Subscriber:
        """Return a subscriber whose line says more than an ordinary one."""
        details = chunk.details[address]
        joined = time_of(details.get(Meaning.JOINED, ""), self._now) or self._now
        confirmed = time_of(details.get(Meaning.CONFIRMED_AT, ""), self._now) or joined
        attributes = chunk.attributes.get(address)
        return Subscriber(
            list_name=self._list,
            address=chunk.spellings.get(address, address),
            guid=guid,
            verified=verified,
            created_at=joined,
            verified_at=confirmed if verified else None,
            blocked=chunk.blocked.get(address, ""),
            attributes=msgspec.json.decode(attributes) if attributes else {},
            note=note_of(details),
            consent=consent_of(details),
        )

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
        """Return the subscriber as its line says. A line does not confirm an address that an
        earlier line blocks: another file of the same tool may still list it as subscribed."""
        is_out = blocked is None and old.key in self._blocked
        if said is not None and said != old.verified and not is_out:
            verified_at = self._now if said else None
            old = msgspec.structs.replace(old, verified=said, verified_at=verified_at)
        return old if blocked is None else msgspec.structs.replace(old, blocked=blocked)

    def _described(self, old: Subscriber, attributes: str, line: int) -> Subscriber:
        """Return the subscriber with the values of its line, as far as it takes them."""
        if self._existing is Existing.KEEP:
            return old
        given: dict[str, Any] = msgspec.json.decode(attributes)
        merged = {**old.attributes, **given}
        if self._existing is Existing.FILL_GAPS:
            merged = {**given, **old.attributes}
        for name, former in self.former_names.items():
            if name in given and former in old.attributes:
                is_gap = self._existing is Existing.FILL_GAPS and name not in old.attributes
                del merged[name if is_gap else former]
        try:
            return msgspec.structs.replace(old, attributes=check_size(merged))
        except Invalid as exc:
            self._too_large[old.key] = RejectedLine(line, old.address, f"the fields {exc.problem}")
            return old

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


async def all_of(works: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Run all at the same time. If one fails, cancel the others and raise its error unchanged."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
