"""Makes recipients pending again who were refused by a reply that was not about them.

The hold names them (at most 50) until that is done, so an interruption leaves the work to the next
sender. It is done under each page's claim.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby

import msgspec

from postroom.domain.errors import NoSuch
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import FINAL
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.domain.messages.refs import MessageRef
from postroom.sender.pages.claims import ADMINISTRATOR, Claims, PageLost, PageTaken
from postroom.sender.pages.page import PageStore
from postroom.sender.sender_settings import SenderServices
from postroom.services import entities
from postroom.services.messages.holds import Refusal
from postroom.storage import Conflict, KeyRange

log = logging.getLogger(__name__)

_CLAIM_SECONDS = 10.0


class Restoring:
    def __init__(self, services: SenderServices, owner: str) -> None:
        store = services.store
        # It hands nothing over, so a page that is taken over from it is not in doubt.
        self._owner = f"{ADMINISTRATOR}{owner}"
        self._archive = store.table(entities.ARCHIVE)
        self._queue = store.queue(SEND_QUEUE)
        self._claims = Claims(store, self._owner)
        self._messages = services.messages
        self._pages = PageStore(store)
        self._holds = services.holds

    async def restore(self) -> None:
        """Make all recipients pending again that a hold names. Pages that are active at a sender
        are left for the next call."""
        for hold in await self._holds.all():
            by_page = groupby(sorted(hold.refused, key=_page), key=_page)
            for (ref, page), refusals in by_page:
                these = list(refusals)
                if await self._restore(ref, page, these):
                    await self._holds.restored(hold, these)

    async def _restore(self, ref: MessageRef, page: int, refusals: Sequence[Refusal]) -> bool:
        """Return whether nothing is left to do for these emails of a page.

        A work item is put first and the claim ends last: if this is interrupted, a sender takes the
        page and counts it again.
        """
        try:
            message = await self._messages.get(ref)
        except NoSuch:
            return True
        if message.status in FINAL:
            return True
        item = WorkItem(message.day, ref, page, restarted=True)
        addresses = {refusal.address for refusal in refusals}
        try:
            claim = await self._claims.take(item, self._owner, _CLAIM_SECONDS)
            await self._queue.put(str(item), delay=1.0)
            if claim.doubtful:
                return False  # a sender must settle it
            archived = (await self._archive.query(KeyRange.only(item.partition))).entities
            reopened = 0
            for email in archived:
                refused = email.properties.get("Outcome") == EmailOutcome.REFUSED.value
                spelling = email.properties.get("EmailAddress") or email.row
                if spelling in addresses and refused:
                    await self._pages.reopen(email, {})
                    reopened += 1
            loaded = await self._pages.load(msgspec.structs.replace(claim, taken_over=True))
            if loaded is not None:
                await self._pages.settle(claim, loaded, {}, parked=False)
        except (PageLost, PageTaken, Conflict):
            return False
        log.info("page %s: %d refused recipients are pending again", item.partition, reopened)
        return True


def _page(refusal: Refusal) -> tuple[MessageRef, int]:
    return refusal.ref, refusal.page
