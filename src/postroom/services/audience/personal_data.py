"""What is kept about one person: shown on request, and erased on request.

An erased person leaves every list, and that they had left others is forgotten. Records of emails to
them stay, so that sums and pages still tell what happened, but under a name that leads to nobody,
and without their address in the mail server's replies. Each step can be repeated: an interrupted
erasure is finished by asking again.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key, parse_address
from postroom.domain.errors import NoSuch
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import page_partition
from postroom.services import entities
from postroom.services.audience.address_trace import TraceService
from postroom.services.audience.departures import Departures
from postroom.services.audience.subscriptions import SubscriptionService
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.outcomes import EmailRecord, OutcomeService
from postroom.storage import Delete, Entity, Insert, KeyRange, NotFound, Store

GONE = "(erased)"
_AT_ONCE = 100


class Erasure(msgspec.Struct, frozen=True):
    """What an erasure did. Emails of `waiting` messages have not had their turn: they will be
    suppressed, and their records are erased by asking again when those messages are done."""

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
        outcomes: OutcomeService,
    ) -> None:
        self._emails = store.table(entities.MESSAGES)
        self._archive = store.table(entities.ARCHIVE)
        self._pages = store.table(entities.PAGES)
        self._subscriptions = subscriptions
        self._departures = Departures(store)
        self._tracing = tracing
        self._times = times
        self._outcomes = outcomes

    async def erase(self, email: str) -> Erasure:
        """Forget a person."""
        address = parse_address(email)
        lists = await self._leave_all_lists(address)
        for left in await self._tracing.departures(address):
            await self._departures.forget(left.list_name, address)
        emails, waiting = 0, []
        async for message in self._all_messages():
            for page in await self._outcomes.pages_for(message, address):
                found = await self._outcomes.emails_of_page(message, page, address)
                partition = page_partition(message.day, message.ref, int(page.row))
                if any([await self._emails.get(partition, each.row) for each in found]):
                    waiting.append(str(message.ref))
                    continue
                emails += sum([await self._rename(partition, each) for each in found])
                await self._forget_bounds(message, page, partition, address_key(address))
        return Erasure(address, lists, emails, list(dict.fromkeys(waiting)))

    async def _all_messages(self) -> AsyncIterator[Message]:
        before: str | None = None
        while True:
            found = await self._times.all(limit=_AT_ONCE, before=before)
            for message in found.messages:
                yield message
            if (before := found.next) is None:
                return

    async def _leave_all_lists(self, address: Address) -> list[str]:
        left = []
        for subscriber in await self._tracing.subscriptions(address):
            try:
                await self._subscriptions.remove(subscriber.list_name, address)
            except NoSuch:
                continue  # left by themselves at this moment
            left.append(str(subscriber.list_name))
        return left

    async def _rename(self, partition: str, email: EmailRecord) -> int:
        """Give the record of an email another name, in one step; return how many there were."""
        found = await self._archive.get(partition, email.row)
        if found is None:
            return 0
        nobody = f"erased-{secrets.token_hex(8)}@erased.invalid"
        its_address = re.compile(re.escape(email.address), re.IGNORECASE)
        properties = {
            name: its_address.sub(GONE, value) if isinstance(value, str) else value
            for name, value in found.properties.items()
            if name != "EmailAddress"
        }
        try:
            await self._archive.apply(
                [Insert(Entity(partition, nobody, properties)), Delete(partition, email.row)]
            )
        except NotFound:
            return 0  # by somebody else at this moment
        return 1

    async def _forget_bounds(
        self, message: Message, page: Entity, partition: str, key: AddressKey
    ) -> None:
        """A page says between which rows it lies: another one that is still there has to do.

        Without another one, the page ends where the one before it does: nobody looks there.
        """
        first, last = (entities.read(page, f"{end}Address", str) for end in ("First", "Last"))
        if key not in (address_key(Address(first)), address_key(Address(last))):
            return
        rows = (await self._archive.query(KeyRange.only(partition))).entities
        others = sorted(each.row for each in rows if first <= each.row <= last) or [
            await self._end_of_page_before(message, int(page.row))
        ]
        bounds = {
            "FirstAddress": others[0] if address_key(Address(first)) == key else first,
            "LastAddress": others[-1] if address_key(Address(last)) == key else last,
        }
        await self._pages.merge(Entity(page.partition, page.row, bounds))

    async def _end_of_page_before(self, message: Message, page: int) -> str:
        if page == 0:
            return ""
        partition = entities.pages_partition(message.day, message.ref)
        before = await self._pages.get(partition, entities.page_row(page - 1))
        return "" if before is None else entities.read(before, "LastAddress", str)
