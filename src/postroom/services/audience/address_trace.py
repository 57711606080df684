"""The history of one address: the lists it is on or has left, and every email to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import msgspec

from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.lists import ListName, MailingList, Subscriber
from postroom.domain.errors import NoSuch
from postroom.domain.messages.messages import Message
from postroom.services.audience.lists import ListService
from postroom.services.audience.subscriptions import SubscriptionService
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.outcomes import EmailRecord, OutcomeService

_AT_ONCE = 100


class Departure(msgspec.Struct, frozen=True):
    """The owner of an address unsubscribed from a list; they may have been added again since."""

    list_name: ListName
    left_at: datetime


class Trace(msgspec.Struct, frozen=True):
    """Subscriptions and departures sorted by list; emails with their messages, newest first."""

    address: Address
    subscriptions: list[Subscriber]
    departures: list[Departure]
    emails: list[tuple[Message, EmailRecord]]


class TracedEmails(msgspec.Struct, frozen=True):
    """The emails to an address among `looked_at` messages, newest first; `next` continues."""

    emails: list[tuple[Message, EmailRecord]]
    looked_at: int
    next: str | None


class TraceService:
    """Uses point reads only: a few for each list and message, however long the lists are."""

    def __init__(
        self,
        lists: ListService,
        subscriptions: SubscriptionService,
        times: MessageTimes,
        outcomes: OutcomeService,
    ) -> None:
        self._lists = lists
        self._subscriptions = subscriptions
        self._times = times
        self._outcomes = outcomes

    async def trace(self, email: str) -> Trace:
        """Return the whole history of an address. `Invalid`."""
        address = parse_address(email)
        subscriptions = await self.subscriptions(address)
        departures = await self.departures(address)
        emails: list[tuple[Message, EmailRecord]] = []
        before: str | None = None
        while True:
            part = await self.emails(address, before=before)
            emails += part.emails
            if (before := part.next) is None:
                return Trace(address, subscriptions, departures, emails)

    async def subscriptions(self, address: Address) -> list[Subscriber]:
        """Return the subscriptions of an address."""
        subscriptions: list[Subscriber] = []
        async for lists in self._all_lists():
            found = await asyncio.gather(*(self._subscription(each, address) for each in lists))
            subscriptions += [each for each in found if each is not None]
        return subscriptions

    async def departures(self, address: Address) -> list[Departure]:
        """Return the lists from which the owner of an address has unsubscribed."""
        departures: list[Departure] = []
        async for lists in self._all_lists():
            found = await asyncio.gather(
                *(self._subscriptions.left_at(each.name, address) for each in lists)
            )
            departures += [
                Departure(each.name, at)
                for each, at in zip(lists, found, strict=True)
                if at is not None
            ]
        return departures

    async def emails(
        self, address: Address, *, before: str | None = None, limit: int = _AT_ONCE
    ) -> TracedEmails:
        """Return the emails to an address among the next `limit` messages, newest first."""
        found = await self._times.all(limit=limit, before=before)
        records = await asyncio.gather(
            *(self._outcomes.emails_to(message, address) for message in found.messages)
        )
        emails = [(m, r) for m, each in zip(found.messages, records, strict=True) for r in each]
        return TracedEmails(emails, len(found.messages), found.next)

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
