"""What happened to one address: on which lists it is, and what became of each email to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from postroom.domain.addresses import Address, parse_address
from postroom.domain.errors import NoSuch
from postroom.domain.lists import MailingList, Subscriber
from postroom.domain.messages import Message
from postroom.services.lists import ListService
from postroom.services.messages import MessageService
from postroom.services.outcomes import EmailRecord, OutcomeService
from postroom.services.subscriptions import SubscriptionService

_AT_ONCE = 100


class Trace(msgspec.Struct, frozen=True):
    """Subscriptions in the order of lists' names; emails with their messages, newest first."""

    address: Address
    subscriptions: list[Subscriber]
    emails: list[tuple[Message, EmailRecord]]


class TraceService:
    """Point reads only: a few for each list and each message, however many subscribers."""

    def __init__(
        self,
        lists: ListService,
        subscriptions: SubscriptionService,
        messages: MessageService,
        outcomes: OutcomeService,
    ) -> None:
        self._lists = lists
        self._subscriptions = subscriptions
        self._messages = messages
        self._outcomes = outcomes

    async def trace(self, email: str) -> Trace:
        address = parse_address(email)
        subscriptions: list[Subscriber] = []
        async for lists in self._all_lists():
            found = await asyncio.gather(*(self._subscription(each, address) for each in lists))
            subscriptions += [each for each in found if each is not None]
        emails: list[tuple[Message, EmailRecord]] = []
        for done in (False, True):
            async for messages in self._all_messages(done=done):
                records = await asyncio.gather(
                    *(self._outcomes.email(each, address) for each in messages)
                )
                emails += [(m, r) for m, r in zip(messages, records, strict=True) if r is not None]
        # A message may move from open to done between the two looks: once is enough.
        newest_first = sorted(
            {message.ref: (message, record) for message, record in emails}.values(),
            key=lambda each: (each[0].scheduled_at, each[0].ref),
            reverse=True,
        )
        return Trace(address, subscriptions, newest_first)

    async def _subscription(self, mailing_list: MailingList, address: Address) -> Subscriber | None:
        try:
            return await self._subscriptions.get(mailing_list.name, address)
        except NoSuch:
            return None

    async def _all_lists(self) -> AsyncIterator[list[MailingList]]:
        after: str | None = None
        while True:
            page = await self._lists.page(limit=_AT_ONCE, after=after)
            yield page.lists
            if (after := page.next) is None:
                return

    async def _all_messages(self, *, done: bool) -> AsyncIterator[list[Message]]:
        after: str | None = None
        while True:
            page = await self._messages.page(done=done, limit=_AT_ONCE, after=after)
            yield page.messages
            if (after := page.next) is None:
                return
