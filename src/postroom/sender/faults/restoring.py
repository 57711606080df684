"""Makes recipients pending again who were refused by a reply that was not about them.

The hold names them (at most 50) until that is done, so an interrupted sender leaves the work to the
next one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import groupby

from postroom.domain.errors import NoSuch
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import FINAL
from postroom.domain.messages.page_emails import UNTRIED, EmailState
from postroom.domain.messages.pages import WorkItem
from postroom.domain.messages.refs import MessageRef
from postroom.sender.pages.claims import PageTaken
from postroom.sender.pages.page_edits import PageEdits
from postroom.sender.sender_settings import SenderServices
from postroom.services.messages.sending.holds import Refusal
from postroom.services.messages.sending.page_rows import Page

log = logging.getLogger(__name__)


class Restoring:
    def __init__(self, services: SenderServices) -> None:
        self._messages = services.message_rows
        self._edits = PageEdits(services.store, services.pages)
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
        """Return whether nothing is left to do for these emails of a page."""
        try:
            message = await self._messages.get(ref)
        except NoSuch:
            return True
        if message.status in FINAL:
            return True
        addresses = {refusal.address for refusal in refusals}
        restored = 0

        def pending_again(page: Page) -> Mapping[int, EmailState]:
            nonlocal restored
            places = [
                place
                for place, (address, state) in enumerate(page.emails)
                if address in addresses and state.outcome is EmailOutcome.REFUSED
            ]
            restored = len(places)
            return dict.fromkeys(places, UNTRIED)

        item = WorkItem(message.day, ref, page)
        try:
            await self._edits.change(item, pending_again)
        except PageTaken:
            return False
        log.info("page %s: %d refused recipients are pending again", item.partition, restored)
        return True


def _page(refusal: Refusal) -> tuple[MessageRef, int]:
    return refusal.ref, refusal.page
