"""The consent ledger: the history of a person, its verification, and what erasing leaves of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.consent import (
    ConsentAction,
    ConsentEntry,
    ImportEntry,
    LedgerHead,
    first_fault,
    next_entry,
    parse_head,
)
from postroom.domain.audience.former_addresses import FormerAddress
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid
from postroom.services import entities
from postroom.services.audience.consent.ledger_rows import (
    ENTRIES,
    OWNERS,
    EntryRow,
    LedgerRows,
    entry_entity,
    entry_from,
    entry_row,
    owner_row,
)
from postroom.services.audience.former_rows import former_of_owner, formerly_row
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import Entity, Insert, KeyRange, NotFound, Replace, Store

S = TypeVar("S", bound=msgspec.Struct)

_ROWS: Final = 1000
_BATCH: Final = 100  # the operations of one batch of the store


class ConsentHistory(msgspec.Struct, frozen=True):
    """Everything that the ledger says about one subscription, oldest first. `fault` says what is
    wrong with the chain, "" if nothing is."""

    list_name: ListName
    imported: ImportEntry | None
    entries: list[ConsentEntry]
    fault: str


class LedgerFault(msgspec.Struct, frozen=True):
    """A chain that does not fit together."""

    list_name: ListName
    guid: SubscriberGuid
    fault: str


class LedgerReport(msgspec.Struct):
    """What a verification has found so far."""

    chains: int = 0
    entries: int = 0


class ConsentLedger:
    def __init__(self, store: Store) -> None:
        self._table = store.table(entities.LISTS)
        self._rows = LedgerRows(self._table)
        self._last_import: ImportEntry | None = None

    async def of_subscriber(self, subscriber: Subscriber) -> ConsentHistory | None:
        """Return the history of a subscriber; None if it began before the ledger and nothing has
        happened since."""
        lookup = await self._table.get(subscriber.list_name, entities.guid_row(subscriber.guid))
        text = None if lookup is None else entities.read_optional(lookup, entities.LEDGER, str)
        head = parse_head(text) if text else LedgerHead()
        history = await self._history(subscriber.list_name, subscriber.guid, head)
        return history if history.entries or history.imported or history.fault else None

    async def of_departed(self, list_name: ListName, address: Address) -> list[ConsentHistory]:
        """Return the histories of subscriptions to a list that have ended."""
        guids = await self.departed(list_name, address)
        return [await self._history(list_name, guid, None) for guid in guids]

    async def _history(
        self, list_name: ListName, guid: SubscriberGuid, head: LedgerHead | None
    ) -> ConsentHistory:
        entries = await self._rows.entries(list_name, guid)
        imported, fault = await self._checked(list_name, guid, entries, head)
        return ConsentHistory(list_name, imported, entries, fault)

    async def _checked(
        self,
        list_name: ListName,
        guid: SubscriberGuid,
        entries: list[ConsentEntry],
        head: LedgerHead | None,
    ) -> tuple[ImportEntry | None, str]:
        """Return the import that a chain continues from, and what is wrong with the chain."""
        before = entries[0].previous if entries and entries[0].number == 1 else ""
        if not entries and head is not None and head.number == 0:
            before = head.hash
        if not before:
            is_empty = not entries and head == LedgerHead()
            return None, "" if is_empty else first_fault(entries, LedgerHead(), head)
        root = self._last_import  # subscribers of one import have neighbouring GUIDs
        if root is None or root.hash != before or root.list_name != list_name:
            root = await self._rows.imported(list_name, before)
            if root is None:
                return None, "the entry of its import is missing"
            if not root.is_intact:
                return None, "the entry of its import was changed"
            self._last_import = root
        if not root.has(guid):
            return None, "the entry of its import does not name the subscriber"
        return root, first_fault(entries, root.head, head) if entries else ""

    async def departed(self, list_name: ListName, address: Address) -> list[SubscriberGuid]:
        """Return the GUIDs of subscriptions to a list that have ended."""
        owners = await self._owners(list_name, address)
        return [SubscriberGuid(each.row.rpartition(",")[2]) for each in owners]

    async def former_of_departed(
        self, list_name: ListName, address: Address
    ) -> list[FormerAddress]:
        """Return the former addresses of subscriptions to a list that have ended."""
        owners = await self._owners(list_name, address)
        return [former for each in owners for former in former_of_owner(each)]

    async def _owners(self, list_name: ListName, address: Address) -> list[Entity]:
        begin = owner_row(list_name, address, SubscriberGuid(""))
        found = await self._table.query(KeyRange.only(list_name), KeyRange.prefix(begin))
        return found.entities

    # -- erasing -----------------------------------------------------------------------------

    async def erase_departed(self, list_name: ListName, address: Address) -> None:
        """Remove the details of a person who is no longer on the list, and the row that says whose
        they are; that row goes last, so that an interrupted erasure can be repeated."""
        for owner in await self._owners(list_name, address):
            guid = SubscriberGuid(owner.row.rpartition(",")[2])
            await self._end(list_name, guid)
            entries = await self._rows.entries(list_name, guid)
            changes = [
                Replace(entry_entity(msgspec.structs.replace(each, details="")))
                for each in entries
                if each.details
            ]
            for start in range(0, len(changes), _BATCH):
                await self._table.apply(changes[start : start + _BATCH])
            for former in former_of_owner(owner):
                with suppress(NotFound):
                    await self._table.delete(list_name, formerly_row(former.key, guid))
            with suppress(NotFound):  # erased by another process at this moment
                await self._table.delete(list_name, owner.row)

    async def _end(self, list_name: ListName, guid: SubscriberGuid) -> None:
        """Add the entry that says that the person was erased, unless there is one."""

        async def attempt() -> None:
            entries = await self._rows.entries(list_name, guid)
            if entries and entries[-1].act is ConsentAction.ERASED:
                return
            head = entries[-1].head if entries else LedgerHead()
            last = next_entry(head, list_name, guid, ConsentAction.ERASED, None, clock.now())
            await self._table.apply([Insert(entry_entity(last))])

        await retry_on_conflict(attempt, "ledger", guid)

    # -- verification ------------------------------------------------------------------------

    async def faults(self, list_name: ListName, report: LedgerReport) -> AsyncIterator[LedgerFault]:
        """Verify all chains of a list, in flat memory; yield those with a fault.

        Look-up rows and entries are both sorted by GUID, so they are read side by side.
        """
        chains = self._chains(list_name)
        chain = await anext(chains, None)
        async for key, lookup in self._stream(_Lookup, list_name, entities.GUID_PREFIX):
            guid = SubscriberGuid(key.removeprefix(entities.GUID_PREFIX))
            while chain is not None and chain[0].guid < guid:
                if fault := await self._fault(list_name, chain[0].guid, chain, None, report):
                    yield fault
                chain = await anext(chains, None)
            entries: list[ConsentEntry] = []
            if chain is not None and chain[0].guid == guid:
                entries, chain = chain, await anext(chains, None)
            if not entries and not lookup.Ledger:
                continue  # from before the ledger
            if fault := await self._fault(
                list_name, guid, entries, parse_head(lookup.Ledger), report
            ):
                yield fault
        while chain is not None:
            if fault := await self._fault(list_name, chain[0].guid, chain, None, report):
                yield fault
            chain = await anext(chains, None)
        async for each in self._lost(list_name):
            yield each

    async def _fault(
        self,
        list_name: ListName,
        guid: SubscriberGuid,
        entries: list[ConsentEntry],
        head: LedgerHead | None,
        report: LedgerReport,
    ) -> LedgerFault | None:
        report.chains += 1
        imported, fault = await self._checked(list_name, guid, entries, head)
        report.entries += len(entries) + (imported is not None)
        if fault and await self._has_changed(list_name, guid, entries, head):
            return None  # by a change between the two reads: the next check sees it
        return LedgerFault(list_name, guid, fault) if fault else None

    async def _has_changed(
        self,
        list_name: ListName,
        guid: SubscriberGuid,
        entries: list[ConsentEntry],
        head: LedgerHead | None,
    ) -> bool:
        """Return whether a chain that was read piece by piece is intact when it is read again."""
        lookup = await self._table.get(list_name, entities.guid_row(guid))
        text = None if lookup is None else entities.read_optional(lookup, entities.LEDGER, str)
        current = None if lookup is None else parse_head(text or "")
        again = await self._rows.entries(list_name, guid)
        if (again, current) == (entries, head):
            return False
        return not (await self._checked(list_name, guid, again, current))[1]

    async def _lost(self, list_name: ListName) -> AsyncIterator[LedgerFault]:
        """Yield chains, without any entries left, of people who left."""
        async for key, _ in self._stream(_Nothing, list_name, OWNERS):
            guid = SubscriberGuid(key.rpartition(",")[2])
            if await self._table.get(list_name, entry_row(guid, 1)) is None:
                yield LedgerFault(list_name, guid, "all entries are missing")

    async def _chains(self, list_name: ListName) -> AsyncIterator[list[ConsentEntry]]:
        """Yield the entries of each chain, in the order of the GUIDs."""
        chain: list[ConsentEntry] = []
        async for key, row in self._stream(EntryRow, list_name, ENTRIES):
            entry = entry_from(list_name, key, row)
            if chain and chain[0].guid != entry.guid:
                yield chain
                chain = []
            chain.append(entry)
        if chain:
            yield chain

    async def _stream(
        self, kind: type[S], list_name: ListName, prefix: str
    ) -> AsyncIterator[tuple[str, S]]:
        rows = KeyRange.prefix(prefix)
        while True:
            found = await self._table.read(kind, list_name, rows, limit=_ROWS)
            for item in found.items():
                yield item
            if len(found) < _ROWS:
                return
            rows = KeyRange(entities.key_after(next(reversed(found))), rows.stop)


class _Lookup(msgspec.Struct, frozen=True, gc=False):
    """The head of a chain, from the look-up row of its subscriber."""

    Ledger: str = ""


class _Nothing(msgspec.Struct, frozen=True, gc=False):
    """Only the key of a row is read."""
