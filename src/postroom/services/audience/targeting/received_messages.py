"""Who received a message, for rules such as `received 634852858215726983`; those about opens and
clicks are in `engaged_subscribers.py`.

Subscribers are evaluated in the order of their addresses. The pages of a message have the same
order (or those of each of its waves), so each page is read once. Of its recipients, only those who
are being evaluated are kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final, Protocol

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.former_addresses import FormerAddress, former_of
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid
from postroom.domain.audience.rules import (
    ABOUT_ENGAGEMENT,
    Operator,
    Rule,
    RuleError,
    asked,
    comparisons,
    messages_of,
)
from postroom.domain.errors import NoSuch
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.page_emails import ERASED
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.waves.waves import PageRun
from postroom.services import entities
from postroom.services.audience.results.people import PeopleRows
from postroom.services.audience.targeting.engaged_subscribers import EngagedSubscribers
from postroom.services.messages.link_tables import LinkTables
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.sending.outcomes import OutcomeService
from postroom.services.messages.sending.page_rows import PageRows
from postroom.storage import Store

_PAGES_AT_ONCE: Final = 20
_RECEIVED: Final = frozenset({EmailOutcome.ACCEPTED})
_PLANNED: Final = frozenset(EmailOutcome) - {EmailOutcome.SUPPRESSED}


class ReceivedMessages:
    """Finds the messages that rules name."""

    def __init__(
        self,
        store: Store,
        messages: MessageRows,
        pages: PageRows,
        outcomes: OutcomeService,
        people: PeopleRows,
        links: LinkTables,
    ) -> None:
        self._store = store
        self._messages = messages
        self._pages = pages
        self._outcomes = outcomes
        self._people = people
        self._links = links

    async def of(
        self, rules: Iterable[Rule], lists: Sequence[ListName], today: date
    ) -> MessageRecipients:
        """Return who of these lists received the messages of these rules, and opened and clicked.
        `RuleError` if there is no such message."""
        rules = list(rules)
        found: dict[str, Message] = {}
        for rule in rules:
            for ref, place in messages_of(rule).items():
                try:
                    found[ref] = await self._messages.get(ref)
                except NoSuch as exc:
                    raise RuleError(place, f"there is no message {ref}") from exc
        asks = [each for rule in rules for each in comparisons(rule)]
        received = {asked(each) for each in asks if each.operator is Operator.RECEIVED}
        engaged = {asked(each): each for each in asks if each.operator in ABOUT_ENGAGEMENT}
        return MessageRecipients(
            self._pages,
            self._outcomes,
            {ref: found[ref] for ref in received},
            engaged=EngagedSubscribers(
                self._store, self._people, self._links, lists, engaged, found, today
            )
            if engaged
            else None,
        )

    async def planned(self, refs: Sequence[MessageRef]) -> MessageRecipients:
        """Return who received these messages, may have received them, or still will. `NoSuch`."""
        found: dict[str, Message] = {ref: await self._messages.get(ref) for ref in refs}
        return MessageRecipients(self._pages, self._outcomes, found, _PLANNED)


class MovedSubscriber(msgspec.Struct, frozen=True):
    """A subscriber who has had other addresses: at least one."""

    key: AddressKey
    former: list[FormerAddress]


def moved_among(name: ListName, rows: Iterable[tuple[str, _MovableRow]]) -> list[MovedSubscriber]:
    """Return the subscribers whose address has changed; `rows` are by the keys of subscribers."""
    return [
        MovedSubscriber(
            AddressKey(Address(row.removeprefix(entities.EMAIL_PREFIX))),
            [
                FormerAddress(name, key, _guids(each))
                for key in entities.former_keys(each.FormerAddresses)
            ],
        )
        for row, each in rows
        if each.FormerAddresses
    ]


def moved_subscribers(subscribers: Iterable[Subscriber]) -> list[MovedSubscriber]:
    """Return the subscribers whose address has changed."""
    return [
        MovedSubscriber(each.key, former_of(each)) for each in subscribers if each.former_addresses
    ]


class _MovableRow(Protocol):
    """The row of a subscriber, as far as it matters here."""

    @property
    def SubscriberGUID(self) -> SubscriberGuid: ...  # noqa: N802

    @property
    def MergedGUIDs(self) -> str: ...  # noqa: N802

    @property
    def FormerAddresses(self) -> str: ...  # noqa: N802


def _guids(row: _MovableRow) -> tuple[SubscriberGuid, ...]:
    merged = row.MergedGUIDs.split(",") if row.MergedGUIDs else []
    return (row.SubscriberGUID, *map(SubscriberGuid, merged))


class MessageRecipients:
    """`received` has for each message the keys of the recipients among the subscribers that were
    looked up last: those whose email a mail server accepted, or has one of the other outcomes
    that are `wanted`. What rules ask about opens and clicks is in it, too."""

    def __init__(
        self,
        pages: PageRows,
        outcomes: OutcomeService,
        messages: dict[str, Message],
        wanted: frozenset[EmailOutcome] = _RECEIVED,
        engaged: EngagedSubscribers | None = None,
    ) -> None:
        self.received: dict[str, set[AddressKey]] = {ref: set() for ref in messages}
        self._messages = messages
        self._wanted = wanted
        self._outcomes = outcomes
        self._engaged = engaged
        self._readers = {
            ref: [_PageReader(pages, each, run, wanted) for run in each.page_runs]
            for ref, each in messages.items()
        }

    @property
    def is_needed(self) -> bool:
        """Whether anything has to be looked up."""
        return bool(self._readers) or self._engaged is not None

    async def look_up(
        self, addresses: Sequence[Address], moved: Iterable[MovedSubscriber] = ()
    ) -> None:
        """Look up subscribers, who are in order. Continuing with those who follow reads the fewest
        pages. Those among them who have `moved` also received what went to a former address."""
        if not self.is_needed or not addresses:
            return
        wanted = [address_key(each) for each in addresses]
        for ref, readers in self._readers.items():
            found = [await reader.among(wanted) for reader in readers]
            self.received[ref] = set().union(*found)
        for each in moved:
            for ref, message in self._messages.items():
                if await self._has_received(message, each):
                    self.received[ref].add(each.key)
        if self._engaged is not None:
            self.received.update(await self._engaged.look_up(wanted))

    async def _has_received(self, message: Message, moved: MovedSubscriber) -> bool:
        emails = await self._outcomes.emails_to(
            message, moved.key, moved.former[0].guids, moved.former
        )
        return any(each.outcome in self._wanted for each in emails)


class _PageReader:
    """Reads the pages of one message, or of one of its waves, in order."""

    def __init__(
        self,
        pages: PageRows,
        message: Message,
        run: PageRun,
        outcomes: frozenset[EmailOutcome],
    ) -> None:
        self._outcomes = outcomes
        self._pages = pages
        self._message = message
        self._run = run
        self._ahead: list[AddressKey] = []
        self._passed: AddressKey | None = None
        self._reached: AddressKey | None = None
        self._next: int | None = run.first

    async def among(self, wanted: Sequence[AddressKey]) -> set[AddressKey]:
        """Return the recipients among these addresses. However many others there are in between,
        only those of some pages are in memory."""
        first, last = wanted[0], wanted[-1]
        if self._passed is None or first <= self._passed:
            self._next = await self._pages.first_until(self._message, first, self._run)
            self._ahead, self._reached = [], None
        keys, found = set(wanted), self._taken(last)
        found &= keys
        while self._next is not None and (self._reached is None or self._reached <= last):
            await self._read(self._next)
            found |= self._taken(last) & keys
        self._passed = last
        return found

    def _taken(self, last: AddressKey) -> set[AddressKey]:
        """Take the recipients up to an address out of those that were read ahead."""
        end = bisect_right(self._ahead, last)
        taken, self._ahead = set(self._ahead[:end]), self._ahead[end:]
        return taken

    async def _read(self, first: int) -> None:
        end = self._run.end
        most = _PAGES_AT_ONCE if end is None else min(_PAGES_AT_ONCE, end - first)
        found = await self._pages.some(self._message, first, most) if most > 0 else []
        for page in found:
            emails = page.emails
            known = [address_key(each) for each in emails.addresses if each != ERASED]
            self._ahead += [
                address_key(address)
                for place, address in enumerate(emails.addresses)
                if address != ERASED and emails.outcome(place) in self._outcomes
            ]
            self._reached = known[-1] if known else self._reached
        self._next = first + len(found) if len(found) == _PAGES_AT_ONCE else None
