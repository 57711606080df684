"""What is kept about one person: shown on request, and erased on request.

An erased person leaves every list, and that they had left others is forgotten. Records of emails to
them stay, so that sums and pages still tell what happened, but under a name that leads to nobody,
and without their address in the mail server's replies. Each step can be repeated: an interrupted
erasure is finished by asking again.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import msgspec

from postroom.domain.addresses import Address, parse_address
from postroom.domain.errors import NoSuch
from postroom.domain.messages import Message
from postroom.domain.pages import page_partition
from postroom.services import records
from postroom.services.departures import Departures
from postroom.services.message_times import MessageTimes
from postroom.services.outcomes import OutcomeService
from postroom.services.subscriptions import SubscriptionService
from postroom.services.tracing import TraceService
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
        self._emails = store.table(records.MESSAGES)
        self._archive = store.table(records.ARCHIVE)
        self._pages = store.table(records.PAGES)
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
            page = await self._outcomes.find_page(message, address)
            if page is None:
                continue
            partition = page_partition(message.day, message.ref, int(page.row))
            if await self._emails.get(partition, address) is not None:
                waiting.append(str(message.ref))
                continue
            emails += await self._rename(partition, address)
            await self._forget_bound(message, page, partition, address)
        return Erasure(address, lists, emails, waiting)

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

    async def _rename(self, partition: str, address: Address) -> int:
        """The record of an email under another name, in one step; answers how many there were."""
        found = await self._archive.get(partition, address)
        if found is None:
            return 0
        nobody = f"erased-{secrets.token_hex(8)}@erased.invalid"
        properties = {
            name: value.replace(address, GONE) if isinstance(value, str) else value
            for name, value in found.properties.items()
        }
        try:
            await self._archive.apply(
                [Insert(Entity(partition, nobody, properties)), Delete(partition, address)]
            )
        except NotFound:
            return 0  # by somebody else at this moment
        return 1

    async def _forget_bound(
        self, message: Message, page: Entity, partition: str, address: Address
    ) -> None:
        """A page says between which addresses it lies: another one that is still there has to do.

        Without another one, the page ends where the one before it does: nobody looks there.
        """
        first = records.read(page, "FirstAddress", str)
        last = records.read(page, "LastAddress", str)
        if address not in (first, last):
            return
        rows = (await self._archive.query(KeyRange.only(partition))).entities
        others = sorted(each.row for each in rows if first <= each.row <= last) or [
            await self._end_of_page_before(message, int(page.row))
        ]
        bounds = {
            "FirstAddress": others[0] if first == address else first,
            "LastAddress": others[-1] if last == address else last,
        }
        await self._pages.merge(Entity(page.partition, page.row, bounds))

    async def _end_of_page_before(self, message: Message, page: int) -> str:
        if page == 0:
            return ""
        partition = records.pages_partition(message.day, message.ref)
        before = await self._pages.get(partition, records.page_row(page - 1))
        return "" if before is None else records.read(before, "LastAddress", str)
