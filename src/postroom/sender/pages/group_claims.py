"""Claims the pages of a group, and reads who may still receive their emails."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.mail.mailing import Recipient
from postroom.sender.mailings import BEING_SENT
from postroom.sender.pages.active_pages import ActivePage
from postroom.sender.pages.claims import Claims, PageTaken
from postroom.sender.pages.settling import due_emails
from postroom.sender.pages.work_items import WorkItems
from postroom.sender.sender_parts import SenderParts
from postroom.services import entities
from postroom.services.partial_rows import ConsentRow, SubscriberRow
from postroom.storage import KeyRange, Store

# With fewer than this, point reads are cheaper than the range between first and last, which for the
# last two deferred emails of a page may be half the list.
_FEW = 25
_ROWS_AT_ONCE = 1000
_WITHOUT_PAUSE = 100  # rows looked at before the event loop handles replies of the mail server
_SPARSE = 4  # if a range has this many times the wanted rows, point reads are cheaper, too


class ClaimedGroup(msgspec.Struct, frozen=True):
    """Claimed pages of one message, and those of their recipients who may get it now."""

    message: Message
    pages: Sequence[ActivePage]
    allowed: dict[Address, Recipient]


class GroupClaims:
    def __init__(self, parts: SenderParts, claims: Claims, items: WorkItems) -> None:
        self._mailings = parts.mailings
        self._lost_history = parts.lost_history
        self._stopping = parts.stopping
        self._recipients = Recipients(parts.services.store)
        self._claims = claims
        self._items = items

    async def claim(self, group: Sequence[ActivePage]) -> ClaimedGroup | None:
        """Claim pages of one message. Those with nothing to do end here; return None if no page is
        left."""
        message = await self._mailings.ready(group[0].item.ref) if group else None
        if message is None:  # it was deleted
            for each in group:
                await self._items.end(each, finished=True)
            return None
        free_at = await self._lost_history.free_at()
        if self._stopping.is_set() or free_at is not None:
            await self._give_up(group, free_at)
            return None
        pages = await self._take(group)
        # The claims may have waited for a database that has taken over since, without the records
        # of what others have just sent.
        if pages and (free_at := await self._lost_history.free_at()) is not None:
            await self._give_up(pages, free_at)
            return None
        # Again, unless it was read just now: a message that was paused before the claim may be
        # edited, and this process may have been suspended in the meantime.
        message = await self._mailings.ready(message.ref) or message
        if message.status not in BEING_SENT:
            return ClaimedGroup(message, pages, {})
        for each in pages:
            if each.page is not None and not each.page.claim.doubtful:
                each.due = due_emails(each.page, message.retry_at, clock.now())
        due: dict[int, list[Address]] = {}  # by list
        for each in pages:
            if each.page is not None and each.page.emails.has_lists:
                for place, address in each.due:
                    due.setdefault(each.page.emails.list_number(place), []).append(address)
            else:
                due.setdefault(0, []).extend(address for _, address in each.due)

        def planned_guid(address: Address) -> SubscriberGuid:
            [guid] = {
                each.page.emails.guid(place)
                for each in pages
                for place, due in each.due
                if each.page is not None and due == address
            }
            return guid

        allowed: dict[Address, Recipient] = {}
        is_personal = message.track is Track.PERSONAL
        kind = ConsentRow if is_personal else SubscriberRow
        for number, addresses in due.items():
            name = message.lists[number]
            allowed |= await self._recipients.allowed(name, addresses, planned_guid, kind)
        return ClaimedGroup(message, pages, allowed)

    async def _give_up(self, group: Sequence[ActivePage], free_at: datetime | None) -> None:
        """End the claims that there may be, and release the work items until `free_at`."""
        await self._claims.give_up([each.item for each in group])
        wait = 0.0 if free_at is None else _seconds_until(free_at)
        for each in group:
            await self._items.end(each, release_for=wait)

    async def _take(self, group: Sequence[ActivePage]) -> list[ActivePage]:
        """Claim and read the pages; return those that are ours now."""
        claimed = await self._claims.take([each.item for each in group])
        ours: list[ActivePage] = []
        for each in group:
            page = claimed[each.item]
            if page is None:
                await self._items.end(each, finished=True)
            elif isinstance(page, PageTaken):
                wait = max(1.0, _seconds_until(page.free_at))
                await self._items.end(each, release_for=wait)
            else:
                each.page = page
                ours.append(each)
        return ours


def _seconds_until(moment: datetime) -> float:
    return max(0.0, (moment - clock.now()).total_seconds())


class Recipients:
    def __init__(self, store: Store) -> None:
        self._lists = store.table(entities.LISTS)

    async def allowed(
        self,
        name: ListName,
        addresses: Collection[Address],
        planned_guid: Callable[[Address], SubscriberGuid],
        kind: type[SubscriberRow] = SubscriberRow,
    ) -> dict[Address, Recipient]:
        """Return the recipients that are still verified and not blocked, with their current GUIDs.
        With the `kind` `ConsentRow`, it is also known who agreed to personal tracking.

        Of two emails that were planned for addresses that differ only in case, before these were
        one subscriber, the one to the merged GUID is left out: `planned_guid` returns with which
        GUID an email was planned.
        """
        rows = entities.email_rows(addresses)
        found = await self._subscribers(name, sorted(rows), kind)
        recipients: dict[Address, Recipient] = {}
        for number, (address, row) in enumerate(zip(addresses, rows, strict=True), 1):
            if number % _WITHOUT_PAUSE == 0:
                await asyncio.sleep(0)
            subscriber = found.get(row)
            if subscriber is None or not subscriber.may_receive:
                continue
            merged = subscriber.MergedGUIDs
            if merged and planned_guid(address) in merged:
                continue
            guid = subscriber.SubscriberGUID
            agreed = isinstance(subscriber, ConsentRow) and subscriber.Tracking
            recipients[address] = Recipient(address, guid, (), agreed)
        return recipients

    async def _subscribers(
        self, name: ListName, rows: Sequence[str], kind: type[SubscriberRow]
    ) -> dict[str, SubscriberRow]:
        """Return these rows of a list, in order, and some of those between them.

        Neighbours are read with one query; few rows, or rows far apart, one by one.
        """
        found: dict[str, SubscriberRow] = {}
        while len(rows) >= _FEW:
            within = KeyRange.between(rows[0], rows[-1])
            more = await self._lists.read(kind, name, within, limit=_ROWS_AT_ONCE)
            found |= more
            if len(more) < _ROWS_AT_ONCE:
                return found
            passed = bisect_right(rows, next(reversed(more)))
            rows = rows[passed:]
            if passed * _SPARSE < len(more):
                break
        single = [self._lists.read(kind, name, KeyRange.only(row)) for row in rows]
        for one in await asyncio.gather(*single):
            found |= one
        return found
