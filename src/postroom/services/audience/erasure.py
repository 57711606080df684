"""Erasing everything that is stored about one address.

It is removed from all lists, with its ids of other tools, the records that it left some lists, and
what is recorded about its opens and clicks (`results/people.py`). The entries of the consent ledger
lose their details and no longer say whose they are. Records of emails stay, so that counts and
pages remain correct, but without the address, even in the mail server's replies and in bounces. A
suppressed address stays suppressed: its digest is kept. The reports of imports lose its lines.

Addresses that these subscriptions had before are erased, too, from the emails that have their GUID.
If nobody has such an address now, what else is stored about it is erased like that about this one,
except for the digests that say which lists it has left. Subscribers who had the erased address
themselves stay, but no longer remember it.

What stays: work items in queues, until they are done; the file of an import that waits for its
confirmation, and the file and the report of one that is running, which may add the address again,
for seven days at most; backups.

| table      | partition | row                     | holds                                   |
|------------|-----------|-------------------------|-----------------------------------------|
| `erasures` | `erasure` | a digest of the address | Address, RequestedAt, IsFormer, Former: |
|            |           |                         | JSON of former addresses, and Waiting:  |
|            |           |                         | the messages whose records are still to |
|            |           |                         | be erased, once nothing else is         |

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
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.errors import Overtaken
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import FINAL, Message
from postroom.domain.messages.page_emails import PageEmails
from postroom.services import entities
from postroom.services.audience.consent.consent_ledger import ConsentLedger
from postroom.services.audience.files.runs.import_files import ImportFiles
from postroom.services.audience.lists import ListService
from postroom.services.audience.personal_data import TraceService
from postroom.services.audience.results.ab_testing import AbTestService
from postroom.services.audience.results.personal_hits import PersonalHits
from postroom.services.audience.signup.foreign_ids import ForeignIds
from postroom.services.audience.signup.unsubscribes import Unsubscribes
from postroom.services.audience.subscriber_rows import SubscriberRows
from postroom.services.audience.suppression.suppressions import SuppressionService
from postroom.services.concurrency import retry_on_conflict
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.sending.outcomes import OutcomeService
from postroom.services.messages.sending.page_rows import FREE, PageRows, page_entity
from postroom.storage import AlreadyExists, Entity, KeyRange, NotFound, Store, Value

TABLE: Final = "erasures"
GONE: Final = "(erased)"
_PARTITION: Final = "erasure"
_DIGITS: Final = 32  # of the digest, in hexadecimal: enough to rule out a collision
_AT_ONCE: Final = 100


class Erasure(msgspec.Struct, frozen=True):
    """What an erasure did. `waiting` messages are unfinished: they skip the address, and the
    scheduler erases their records when they are finished."""

    address: Address
    lists: list[str]
    emails: int
    waiting: list[str]


class _Request(msgspec.Struct, frozen=True):
    """An erasure that is not finished. Subscriptions since `at` are new ones, and stay. If somebody
    who is erased had the address before, lists do not forget that it left them (`is_former`)."""

    address: Address
    at: datetime
    waiting: tuple[str, ...] = ()
    former: tuple[FormerAddress, ...] = ()
    is_former: bool = False


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
        ab_tests: AbTestService,
        unsubscribes: Unsubscribes,
        foreign_ids: ForeignIds,
        import_files: ImportFiles,
    ) -> None:
        self._requests = store.table(TABLE)
        self._lists = lists
        self._rows = rows
        self._unsubscribes = unsubscribes
        self._foreign_ids = foreign_ids
        self._import_files = import_files
        self._tracing = tracing
        self._times = times
        self._pages = pages
        self._outcomes = outcomes
        self._ledger = ledger
        self._suppressions = suppressions
        self._personal = personal
        self._ab_tests = ab_tests

    async def erase(self, email: str) -> Erasure:
        """Erase an address. `Invalid`."""
        return await self._carry_out(await self._request(parse_address(email)))

    async def finish(self) -> int:
        """Continue all erasures that were interrupted or had to wait; return how many there are."""
        count = 0
        async for entity in self._requests.scan(KeyRange.only(_PARTITION)):
            await self._carry_out(_request(entity))
            count += 1
        return count

    async def _request(self, address: Address) -> _Request:
        """Request an erasure. An earlier one may have been interrupted when only its request still
        said which former addresses there were."""

        async def attempt() -> _Request:
            found = await self._requests.get(_PARTITION, _row(address))
            former = () if found is None else _request(found).former
            request = _Request(address, clock.now(), former=former)
            if found is None:
                await self._requests.insert(_entity(request))
            else:
                await self._requests.replace(_entity(request), found.etag)
            return request

        return await retry_on_conflict(attempt, "erasure of", _row(address))

    async def _carry_out(self, request: _Request, asked: Collection[str] = ()) -> Erasure:
        """Erase an address; `asked` are the rows of the requests that lead to this one."""
        lists: list[str] = []
        if not request.waiting:
            request = await self._with_former(request)
            guids = await self._guids(request)
            await self._foreign_ids.forget(guids)
            async for message in self._all_messages():
                await self._personal.forget(message, guids)
            lists = await self._remove_from_lists(request)
            await self._forget_unsubscribes(request)
            await self._suppressions.erase(request.address)
            await self._import_files.erase([address_key(request.address)])
        nobodys = [] if request.waiting else await self._request_former(request, asked)
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
        for each in nobodys:
            done = await self._carry_out(each, (*asked, _row(request.address)))
            emails, waiting = emails + done.emails, [*waiting, *done.waiting]
        return Erasure(request.address, lists, emails, list(dict.fromkeys(waiting)))

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

    async def _request_former(self, request: _Request, asked: Collection[str]) -> list[_Request]:
        """Request that former addresses which nobody else has now are erased like this one."""
        found: list[_Request] = []
        for key in dict.fromkeys(each.key for each in request.former):
            entity = _entity(_Request(key, request.at, is_former=True))
            if entity.row in asked or await self._tracing.subscriptions(key):
                continue
            try:
                await self._requests.insert(entity)
            except AlreadyExists:  # before an interruption
                entity = await self._requests.get(_PARTITION, entity.row) or entity
            found.append(_request(entity))
        return found

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

    async def _forget_unsubscribes(self, request: _Request) -> None:
        async for name in self._lists.all_names():
            if not request.is_former:
                await self._unsubscribes.forget(name, request.address)
            await self._rows.former.forget(name, request.address)
            await self._ledger.erase_departed(name, request.address)

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

        async def attempt() -> int | None:
            page = await self._pages.holding(message, key)
            places = [] if page is None else page.emails.places_of(key, guids)
            if page is None or not places:
                return 0
            # First: who it was is known only as long as the page says it. Hits that were queued
            # before the subscriber was removed may have been counted in the meantime.
            await self._personal.forget(message, {page.emails.guid(each) for each in places})
            is_pending = any(page.emails.outcome(each) is EmailOutcome.PENDING for each in places)
            if is_pending or page.claim != FREE or _has_waves_left(message):
                return None
            if await self._ab_tests.is_rest_open(message):
                return None  # the rest goes to those who are recipients of no variant
            after = msgspec.structs.replace(page, emails=_without(page.emails, places))
            await self._pages.table.replace(page_entity(after), page.etag)
            return len(places)

        try:
            return await retry_on_conflict(attempt, "message", message.ref)
        except Overtaken:
            return None  # later

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
    if request.is_former:
        properties["IsFormer"] = True
    return Entity(_PARTITION, _row(request.address), properties)


def _request(entity: Entity) -> _Request:
    waiting = entities.read_optional(entity, "Waiting", str)
    former = entities.read_optional(entity, "Former", str)
    return _Request(
        Address(entities.read(entity, "Address", str)),
        entities.read(entity, "RequestedAt", datetime),
        tuple(waiting.split(",")) if waiting else (),
        msgspec.json.decode(former, type=tuple[FormerAddress, ...]) if former else (),
        entities.read_optional(entity, "IsFormer", bool) or False,
    )


def _without(emails: PageEmails, places: list[int]) -> PageEmails:
    """Return a page's emails without the addresses of some, even in the mail server's replies."""
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
