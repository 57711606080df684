"""Everything that is stored about one address: its trace through all lists and messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial

import msgspec

from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.former_addresses import FormerAddress, former_of
from postroom.domain.audience.lists.lists import ListName, MailingList, Subscriber
from postroom.domain.audience.suppressions import Suppression
from postroom.domain.errors import NoSuch
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.tracking import Track
from postroom.services.audience.consent.consent_ledger import ConsentHistory, ConsentLedger
from postroom.services.audience.lists import ListService
from postroom.services.audience.results.personal_hits import PersonalHits, PersonResult
from postroom.services.audience.signup.foreign_ids import ForeignId, ForeignIds
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.services.audience.signup.unsubscribes import Unsubscribes
from postroom.services.audience.suppression.bounce_history import RecordedBounce
from postroom.services.audience.suppression.suppressions import SuppressionService
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.sending.outcomes import EmailRecord, OutcomeService

_AT_ONCE = 100


class Unsubscribe(msgspec.Struct, frozen=True):
    """The owner of an address unsubscribed from a list; they may have been added again since."""

    list_name: ListName
    left_at: datetime


class Trace(msgspec.Struct, frozen=True):
    """Subscriptions and unsubscribes sorted by list; emails with their messages, newest first, and
    their bounces, opens and clicks by message. `former` are addresses that these subscriptions had,
    whose emails are included; those of subscribers who had the address, and have `moved`, are
    not. `foreign_ids` are those of these subscriptions, and of those that have ended."""

    address: Address
    subscriptions: list[Subscriber]
    unsubscribes: list[Unsubscribe]
    emails: list[tuple[Message, EmailRecord]]
    consent: list[ConsentHistory] = []
    suppressions: list[Suppression] = []
    bounces: dict[MessageRef, list[RecordedBounce]] = {}
    engagement: dict[MessageRef, PersonResult] = {}
    former: list[FormerAddress] = []
    moved: list[Subscriber] = []
    foreign_ids: list[ForeignId] = []


class TracedEmails(msgspec.Struct, frozen=True):
    """The emails to an address among `looked_at` messages, newest first; `next` continues."""

    emails: list[tuple[Message, EmailRecord]]
    looked_at: int
    next: str | None
    bounces: dict[MessageRef, list[RecordedBounce]] = {}
    engagement: dict[MessageRef, PersonResult] = {}


class TraceService:
    """Uses point reads only: a few for each list and message, however long the lists are."""

    def __init__(
        self,
        lists: ListService,
        subscriptions: SubscriptionService,
        times: MessageTimes,
        outcomes: OutcomeService,
        ledger: ConsentLedger,
        suppressions: SuppressionService,
        personal: PersonalHits,
        foreign_ids: ForeignIds,
        unsubscribes: Unsubscribes,
    ) -> None:
        self._lists = lists
        self._subscriptions = subscriptions
        self._foreign_ids = foreign_ids
        self._unsubscribes = unsubscribes
        self._times = times
        self._outcomes = outcomes
        self._ledger = ledger
        self._suppressions = suppressions
        self._personal = personal

    async def trace(self, email: str) -> Trace:
        """Return the whole history of an address. `Invalid`."""
        address = parse_address(email)
        subscriptions = await self.subscriptions(address)
        former = await self.former(address, subscriptions)
        unsubscribes = await self.unsubscribes(address)
        suppressions = await self._suppressions.of_address(address)
        emails: list[tuple[Message, EmailRecord]] = []
        bounces: dict[MessageRef, list[RecordedBounce]] = {}
        engagement: dict[MessageRef, PersonResult] = {}
        before: str | None = None
        while True:
            part = await self.emails(address, former, before=before)
            emails += part.emails
            bounces |= part.bounces
            engagement |= part.engagement
            if (before := part.next) is None:
                break
        consent = await self.consent(address, subscriptions)
        return Trace(
            address,
            subscriptions,
            unsubscribes,
            emails,
            consent,
            suppressions,
            bounces,
            engagement,
            former,
            await self.moved(address),
            await self.foreign_ids(address, subscriptions),
        )

    async def foreign_ids(
        self, address: Address, subscriptions: Sequence[Subscriber]
    ) -> list[ForeignId]:
        """Return the ids in other tools of these subscriptions of an address, and of those that
        have ended."""
        guids = {guid for each in subscriptions for guid in each.guids}
        async for name in self._lists.all_names():
            guids.update(await self._ledger.departed(name, address))
        return await self._foreign_ids.of(guids)

    async def foreign_ids_of(self, subscriber: Subscriber) -> list[ForeignId]:
        """Return the ids of a subscriber of a list in other tools."""
        found = await self._foreign_ids.of(subscriber.guids)
        return [each for each in found if each.list_name == subscriber.list_name]

    async def subscriptions(self, address: Address) -> list[Subscriber]:
        """Return the subscriptions of an address."""
        subscriptions: list[Subscriber] = []
        async for lists in self._all_lists():
            found = await asyncio.gather(*(self._subscription(each, address) for each in lists))
            subscriptions += [each for each in found if each is not None]
        return subscriptions

    async def former(
        self, address: Address, subscriptions: Sequence[Subscriber]
    ) -> list[FormerAddress]:
        """Return the former addresses of these subscriptions of an address, and of those that have
        ended."""
        former = [each for subscriber in subscriptions for each in former_of(subscriber)]
        async for name in self._lists.all_names():
            former += await self._ledger.former_of_departed(name, address)
        return former

    async def moved(self, address: Address) -> list[Subscriber]:
        """Return the subscribers who had this address before they changed it."""
        found: list[Subscriber] = []
        async for name in self._lists.all_names():
            found += await self._subscriptions.rows.former.now(name, address)
        return found

    async def unsubscribes(self, address: Address) -> list[Unsubscribe]:
        """Return the lists from which the owner of an address has unsubscribed."""
        unsubscribes: list[Unsubscribe] = []
        async for lists in self._all_lists():
            found = await asyncio.gather(
                *(self._unsubscribes.left_at(each.name, address) for each in lists)
            )
            unsubscribes += [
                Unsubscribe(each.name, at)
                for each, at in zip(lists, found, strict=True)
                if at is not None
            ]
        return unsubscribes

    async def consent(
        self, address: Address, subscriptions: Sequence[Subscriber]
    ) -> list[ConsentHistory]:
        """Return what the consent ledger says about these subscriptions of an address, and about
        those that have ended, sorted by list."""
        current = await asyncio.gather(*map(self._ledger.of_subscriber, subscriptions))
        histories = [each for each in current if each is not None]
        async for name in self._lists.all_names():
            histories += await self._ledger.of_departed(name, address)
        return sorted(histories, key=lambda each: each.list_name)

    async def emails(
        self,
        address: Address,
        former: Sequence[FormerAddress] = (),
        *,
        before: str | None = None,
        limit: int = _AT_ONCE,
    ) -> TracedEmails:
        """Return the emails to an address, and to its owner's former ones, among the next `limit`
        messages, newest first."""
        found = await self._times.all(limit=limit, before=before)
        emails_to = partial(self._outcomes.emails_to, former=former)
        records = await asyncio.gather(*(emails_to(each, address) for each in found.messages))
        emails = [(m, r) for m, each in zip(found.messages, records, strict=True) for r in each]
        of_email = self._suppressions.bounces.of_email
        bounced = await asyncio.gather(*(of_email(m.ref, email.address) for m, email in emails))
        bounces: dict[MessageRef, list[RecordedBounce]] = {}
        for (message, _), each in zip(emails, bounced, strict=True):
            if each:
                bounces.setdefault(message.ref, []).extend(each)
        engagement = await self.engagement(address, emails)
        return TracedEmails(emails, len(found.messages), found.next, bounces, engagement)

    async def engagement(
        self, address: Address, emails: Sequence[tuple[Message, EmailRecord]]
    ) -> dict[MessageRef, PersonResult]:
        """Return the recorded opens and clicks of the owner of an address in these messages."""
        by_list: dict[ListName, list[Message]] = {}
        for message, record in emails:
            if message.track is Track.PERSONAL:
                by_list.setdefault(message.lists[record.list_number], []).append(message)
        found: dict[MessageRef, PersonResult] = {}
        for name, messages in by_list.items():
            subscriber = await self._subscriptions.rows.find(name, address)
            if subscriber is not None:
                found |= await self._personal.of_subscriber(subscriber, messages)
        return found

    async def emails_of_list(self, subscriber: Subscriber) -> list[tuple[Message, EmailRecord]]:
        """Return all emails of a list to its subscriber, newest first, including those from before
        they left and came back; none to others who had the address before them."""
        list_name, address, former = subscriber.list_name, subscriber.address, former_of(subscriber)
        guids = {*subscriber.guids, *await self._ledger.departed(list_name, address)}
        emails: list[tuple[Message, EmailRecord]] = []
        before: str | None = None
        while True:
            found = await self._times.all(limit=_AT_ONCE, before=before)
            messages = [each for each in found.messages if list_name in each.lists]
            records = await asyncio.gather(
                *(self._outcomes.emails_to(each, address, guids, former) for each in messages)
            )
            emails += [
                (message, record)
                for message, each in zip(messages, records, strict=True)
                for record in each
                if message.lists[record.list_number] == list_name
            ]
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
            found = await self._lists.slice(limit=_AT_ONCE, after=after)
            yield found.lists
            if (after := found.next) is None:
                return
