"""Everything that is stored about one address: traced, exported on request, and erased on request.

Erasing removes the address from all lists, with the records that it left some. Records of emails to
it stay, so that counts and pages remain correct, but without the address, also in the mail server's
replies. Each step can be repeated, so an interrupted erasure is finished by erasing again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import datetime

import msgspec

from postroom.domain.audience.addresses import Address, address_key, parse_address
from postroom.domain.audience.lists import ListName, MailingList, Subscriber
from postroom.domain.errors import NoSuch
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.page_emails import PageEmails
from postroom.services.audience.departures import Departures
from postroom.services.audience.lists import ListService
from postroom.services.audience.subscriptions import SubscriptionService
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.outcomes import EmailRecord, OutcomeService
from postroom.services.messages.page_rows import FREE, PageRows, page_entity
from postroom.storage import Conflict, Store

GONE = "(erased)"
_AT_ONCE = 100
_TRIES = 10


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

    async def emails_of_list(
        self, list_name: ListName, address: Address
    ) -> list[tuple[Message, EmailRecord]]:
        """Return all emails of a list to an address, newest first."""
        emails: list[tuple[Message, EmailRecord]] = []
        before: str | None = None
        while True:
            found = await self._times.all(limit=_AT_ONCE, before=before)
            messages = [each for each in found.messages if each.list_name == list_name]
            records = await asyncio.gather(
                *(self._outcomes.emails_to(message, address) for message in messages)
            )
            emails += [(m, r) for m, each in zip(messages, records, strict=True) for r in each]
            if (before := found.next) is None:
                return emails

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


class Erasure(msgspec.Struct, frozen=True):
    """What an erasure did. `waiting` messages are unfinished: they skip the address, and their
    records are erased by erasing again when they are finished."""

    address: Address
    lists: list[str]
    emails: int
    waiting: list[str]


class PersonalDataService:
    def __init__(
        self,
        store: Store,
        subscriptions: SubscriptionService,
        tracing: TraceService,
        times: MessageTimes,
        pages: PageRows,
    ) -> None:
        self._subscriptions = subscriptions
        self._departures = Departures(store)
        self._tracing = tracing
        self._times = times
        self._pages = pages

    async def erase(self, email: str) -> Erasure:
        """Erase an address."""
        address = parse_address(email)
        lists = await self._remove_from_lists(address)
        for left in await self._tracing.departures(address):
            await self._departures.forget(left.list_name, address)
        emails, waiting = 0, []
        async for message in self._all_messages():
            erased = await self._erase_emails(message, address)
            if erased is None:
                waiting.append(str(message.ref))
            else:
                emails += erased
        return Erasure(address, lists, emails, waiting)

    async def _erase_emails(self, message: Message, address: Address) -> int | None:
        """Erase an address from the page of a message that holds it; return how many emails there
        were, or None if the page has to wait for a sender."""
        key = address_key(address)
        for _ in range(_TRIES):
            page = await self._pages.holding(message, key)
            if page is None:
                return 0
            places = page.emails.places_of(key)
            is_pending = any(page.emails.outcome(each) is EmailOutcome.PENDING for each in places)
            if is_pending or page.claim != FREE:
                return None
            after = msgspec.structs.replace(page, emails=_without(page.emails, places))
            try:
                await self._pages.table.replace(page_entity(after), page.etag)
            except Conflict:
                continue
            return len(places)
        return None

    async def _all_messages(self) -> AsyncIterator[Message]:
        before: str | None = None
        while True:
            found = await self._times.all(limit=_AT_ONCE, before=before)
            for message in found.messages:
                yield message
            if (before := found.next) is None:
                return

    async def _remove_from_lists(self, address: Address) -> list[str]:
        left = []
        for subscriber in await self._tracing.subscriptions(address):
            try:
                await self._subscriptions.remove(subscriber.list_name, address)
            except NoSuch:
                continue  # removed by another process at this moment
            left.append(str(subscriber.list_name))
        return left


def _without(emails: PageEmails, places: list[int]) -> PageEmails:
    """Return a page's emails without the addresses of some, also in the mail server's replies."""
    for place in places:
        state = emails.state(place)
        its_address = re.compile(re.escape(emails.addresses[place]), re.IGNORECASE)
        reply = its_address.sub(GONE, state.reply)
        emails = emails.settled({place: msgspec.structs.replace(state, reply=reply)}).erased(place)
    return emails
