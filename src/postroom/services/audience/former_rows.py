"""Former addresses in the store: on the row of each subscriber who has changed theirs, and by key.

They are in the partition of the list, and written in one batch with the change of the address.

| row                  | holds                                                                    |
|----------------------|--------------------------------------------------------------------------|
| `email:KEY`          | `FormerAddresses`: the keys that the subscriber had                      |
| `formerly:KEY,GUID`  | nothing: who had an address, for those who look for it. `Owner`, once    |
|                      | they have left: the row of the ledger that says whose chain it is        |
| `ledgerof:…,GUID`    | `FormerAddresses` and `GUIDs`, once they have left: the records of       |
|                      | emails can still be found, to show and to erase them                     |
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.former_addresses import FormerAddress
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid
from postroom.services import entities
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import Delete, Entity, KeyRange, Operation, Replace, Table, Upsert, Value

FORMERLY: Final = "formerly:"
_OWNER: Final = "Owner"
_GUIDS: Final = "GUIDs"


def formerly_row(key: AddressKey, guid: SubscriberGuid) -> str:
    return f"{FORMERLY}{key},{guid}"


def formerly_rows(subscriber: Subscriber, owner: str = "") -> list[Operation]:
    """Return the writes by which a subscriber is found by their former addresses; `owner` is the
    row of the ledger of one who leaves."""
    name, properties = subscriber.list_name, {_OWNER: owner} if owner else {}
    return [
        Upsert(Entity(name, formerly_row(key, subscriber.guid), properties))
        for key in subscriber.former_addresses
    ]


def owner_entity(subscriber: Subscriber, row: str, properties: dict[str, Value]) -> Entity:
    """Return the row of the ledger of a subscriber who leaves."""
    if subscriber.former_addresses:
        properties[entities.FORMER] = "\n".join(subscriber.former_addresses)
        properties[_GUIDS] = ",".join(subscriber.guids)
    return Entity(subscriber.list_name, row, properties)


def former_of_owner(entity: Entity) -> list[FormerAddress]:
    """Return the former addresses of someone who has left, from the row of the ledger."""
    keys = entities.former_keys(entities.read_optional(entity, entities.FORMER, str) or "")
    guids = entities.read_optional(entity, _GUIDS, str) or ""
    known = tuple(map(SubscriberGuid, guids.split(",")))
    return [FormerAddress(ListName(entity.partition), key, known) for key in keys]


class FormerRows:
    def __init__(self, table: Table) -> None:
        self._table = table

    async def now(self, name: ListName, address: Address) -> list[Subscriber]:
        """Return the subscribers of a list who had this address before they changed it."""
        key = address_key(address)
        found = [
            await self._holder(name, SubscriberGuid(each.row.rpartition(",")[2]))
            async for each in self._rows(name, key)
        ]
        return [each for each in found if each is not None and key in each.former_addresses]

    async def forget(self, name: ListName, address: Address) -> None:
        """Remove an address from all who had it, including those who have left. Can be repeated."""
        key = address_key(address)
        async for each in self._rows(name, key):
            guid = SubscriberGuid(each.row.rpartition(",")[2])
            await retry_on_conflict(partial(self._forget, name, key, guid), "address", key)

    async def _forget(self, name: ListName, key: AddressKey, guid: SubscriberGuid) -> None:
        row = await self._table.get(name, formerly_row(key, guid))
        if row is None:
            return
        owner = entities.read_optional(row, _OWNER, str)
        holders = [await self._row_of(name, guid)]
        if owner:
            holders.append(await self._table.get(name, owner))
        changes: list[Operation] = [
            Replace(_without(each, key), each.etag) for each in holders if each is not None
        ]
        await self._table.apply([*changes, Delete(name, row.row, row.etag)])

    async def _holder(self, name: ListName, guid: SubscriberGuid) -> Subscriber | None:
        row = await self._row_of(name, guid)
        return None if row is None else entities.subscriber_from(row)

    async def _row_of(self, name: ListName, guid: SubscriberGuid) -> Entity | None:
        """Return the row of the subscriber with this GUID."""
        lookup = await self._table.get(name, entities.guid_row(guid))
        if lookup is None:
            return None
        address = Address(entities.read(lookup, "EmailAddress", str))
        found = await self._table.get(name, entities.email_row(address))
        if found is None or entities.read(found, "SubscriberGUID", str) != guid:
            return None
        return found

    async def _rows(self, name: ListName, key: AddressKey) -> AsyncIterator[Entity]:
        within = KeyRange.prefix(f"{FORMERLY}{key},")
        found = await self._table.query(KeyRange.only(name), within)
        for each in found.entities:
            yield each


def _without(entity: Entity, key: AddressKey) -> Entity:
    """Return a row without one of its former addresses."""
    properties = dict(entity.properties)
    keys = entities.former_keys(str(properties.pop(entities.FORMER, "")))
    if left := [each for each in keys if each != key]:
        properties[entities.FORMER] = "\n".join(left)
    return Entity(entity.partition, entity.row, properties)
