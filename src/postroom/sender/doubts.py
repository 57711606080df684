"""Applies an administrator's decision on an email in doubt: it was sent, or send it again."""

from __future__ import annotations

import secrets

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.errors import NoSuch, NotNow, Overtaken
from postroom.domain.messages.emails import EmailOutcome, check_outcome
from postroom.domain.messages.messages import FINAL, Message
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.sender.pages.claims import ADMINISTRATOR, Claims, PageLost, PageTaken
from postroom.sender.pages.page import PageStore
from postroom.sender.policy import MOST_COPIES
from postroom.services import entities
from postroom.services.messages.outcomes import OutcomeService
from postroom.storage import Conflict, Entity, NotFound, Store

_CLAIM_SECONDS = 10.0


class DoubtService:
    """Claims the page, as a sender does, so that the two do not interfere."""

    def __init__(self, store: Store, outcomes: OutcomeService) -> None:
        self._outcomes = outcomes
        self._archive = store.table(entities.ARCHIVE)
        self._queue = store.queue(SEND_QUEUE)
        self._owner = f"{ADMINISTRATOR}{secrets.token_hex(4)}"
        self._claims = Claims(store, self._owner)
        self._pages = PageStore(store)

    async def decide(self, message: Message, address: Address, *, was_sent: bool) -> None:
        """End the doubt about one email; raise `NoSuch`, `NotNow` or `Overtaken`.

        A work item is put first and the claim ends last: if this is interrupted, a sender takes the
        page and counts it again.
        """
        if message.status in FINAL:
            raise NotNow(f"the message {message.ref} is {message.status}")
        found = await self._outcomes.email(message, address)
        if found is None:
            raise NoSuch("email", address)
        if found.outcome is not EmailOutcome.IN_DOUBT:
            raise NotNow(f"the email to {address} is not in doubt: it is {found.outcome}")
        item = WorkItem(message.day, message.ref, found.page, restarted=True)
        try:
            claim = await self._claims.take(item, self._owner, _CLAIM_SECONDS)
            await self._queue.put(str(item), delay=1.0)
            if claim.doubtful:
                # From a sender that did not finish: another sender must settle the page.
                raise Overtaken("email", address)
            if was_sent:
                check_outcome(found.outcome, EmailOutcome.ACCEPTED)
                await self._archive.merge(
                    Entity(item.partition, found.row, {"Outcome": "accepted", "EmailSent": True})
                )
            else:
                archived = await self._archive.get(item.partition, found.row)
                if archived is None:
                    raise NotFound(f"email to {address}")
                # One more attempt: without a reply, it is in doubt again.
                await self._pages.reopen(archived, {"WasInDoubt": True, "Doubts": MOST_COPIES - 1})
            loaded = await self._pages.load(msgspec.structs.replace(claim, taken_over=True))
            if loaded is not None:
                await self._pages.settle(claim, loaded, {}, parked=False)
        except (PageLost, PageTaken, Conflict) as exc:
            raise Overtaken("email", address) from exc
