"""Which subscribers of a page may still receive its message, checked just before sending."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import ListName, SubscriberGuid
from postroom.mail.mailing import Recipient
from postroom.services import entities
from postroom.storage import KeyRange, Store

# With fewer than this, point reads are cheaper than the range between first and last, which for the
# last two deferred emails of a page may be half the list.
_FEW = 25
_AT_ONCE = 1000
_SPARSE = 4  # if a range has this many times the wanted rows, point reads are cheaper, too


class Recipients:
    def __init__(self, store: Store) -> None:
        self._lists = store.table(entities.LISTS)

    async def allowed(
        self,
        name: ListName,
        addresses: Collection[Address],
        planned_guid: Callable[[Address], SubscriberGuid],
        kind: type[entities.SubscriberRow] = entities.SubscriberRow,
    ) -> dict[Address, Recipient]:
        """Return those who are still verified and not blocked, with the GUIDs that they have now.
        With the `kind` `ConsentRow`, it is also known who agreed to personal tracking.

        Of two emails that were planned for addresses that differ only in case, before these were
        one subscriber, the one to the merged GUID is left out: `planned_guid` returns with which
        GUID an email was planned.
        """
        rows = entities.email_rows(addresses)
        found = await self._subscribers(name, sorted(rows), kind)
        recipients = {}
        for address, row in zip(addresses, rows, strict=True):
            subscriber = found.get(row)
            if subscriber is None or not subscriber.may_receive:
                continue
            merged = subscriber.MergedGUIDs
            if merged and planned_guid(address) in merged:
                continue
            guid = subscriber.SubscriberGUID
            agreed = isinstance(subscriber, entities.ConsentRow) and subscriber.Tracking
            recipients[address] = Recipient(address, guid, (), agreed)
        return recipients

    async def _subscribers(
        self, name: ListName, rows: Sequence[str], kind: type[entities.SubscriberRow]
    ) -> dict[str, entities.SubscriberRow]:
        """Return these rows of a list, in order, and some of those between them.

        Neighbours are read with one query; few rows, or rows far apart, one by one.
        """
        found: dict[str, entities.SubscriberRow] = {}
        while len(rows) >= _FEW:
            within = KeyRange.between(rows[0], rows[-1])
            more = await self._lists.read(kind, name, within, limit=_AT_ONCE)
            found |= more
            if len(more) < _AT_ONCE:
                return found
            passed = bisect_right(rows, next(reversed(more)))
            rows = rows[passed:]
            if passed * _SPARSE < len(more):
                break
        single = [self._lists.read(kind, name, KeyRange.only(row)) for row in rows]
        for one in await asyncio.gather(*single):
            found |= one
        return found
