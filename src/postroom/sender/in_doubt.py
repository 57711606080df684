"""Applies an administrator's decision about an email in doubt: it was sent, or send it again."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.errors import NoSuch, NotNow, Overtaken
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import FINAL, Message
from postroom.domain.messages.page_emails import EmailState
from postroom.domain.messages.pages import WorkItem
from postroom.sender.pages.claims import PageTaken
from postroom.sender.pages.page_edits import PageEdits
from postroom.sender.policy import MOST_COPIES
from postroom.services.messages.sending.outcomes import OutcomeService
from postroom.services.messages.sending.page_rows import Page, PageRows
from postroom.storage import Store


class InDoubtService:
    def __init__(self, store: Store, pages: PageRows, outcomes: OutcomeService) -> None:
        self._outcomes = outcomes
        self._edits = PageEdits(store, pages)

    async def decide(self, message: Message, address: Address, *, was_sent: bool) -> None:
        """Record the decision about one email. `NoSuch`, `NotNow`, `Overtaken`."""
        if message.status in FINAL:
            raise NotNow(f"the message {message.ref} is {message.status}")
        found = await self._outcomes.email(message, address)
        if found is None:
            raise NoSuch("email", address)

        def decided(page: Page) -> Mapping[int, EmailState]:
            place = page.emails.addresses.index(found.address)
            state = page.emails.state(place)
            if state.outcome is not EmailOutcome.IN_DOUBT:
                raise NotNow(f"the email to {address} is not in doubt: it is {state.outcome}")
            return {place: _sent(state) if was_sent else _again(state)}

        item = WorkItem(message.day, message.ref, found.page)
        try:
            await self._edits.change(item, decided)
        except PageTaken as exc:
            raise Overtaken("email", address) from exc


def _sent(state: EmailState) -> EmailState:
    return msgspec.structs.replace(state, outcome=EmailOutcome.ACCEPTED)


def _again(state: EmailState) -> EmailState:
    """Allow one more attempt. If there is no reply again, the email remains in doubt."""
    return msgspec.structs.replace(
        state,
        outcome=EmailOutcome.PENDING,
        unanswered=MOST_COPIES - 1,
        first_tried_at=state.first_tried_at or state.at or clock.now(),
    )
