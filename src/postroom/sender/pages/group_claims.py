"""Claims the pages of a group, and reads who may still receive their emails."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import SubscriberGuid
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.mail.mailing import Recipient
from postroom.sender.mailings import BEING_SENT
from postroom.sender.pages.active_pages import ActivePage
from postroom.sender.pages.allowed_recipients import Recipients
from postroom.sender.pages.claims import Claims, PageTaken
from postroom.sender.pages.settling import due_emails
from postroom.sender.pages.work_items import WorkItems
from postroom.sender.sender_parts import SenderParts
from postroom.services import entities


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
            await self._claims.give_up([each.item for each in group])
            wait = 0.0 if free_at is None else _seconds_until(free_at)
            for each in group:
                await self._items.end(each, release_for=wait)
            return None
        pages = await self._take(group)
        # Again, unless it was read just now: a message that was paused before the claim may be
        # edited, and this process may have been suspended meanwhile.
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
        kind = entities.ConsentRow if is_personal else entities.SubscriberRow
        for number, addresses in due.items():
            name = message.lists[number]
            allowed |= await self._recipients.allowed(name, addresses, planned_guid, kind)
        return ClaimedGroup(message, pages, allowed)

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
