"""Writing the chunks of an import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import AddressKey
from postroom.domain.audience.consent import (
    BY_IMPORT,
    ConsentSource,
    act_between,
    arrival,
    import_entry,
)
from postroom.domain.audience.fields import check_size
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid, new_guids
from postroom.domain.audience.suppressions import Suppression
from postroom.domain.errors import Invalid
from postroom.services import entities
from postroom.services.audience.consent.ledger_rows import LedgerRows, import_entity, inserts
from postroom.services.audience.files.columns.meanings import Meaning
from postroom.services.audience.files.import_report import Existing, ImportReport, RejectedLine
from postroom.services.audience.files.line_chunks import Chunk
from postroom.services.audience.files.reading_ahead import AddressBatch, PreparedChunk
from postroom.services.audience.files.sign_up_details import consent_of, note_of, time_of
from postroom.services.audience.files.writing.blocked_lines import BlockedLines
from postroom.services.audience.files.writing.planned_rows import PlannedRows
from postroom.services.audience.files.writing.unsubscribed_lines import UnsubscribedLines
from postroom.services.audience.growth.list_growth import Figures, figures_of
from postroom.services.audience.signup.foreign_ids import ForeignIds
from postroom.services.audience.signup.unsubscribes import Unsubscribes
from postroom.services.audience.suppression.suppression_rows import blocked_by
from postroom.services.concurrency import all_of, retry_on_conflict
from postroom.services.row_ranges import neighbours
from postroom.storage import Conflict, Insert, Operation, Replace, Table

BATCHES_AT_ONCE = 32
_CHANGES = 33  # subscribers: each with look-up row and entry, in the 100 operations of a batch

_SOURCE = arrival(BY_IMPORT)
"""How new subscribers came to the list, regardless of who imports them."""


class ImportWriter:
    """Writes the chunks of one import."""

    def __init__(
        self,
        rows: Table,
        unsubscribes: Unsubscribes,
        blocked_lines: BlockedLines,
        foreign_ids: ForeignIds,
        name: ListName,
        report: ImportReport,
        *,
        default_verified: bool,
        existing: Existing,
        source: ConsentSource,
        planned: PlannedRows | None = None,
    ) -> None:
        """In a dry run, `planned` has what would have been written."""
        self._rows = rows
        self._ledger = LedgerRows(rows)
        self._source = source
        self._foreign_ids = foreign_ids
        self._blocked_lines = blocked_lines
        self._owners: dict[str, SubscriberGuid] = {}
        """Of ids of another tool, in the chunk that is being written."""
        self._suppressed: dict[AddressKey, list[Suppression]] = {}
        """The suppressions of addresses of the chunk that is being written."""
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
        self._planned = planned
        self._unsubscribed = UnsubscribedLines(
            rows, unsubscribes, name, report, source, self._now, planned
        )
        self._blocked: set[AddressKey] = set()
        """By their lines. A later line does not confirm them: another file of the same tool may
        still list them as subscribed."""
        self._change = Figures()

    def taken_change(self) -> Figures:
        """Return how the list's figures have changed since the last call."""
        change, self._change = self._change, Figures()
        return Figures() if self._report.dry_run else change

    def is_planned(self, address: AddressKey) -> bool | None:
        """Return whether the address would be on the list after the lines so far of a dry run; None
        if they do not change that."""
        return None if self._planned is None else self._planned.has(address)

    async def suppress(self, chunk: Chunk) -> None:
        """Suppress addresses as lines say, and find those that must not receive email; they are
        blocked as they are written."""
        self._suppressed = await self._blocked_lines.suppress(chunk)
        for address in self._suppressed.keys() & chunk.wanted.keys():
            chunk.details.setdefault(address, {})

    async def unsubscribe(self, prepared: PreparedChunk) -> None:
        """Remove addresses that unsubscribed according to a line of this or an earlier chunk."""
        self._blocked.update(prepared.chunk.blocked, prepared.chunk.blockings)
        self._change += await self._unsubscribed.remove(prepared)

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
        if self._owners and not self._report.dry_run:
            await self._foreign_ids.note(self._list, self._owners)
        self._owners = {}

    async def _write_batch(self, chunk: Chunk, batch: AddressBatch) -> None:
        """Add new addresses and change the others, even if other processes do so, too."""
        addresses, guids = batch.addresses, batch.guids
        if not self._reads_first:
            try:
                await self._write_part(chunk, addresses, guids, {})
                return
            except Conflict:
                self._reads_first = True
                guids = new_guids(len(addresses))  # one of them may be taken
        for start in range(0, len(addresses), _CHANGES):
            part = slice(start, start + _CHANGES)
            await self._write_slowly(chunk, addresses[part], guids[part])

    async def _write_slowly(
        self, chunk: Chunk, addresses: list[AddressKey], guids: list[SubscriberGuid]
    ) -> None:
        """Read first which addresses are on the list."""

        async def attempt() -> None:
            nonlocal guids
            there = await neighbours(self._rows, self._list, addresses)
            if self._planned is not None:
                there = self._planned.over(there, addresses)
            self._reads_first = bool(there) or self._report.dry_run
            try:
                await self._write_part(chunk, addresses, guids, there)
            except Conflict:
                self._reads_first = True
                guids = new_guids(len(addresses))
                raise

        await retry_on_conflict(attempt, "list", self._list)

    async def _write_part(
        self,
        chunk: Chunk,
        addresses: list[AddressKey],
        guids: list[SubscriberGuid],
        there: dict[AddressKey, Subscriber],
    ) -> None:
        """Write addresses in one batch, and count them. `Conflict`."""
        operations, added, changed, change = self._operations(chunk, addresses, guids, there)
        if self._planned is None:
            operations += await self._replacements(changed)
            await self._apply(operations, changed)
        else:
            self._planned.put(
                self._new(chunk, address, guid)
                for address, guid in zip(addresses, guids, strict=True)
                if address not in there
            )
            self._planned.put(new for _, new in changed)
        self._change += change
        self._report.added += added
        self._report.updated += len(changed)
        too_large = len(self._too_large.keys() & set(addresses)) if self._too_large else 0
        self._report.unchanged += len(addresses) - added - len(changed) - too_large
        self._report.confirmed += sum(new.verified and not old.verified for old, new in changed)
        self._count_states(chunk, addresses, there)
        if chunk.details:
            self._note_owners(chunk, addresses, guids, there)

    def _note_owners(
        self,
        chunk: Chunk,
        addresses: list[AddressKey],
        guids: list[SubscriberGuid],
        there: dict[AddressKey, Subscriber],
    ) -> None:
        for address, guid in zip(addresses, guids, strict=True):
            foreign_id = chunk.details.get(address, {}).get(Meaning.FOREIGN_ID)
            if foreign_id:
                self._owners[foreign_id] = there[address].guid if address in there else guid

    async def _apply(
        self, operations: list[Operation], changed: list[tuple[Subscriber, Subscriber]]
    ) -> None:
        try:
            if operations:
                await self._rows.apply(operations)
        except Conflict:
            for old, _ in changed:
                self._ledger.note_conflict(old.guid)
            raise

    def _operations(
        self,
        chunk: Chunk,
        addresses: list[AddressKey],
        guids: list[SubscriberGuid],
        there: dict[AddressKey, Subscriber],
    ) -> tuple[list[Operation], int, list[tuple[Subscriber, Subscriber]], Figures]:
        """Return the operations that add new addresses, how many those are, the subscribers that
        are changed (before and after), and the change of the list's figures."""
        change = Figures()
        operations: list[Operation] = []
        new: dict[bool, dict[AddressKey, SubscriberGuid]] = {True: {}, False: {}}
        single: dict[AddressKey, Subscriber] = {}
        replaced: list[tuple[Subscriber, Subscriber]] = []
        for address, guid in zip(addresses, guids, strict=True):
            said = chunk.wanted[address]
            old = there.get(address)
            if old is None:
                verified = self._default_verified if said is None else said
                if address in chunk.details:
                    single[address] = self._new(chunk, address, guid)
                else:
                    new[verified][address] = guid
                continue
            is_out = address in self._blocked and not chunk.blocks(address)
            changed = self._changed(old, None if is_out else said, chunk.blocked.get(address))
            if (described := chunk.attributes.get(address)) is not None:
                changed = self._described(changed, described, chunk.numbers[address])
            if address in self._suppressed:
                changed = blocked_by(changed, self._suppressed[address], self._now)
            if changed != old:
                replaced.append((old, changed))
                change += figures_of(changed) - figures_of(old)
        members = [*new[True].values(), *new[False].values(), *(s.guid for s in single.values())]
        entry = import_entry(self._list, members, self._source.origin, self._now)
        if members:
            operations.append(Insert(import_entity(entry)))
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
                    str(entry.head),
                    _SOURCE,
                )
        for subscriber in single.values():
            operations += inserts(subscriber, entry.head)
            change += figures_of(subscriber)
        return operations, len(members), replaced, change

    async def _replacements(self, changed: list[tuple[Subscriber, Subscriber]]) -> list[Operation]:
        """Return the operations that replace subscribers, each with an entry in the ledger."""
        operations: list[Operation] = [
            Replace(entities.subscriber_entity(new), old.etag) for old, new in changed
        ]
        if not changed:
            return operations
        heads = await self._ledger.heads(self._list, [old.guid for old, _ in changed])
        for old, new in changed:
            if (act := act_between(old, new)) is not None:
                head = heads[old.guid]
                operations += await self._ledger.added(new, act[0], self._source, act[1], head)
        return operations

    def _new(self, chunk: Chunk, address: AddressKey, guid: SubscriberGuid) -> Subscriber:
        """Return a new subscriber, whose line may say more than an ordinary one."""
        details = chunk.details.get(address, {})
        said = chunk.wanted[address]
        verified = self._default_verified if said is None else said
        joined = time_of(details.get(Meaning.JOINED, ""), self._now) or self._now
        confirmed = time_of(details.get(Meaning.CONFIRMED_AT, ""), self._now) or joined
        attributes = chunk.attributes.get(address)
        new = Subscriber(
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
            source=_SOURCE,
        )
        return blocked_by(new, self._suppressed.get(address, ()), self._now)

    def _count_states(
        self, chunk: Chunk, addresses: list[AddressKey], there: dict[AddressKey, Subscriber]
    ) -> None:
        """Count the newly confirmed and those that their line or a suppression blocks."""
        wanted, default = chunk.wanted, self._default_verified
        for address in addresses:
            said = wanted[address]
            if address not in there:
                self._report.confirmed += default if said is None else said
        if chunk.blocked:
            self._report.blocked += len(chunk.blocked.keys() & set(addresses))
        if self._suppressed:
            by_suppression = self._suppressed.keys() - chunk.blocked.keys()
            self._report.blocked += sum(
                address in chunk.blockings or not (address in there and there[address].blocked)
                for address in by_suppression & set(addresses)
            )

    def _changed(self, old: Subscriber, said: bool | None, blocked: str | None) -> Subscriber:
        """Return the subscriber as its line says."""
        if said is not None and said != old.verified:
            verified_at = self._now if said else None
            old = msgspec.structs.replace(old, verified=said, verified_at=verified_at)
        if blocked is None or old.is_suppressed:
            return old
        return msgspec.structs.replace(old, blocked=blocked)

    def _described(self, old: Subscriber, attributes: str, line: int) -> Subscriber:
        """Return the subscriber with the values of its line, as far as it takes them."""
        if self._existing is Existing.KEEP:
            return old
        given: dict[str, Any] = msgspec.json.decode(attributes)
        fills = self._existing is Existing.FILL_GAPS
        if old.source and (fills or given.get("source") == old.source):
            given.pop("source", None)  # it is known, or the file is an export of ours
        merged = {**old.attributes, **given}
        if fills:
            merged = {**given, **old.attributes}
        for name, former in self.former_names.items():
            if name in given and former in old.attributes:
                is_gap = fills and name not in old.attributes
                del merged[name if is_gap else former]
        try:
            return msgspec.structs.replace(old, attributes=check_size(merged))
        except Invalid as exc:
            self._too_large[old.key] = RejectedLine(line, old.address, f"the fields {exc.problem}")
            return old
