"""Erasing everything that is stored about one address.

It is removed from all lists, with its ids of other tools, the records that it left some lists, and
what is recorded about its opens and clicks (`results/people.py`),
and the consent ledger loses whose entries it has, with their details. Records of emails stay, so
that counts and pages remain correct, but without the address, also in the mail server's replies and
in bounces. A suppressed address stays suppressed: its digest is kept.

Addresses that these subscriptions had before are erased, too, from the emails that have their GUID.
If somebody else owns such an address now, what is stored about it otherwise stays. Subscribers who
had the erased address themselves stay, but no longer remember it.

| table      | partition | row                     | holds                                  |
|------------|-----------|-------------------------|----------------------------------------|
| `erasures` | `erasure` | a digest of the address | Address, RequestedAt, Former: JSON of  |
|            |           |                         | former addresses, and Waiting: the     |
|            |           |                         | messages whose records are still to be |
|            |           |                         | erased, once nothing else is           |

The request is written first and removed last, and each step can be repeated. So the scheduler
finishes an erasure that was interrupted, or had to wait for messages that were being sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Collection
from datetime import datetime
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, AddressKey, address_key, parse_address
from postroom.domain.audience.consent import ConsentAction
from postroom.domain.audience.former_addresses import FormerAddress
from postroom.domain.audience.lists import SubscriberGuid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import FINAL, Message
from postroom.domain.messages.page_emails import PageEmails
from postroom.services import entities
from postroom.services.audience.consent.consent_ledger import ConsentLedger
from postroom.services.audience.lists import ListService
from postroom.services.audience.personal_data import TraceService
from postroom.services.audience.results.personal_hits import PersonalHits
from postroom.services.audience.signup.departures import Departures
from postroom.services.audience.signup.foreign_ids import ForeignIds
from postroom.services.audience.subscriber_rows import SubscriberRows
from postroom.services.audience.suppression.suppressions import SuppressionService
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.sending.outcomes import OutcomeService
from postroom.services.messages.sending.page_rows import FREE, PageRows, page_entity
from postroom.storage import Conflict, Entity, KeyRange, NotFound, Store, Value

TABLE: Final = "erasures"
GONE: Final = "(erased)"
_PARTITION: Final = "erasure"
_DIGITS: Final = 32  # of the digest, in hexadecimal: enough to rule out a collision
_AT_ONCE: Final = 100
_TRIES: Final = 10


class Erasure(msgspec.Struct, frozen=True):
    """What an erasure did. `waiting` messages are unfinished: they skip the address, and the
    scheduler erases their records when they are finished."""

    address: Address
    lists: list[str]
    emails: int
    waiting: list[str]


class _Request(msgspec.Struct, frozen=True):
    """An erasure that is not finished. Subscriptions since `at` are new ones, and stay."""

    address: Address
    at: datetime
    waiting: tuple[str, ...] = ()
    former: tuple[FormerAddress, ...] = ()


class PersonalDataService:
    def __init__(
        self,
        store: Store,
        lists: ListService,
        rows: SubscriberRows,
        tracing: TraceService,
        times: MessageTimes,
        pages: PageRows,
        outcomes: OutcomeService,
        ledger: ConsentLedger,
        suppressions: SuppressionService,
        personal: PersonalHits,
    ) -> None:
        self._requests = store.table(TABLE)
        self._lists = lists
        self._rows = rows
        self._departures = Departures(store)
        self._foreign_ids = ForeignIds(store)
        self._tracing = tracing
        self._times = times
        self._pages = pages
        self._outcomes = outcomes
        self._ledger = ledger
        self._suppressions = suppressions
        self._personal = personal

    async def erase(self, email: str) -> Erasure:
        """Erase an address. `Invalid`."""
        request = _Request(parse_address(email), clock.now())
        await self._requests.upsert(_entity(request))
        return await self._carry_out(request)

    async def finish(self) -> int:
        """Continue all erasures that were interrupted or had to wait; return how many there are."""
        count = 0
        async for entity in self._requests.scan(KeyRange.only(_PARTITION)):
            await self._carry_out(_request(entity))
            count += 1
        return count

    async def _carry_out(self, request: _Request) -> Erasure:
        lists: list[str] = []
        if not request.waiting:
            request = await self._with_former(request)
            guids = await self._guids(request)
            await self._foreign_ids.forget(guids)
            async for message in self._all_messages():
                await self._personal.forget(message, guids)
            lists = await self._remove_from_lists(request)
            await self._forget_departures(request.address)
            await self._forget_suppressions(request)
        emails, waiting = 0, []
        async for message in self._all_messages():
            if request.waiting and message.ref not in request.waiting:
                continue
            erased = await self._erase_message(message, request)
            if erased is None:
                waiting.append(str(message.ref))
            else:
                emails += erased
        if waiting:
            left = msgspec.structs.replace(request, waiting=tuple(waiting))
            await self._requests.upsert(_entity(left))
        else:
            with contextlib.suppress(NotFound):  # finished by another process at this moment
                await self._requests.delete(_PARTITION, _row(request.address))
        return Erasure(request.address, lists, emails, waiting)

    async def _with_former(self, request: _Request) -> _Request:
        """Remember the former addresses in the request: once the subscriptions are removed, nothing
        else says which they were."""
        subscriptions = await self._tracing.subscriptions(request.address)
        ours = [each for each in subscriptions if each.created_at <= request.at]
        found = await self._tracing.former(request.address, ours)
        former = tuple(dict.fromkeys((*request.former, *found)))
        if former != request.former:
            request = msgspec.structs.replace(request, former=former)
            await self._requests.upsert(_entity(request))
        return request

    async def _forget_suppressions(self, request: _Request) -> None:
        await self._suppressions.erase(request.address)
        for key in dict.fromkeys(each.key for each in request.former):
            if not await self._tracing.subscriptions(key):  # else it is about somebody else
                await self._suppressions.erase(key)

    async def _guids(self, request: _Request) -> set[SubscriberGuid]:
        """Return the GUIDs of an address, as long as it is known whose they are."""
        subscriptions = await self._tracing.subscriptions(request.address)
        erased = [each for each in subscriptions if each.created_at <= request.at]
        guids = {guid for each in erased for guid in (each.guid, *each.merged_guids)}
        async for name in self._lists.all_names():
            guids.update(await self._ledger.departed(name, request.address))
        return guids

    async def _remove_from_lists(self, request: _Request) -> list[str]:
        left = []
        for subscriber in await self._tracing.subscriptions(request.address):
            if subscriber.created_at > request.at:
                continue
            if await self._rows.remove(subscriber, act=ConsentAction.ERASED, source=None):
                left.append(str(subscriber.list_name))
        return left

    async def _forget_departures(self, address: Address) -> None:
        async for name in self._lists.all_names():
            await self._departures.forget(name, address)
            await self._rows.former.forget(name, address)
            await self._ledger.erase_departed(name, address)

    async def _erase_message(self, message: Message, request: _Request) -> int | None:
        """Erase the addresses of a request from a message; return how many emails there were, or
        None if one of them has to wait for a sender."""
        await self._suppressions.bounces.erase_email(message.ref, request.address)
        count = await self._erase_emails(message, address_key(request.address))
        for each in request.former:
            if each.list_name not in message.lists:
                continue
            if await self._outcomes.emails_to(message, each.key, each.guids):
                await self._suppressions.bounces.erase_email(message.ref, each.key)
            erased = await self._erase_emails(message, each.key, each.guids)
            count = None if count is None or erased is None else count + erased
        return count

    async def _erase_emails(
        self, message: Message, key: AddressKey, guids: Collection[SubscriberGuid] | None = None
    ) -> int | None:
        """Erase an address from the page of a message that holds it, or only emails that have one
        of these `guids`; return how many there were, or None if the page has to wait for a sender.
        """
        for _ in range(_TRIES):
            page = await self._pages.holding(message, key)
            places = [] if page is None else page.emails.places_of(key, guids)
            if page is None or not places:
                return 0
            # First: who it was is known only as long as the page says it. Hits that were queued
            # before the subscriber was removed may have been counted meanwhile.
            await self._personal.forget(message, {page.emails.guid(each) for each in places})
            is_pending = any(page.emails.outcome(each) is EmailOutcome.PENDING for each in places)
            if is_pending or page.claim != FREE or _has_waves_left(message):
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


def _row(address: Address) -> str:
    return hashlib.sha256(address_key(address).encode()).hexdigest()[:_DIGITS]


def _entity(request: _Request) -> Entity:
    properties: dict[str, Value] = {"Address": request.address, "RequestedAt": request.at}
    if request.waiting:
        properties["Waiting"] = ",".join(request.waiting)
    if request.former:
        properties["Former"] = msgspec.json.encode(request.former).decode()
    return Entity(_PARTITION, _row(request.address), properties)


def _request(entity: Entity) -> _Request:
    waiting = entities.read_optional(entity, "Waiting", str)
    former = entities.read_optional(entity, "Former", str)
    return _Request(
        Address(entities.read(entity, "Address", str)),
        entities.read(entity, "RequestedAt", datetime),
        tuple(waiting.split(",")) if waiting else (),
        msgspec.json.decode(former, type=tuple[FormerAddress, ...]) if former else (),
    )


def _without(emails: PageEmails, places: list[int]) -> PageEmails:
    """Return a page's emails without the addresses of some, also in the mail server's replies."""
    for place in places:
        state = emails.state(place)
        its_address = re.compile(re.escape(emails.addresses[place]), re.IGNORECASE)
        reply = its_address.sub(GONE, state.reply)
        emails = emails.settled({place: msgspec.structs.replace(state, reply=reply)}).erased(place)
    return emails


def _has_waves_left(message: Message) -> bool:
    """Return whether a later wave still has to know who got the message in an earlier one."""
    waves = message.waves
    return message.status not in FINAL and waves is not None and not waves.is_complete
