"""The rows of the consent ledger.

They are in the partition of the list, with the subscribers, so that an entry and the change that it
is about are written in one batch: a crash leaves both or neither.

| row                     | holds                                                             |
|-------------------------|-------------------------------------------------------------------|
| `ledger:GUID,NUMBER`    | an entry of a subscriber's chain; rows are never changed, except  |
|                         | that erasing a person removes the details                         |
| `ledgerimport:HASH`     | the entry that all subscribers of a batch of an import share      |
| `ledgerof:DIGEST,GUID`  | whose chain it is, after they left: a digest of the address, as   |
|                         | in the table `departed`, and their former addresses               |
| `guid:GUID`             | `Ledger` is the head of the chain. Subscribers from before the    |
|                         | ledger have none; their chain begins with their next change       |
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.consent import (
    ConsentAction,
    ConsentEntry,
    ConsentSource,
    ImportEntry,
    LedgerHead,
    next_entry,
    parse_head,
)
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid
from postroom.services import entities
from postroom.services.audience.former_rows import formerly_rows, owner_entity
from postroom.services.audience.signup.unsubscribes import departed_row
from postroom.services.row_ranges import read_whole
from postroom.storage import Entity, Insert, KeyRange, Operation, StoreDamaged, Table, Upsert, Value

ENTRIES: Final = "ledger:"
IMPORTS: Final = "ledgerimport:"
OWNERS: Final = "ledgerof:"
PREFIXES: Final = (ENTRIES, IMPORTS, OWNERS)
_LONGEST_CHAIN: Final = 999_999  # numbers have six digits
_MOST_NEIGHBOURS: Final = 200

S = TypeVar("S", bound=msgspec.Struct)


class EntryRow(msgspec.Struct, frozen=True, gc=False):
    """The properties of an entry."""

    At: datetime
    Act: str
    Previous: str
    Hash: str
    DetailsHash: str = ""
    Details: str = ""


def entry_row(guid: SubscriberGuid, number: int) -> str:
    return f"{ENTRIES}{guid},{number:06}"


def owner_row(list_name: ListName, address: Address, guid: SubscriberGuid) -> str:
    return f"{OWNERS}{departed_row(list_name, address)},{guid}"


def entry_entity(entry: ConsentEntry) -> Entity:
    properties: dict[str, Value] = {
        "At": entry.at,
        "Act": entry.act.value,
        "Previous": entry.previous,
        "Hash": entry.hash,
    }
    if entry.details_hash:
        properties["DetailsHash"] = entry.details_hash
    if entry.details:
        properties["Details"] = entry.details
    return Entity(entry.list_name, entry_row(entry.guid, entry.number), properties)


def entry_from(list_name: ListName, key: str, row: EntryRow) -> ConsentEntry:
    guid = key.removeprefix(ENTRIES).partition(",")[0]
    if row.Act not in _ACTS:
        raise StoreDamaged(f"({list_name!r}, {key!r}): Act is {row.Act!r}, which is unknown")
    return ConsentEntry(
        list_name=list_name,
        guid=SubscriberGuid(guid),
        number=_number(key),
        at=row.At,
        act=ConsentAction(row.Act),
        details_hash=row.DetailsHash,
        previous=row.Previous,
        hash=row.Hash,
        details=row.Details,
    )


_ACTS: Final = frozenset(each.value for each in ConsentAction)


def import_entity(entry: ImportEntry) -> Entity:
    properties: dict[str, Value] = {
        "At": entry.at,
        "Origin": entry.origin,
        "Members": entry.members,
    }
    return Entity(entry.list_name, IMPORTS + entry.hash, properties)


def import_from(entity: Entity) -> ImportEntry:
    return ImportEntry(
        list_name=ListName(entity.partition),
        at=entities.read(entity, "At", datetime),
        origin=entities.read(entity, "Origin", str),
        members=entities.read(entity, "Members", bytes),
        hash=entity.row.removeprefix(IMPORTS),
    )


def first_rows(
    new: Subscriber, act: ConsentAction, source: ConsentSource, before: LedgerHead | None = None
) -> list[Operation]:
    """Return the operations that insert a new subscriber with an entry; `before` is a chain from an
    earlier stay on the list."""
    changed = [ConsentAction.TRACKING_ALLOWED.value] if new.tracking else []
    entry = next_entry(
        before or LedgerHead(), new.list_name, new.guid, act, source, clock.now(), changed
    )
    return [*inserts(new, entry.head), Insert(entry_entity(entry))]


def inserts(new: Subscriber, head: LedgerHead) -> list[Operation]:
    """Return the operations that insert a new subscriber whose last entry is `head`."""
    rows = [entities.subscriber_entity(new), *entities.lookup_entities(new, str(head))]
    return [*(Insert(each) for each in rows), *formerly_rows(new)]


class LedgerRows:
    """Reads chains, and returns the operations that add an entry.

    A change of a subscriber replaces the subscriber's row under its ETag in the same batch. So of
    two processes that add the same number, one fails, and both its change and its entry are
    repeated.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._conflicting: set[SubscriberGuid] = set()

    def note_conflict(self, guid: SubscriberGuid) -> None:
        """Remember that an entry could not be added because there is one with its number."""
        self._conflicting.add(guid)

    async def head(self, list_name: ListName, guid: SubscriberGuid) -> LedgerHead:
        """Return the last entry about a subscriber, as the look-up row names it.

        After a conflict (`note_conflict`), the entries themselves count: even if the ledger was
        damaged, the next one can be added.
        """
        if guid in self._conflicting:
            self._conflicting.discard(guid)
            if entries := await self._rows(_Hash, list_name, guid):
                key, row = entries.popitem()
                return LedgerHead(_number(key), row.Hash)
        found = await self._table.get(list_name, entities.guid_row(guid))
        text = None if found is None else entities.read_optional(found, entities.LEDGER, str)
        return parse_head(text) if text else LedgerHead()

    async def heads(
        self, list_name: ListName, guids: Sequence[SubscriberGuid]
    ) -> dict[SubscriberGuid, LedgerHead]:
        """Return the last entries about several subscribers.

        Subscribers that were imported together have neighbouring GUIDs, so one query finds their
        look-up rows. The others are read one by one.
        """
        rows = sorted(map(entities.guid_row, set(guids) - self._conflicting))
        found: dict[str, _LookUp] = {}
        if rows:
            near = KeyRange.between(rows[0], rows[-1])
            found = await self._table.read(_LookUp, list_name, near, limit=_MOST_NEIGHBOURS)
        heads = {
            guid: parse_head(row.Ledger)
            for guid in guids
            if guid not in self._conflicting
            and (row := found.get(entities.guid_row(guid))) is not None
            and row.Ledger
        }
        missing = [each for each in dict.fromkeys(guids) if each not in heads]
        others = await asyncio.gather(*(self.head(list_name, each) for each in missing))
        return heads | dict(zip(missing, others, strict=True))

    async def added(
        self,
        subscriber: Subscriber,
        act: ConsentAction,
        source: ConsentSource,
        changed: Sequence[str] = (),
        head: LedgerHead | None = None,
    ) -> list[Operation]:
        """Return the operations that add an entry about a subscriber, who stays on the list, after
        `head` if that is known already."""
        if head is None or subscriber.guid in self._conflicting:
            head = await self.head(subscriber.list_name, subscriber.guid)
        entry = _following(head, subscriber, act, source, changed)
        lookup = entities.lookup_entity(subscriber, ledger=str(entry.head))
        return [Upsert(lookup), Insert(entry_entity(entry))]

    async def ended(
        self,
        subscriber: Subscriber,
        act: ConsentAction,
        source: ConsentSource | None,
        head: LedgerHead | None = None,
    ) -> list[Operation]:
        """Return the operations that add the last entry about a subscriber, who leaves the list,
        after `head` if that is known already."""
        if head is None or subscriber.guid in self._conflicting:
            head = await self.head(subscriber.list_name, subscriber.guid)
        entry = _following(head, subscriber, act, source)
        owner = owner_row(subscriber.list_name, subscriber.address, subscriber.guid)
        return [
            Insert(entry_entity(entry)),
            Upsert(owner_entity(subscriber, owner, {"At": entry.at})),
            *formerly_rows(subscriber, owner),
        ]

    async def entries(self, list_name: ListName, guid: SubscriberGuid) -> list[ConsentEntry]:
        """Return the chain of a subscriber, without the import that it may continue from."""
        found = await self._rows(EntryRow, list_name, guid)
        return [entry_from(list_name, key, row) for key, row in found.items()]

    async def imported(self, list_name: ListName, digest: str) -> ImportEntry | None:
        """Return the entry of an import by its hash."""
        found = await self._table.get(list_name, IMPORTS + digest) if digest else None
        return None if found is None else import_from(found)

    async def _rows(self, kind: type[S], list_name: ListName, guid: SubscriberGuid) -> dict[str, S]:
        chain = KeyRange.prefix(f"{ENTRIES}{guid},")
        found = await read_whole(self._table, kind, list_name, chain, most=_LONGEST_CHAIN)
        if found is None:
            raise StoreDamaged(f"the ledger of {guid} has more than {_LONGEST_CHAIN:,} entries")
        return found


class _LookUp(msgspec.Struct, frozen=True, gc=False):
    """The head of a chain, from a look-up row."""

    Ledger: str = ""


class _Hash(msgspec.Struct, frozen=True, gc=False):
    """The hash of an entry."""

    Hash: str


def _number(key: str) -> int:
    number = key.rpartition(",")[2]
    return int(number) if number.isdecimal() else 0


def _following(
    head: LedgerHead,
    subscriber: Subscriber,
    act: ConsentAction,
    source: ConsentSource | None,
    changed: Sequence[str] = (),
) -> ConsentEntry:
    name, guid = subscriber.list_name, subscriber.guid
    return next_entry(head, name, guid, act, source, clock.now(), changed)
