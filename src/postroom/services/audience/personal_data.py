"""What is kept about one person: shown on request, and erased on request.

An erased person leaves every list, and that they had left others is forgotten. Records of emails to
them stay, so that sums and pages still tell what happened, but under a name that leads to nobody,
and without their address in the mail server's replies. Each step can be repeated: an interrupted
erasure is finished by asking again.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import msgspec

from postroom.domain.audience.addresses import Address, address_key, parse_address
from postroom.domain.errors import NoSuch
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.page_emails import PageEmails
from postroom.services.audience.address_trace import TraceService
from postroom.services.audience.departures import Departures
from postroom.services.audience.subscriptions import SubscriptionService
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.page_rows import FREE, PageRows, page_entity
from postroom.storage import Conflict, Store

GONE = "(erased)"
_AT_ONCE = 100
_TRIES = 10


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
        pages: PageRows,
    ) -> None:
        self._subscriptions = subscriptions
        self._departures = Departures(store)
        self._tracing = tracing
        self._times = times
        self._pages = pages

    async def erase(self, email: str) -> Erasure:
        """Forget a person."""
        address = parse_address(email)
        lists = await self._leave_all_lists(address)
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

    async def _leave_all_lists(self, address: Address) -> list[str]:
        left = []
        for subscriber in await self._tracing.subscriptions(address):
            try:
                await self._subscriptions.remove(subscriber.list_name, address)
            except NoSuch:
                continue  # left by themselves at this moment
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
