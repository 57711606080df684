"""The results of a message: every number that pages, API and command line show about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import NoSuch
from postroom.domain.messages.messages import FINAL, Message, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.tracking import Track
from postroom.services.audience.results.engagement import Engagement, EngagementRows
from postroom.services.audience.results.message_unsubscribes import MessageUnsubscribes
from postroom.services.audience.results.people import PeopleRows, PeopleSums
from postroom.services.audience.results.rates import (
    COMPARED,
    RateComparison,
    Rates,
    comparison_with,
    in_percent,
)
from postroom.services.audience.suppression.delivery_figures import (
    DeliveryFigureService,
    FiguresRow,
    MessageFigures,
)
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.link_tables import LinkTables
from postroom.services.messages.sending.page_rows import PageRows

_MOST_ROWS: Final = 2_000  # of figures, read to find the messages that someone may see


class LinkClicks(msgspec.Struct, frozen=True):
    """How often people clicked a link, and how many did of those who agreed that it is recorded."""

    url: str
    clicks: int
    people: int = 0


class PeopleFigures(msgspec.Struct, frozen=True):
    """How many people opened the message and clicked, of those who `agreed` that it is recorded and
    whose email was accepted."""

    agreed: int
    opened: int
    clicked: int


class MessageResults(msgspec.Struct, frozen=True):
    """What became of a message after its emails were accepted. Without `engagement`, opens and
    clicks are not measured; `links` then are none. `people` are counted with personal tracking."""

    accepted: int = 0
    delivery: MessageFigures = MessageFigures()
    unsubscribed: int = 0
    engagement: Engagement | None = None
    links: tuple[LinkClicks, ...] = ()
    people: PeopleFigures | None = None

    @property
    def delivered(self) -> int:
        """The emails that were accepted and have not bounced since."""
        return max(self.accepted - self.delivery.total.bounced, 0)

    @property
    def opened(self) -> int | None:
        return None if self.engagement is None else self.engagement.opened

    @property
    def clicked(self) -> int | None:
        return None if self.engagement is None else self.engagement.clicked

    @property
    def click_to_open(self) -> float | None:
        """The clicks per 100 opens of people; None if nobody opened it."""
        return in_percent(self.clicked, self.opened)

    @property
    def rates(self) -> Rates:
        total, accepted = self.delivery.total, self.accepted
        return Rates(
            delivered=in_percent(self.delivered, accepted),
            bounced=in_percent(total.bounced, accepted),
            complained=in_percent(total.complained, accepted),
            unsubscribed=in_percent(self.unsubscribed, accepted),
            opened=in_percent(self.opened, self.delivered),
            clicked=in_percent(self.clicked, self.delivered),
            click_to_open=self.click_to_open,
        )


NO_RESULTS = MessageResults()


class ComparedResults(msgspec.Struct, frozen=True):
    """The results of a message, and what is usual for its list; None with too few messages."""

    results: MessageResults
    comparison: RateComparison | None


class SentMessage(msgspec.Struct, frozen=True):
    """A finished message with its results."""

    message: Message
    results: MessageResults

    @property
    def sent_at(self) -> datetime:
        return self.message.queued_at or self.message.due_at


class ResultService:
    def __init__(
        self,
        messages: MessageService,
        figures: DeliveryFigureService,
        unsubscribes: MessageUnsubscribes,
        engagement: EngagementRows,
        people: PeopleRows,
        links: LinkTables,
        pages: PageRows,
    ) -> None:
        self._messages = messages
        self._figures = figures
        self._unsubscribes = unsubscribes
        self._engagement = engagement
        self._people = people
        self._links = links
        self._pages = pages

    async def of_message(self, message: Message) -> MessageResults:
        """Return the results of a message. Bounces are a few seconds old while they arrive, opens
        and clicks about a minute."""
        if message.status is MessageStatus.DRAFT or message.queued_at is None:
            return NO_RESULTS
        results = await self._sums(message, await self._figures.of_message(message))
        if results.engagement is None:
            return results
        clicks = results.engagement.links
        table = await self._links.read(message) or ()
        sums, people = PeopleSums(), None
        if message.track is Track.PERSONAL:
            sums = await self._people.sums(message.ref)
            people = PeopleFigures(await self._agreed(message), sums.opened, sums.clicked)
        links = [
            LinkClicks(url, clicks.get(number, 0), sums.links.get(number, 0))
            for number, url in enumerate(table)
            if url
        ]
        ranked = tuple(sorted(links, key=lambda each: -each.clicks))
        return msgspec.structs.replace(results, links=ranked, people=people)

    async def compared(
        self,
        message: Message,
        *,
        accepted: int | None = None,
        sees: Callable[[Message], bool] | None = None,
    ) -> ComparedResults:
        """Return the results of a message as pages, API and command line show them, compared with
        earlier messages that someone sees.

        `accepted` is how many emails were accepted until now, if the caller knows that of a message
        that is not finished; otherwise they are counted.
        """
        results = await self.of_message(message)
        if message.counts is None and message.queued_at is not None:
            if accepted is None:
                accepted = await self._figures.accepted(message)
            results = msgspec.structs.replace(results, accepted=accepted)
        return ComparedResults(results, await self.comparison(message, sees))

    async def comparison(
        self, message: Message, sees: Callable[[Message], bool] | None = None
    ) -> RateComparison | None:
        """Return the medians of the messages of its list before this one; None if they are too
        few, or nothing of it was sent yet."""
        if message.status is MessageStatus.DRAFT or message.queued_at is None:
            return None
        earlier = await self.newest(
            COMPARED, list_name=message.list_name, before=message, sees=sees
        )
        return comparison_with([(each.sent_at, each.results) for each in earlier])

    async def newest(
        self,
        limit: int,
        *,
        list_name: ListName | None = None,
        before: Message | None = None,
        sees: Callable[[Message], bool] | None = None,
    ) -> list[SentMessage]:
        """Return the messages that were sent last, newest first, without their links: those of a
        list, before another one, or those that someone sees. A message to several lists counts for
        the first of them."""
        found: list[SentMessage] = []
        after: Message | FiguresRow | None = before
        read = 0
        while len(found) < limit and read < _MOST_ROWS:
            rows = await self._figures.newest(limit, list_name=list_name, before=after)
            read += len(rows)
            messages = await asyncio.gather(*(self._finished(each.ref) for each in rows))
            wanted = [
                (message, row.figures)
                for message, row in zip(messages, rows, strict=True)
                if message is not None and (sees is None or sees(message))
            ]
            sums = await asyncio.gather(*(self._sums(*each) for each in wanted))
            found += [
                SentMessage(message, results)
                for (message, _), results in zip(wanted, sums, strict=True)
            ]
            if len(rows) < limit:
                break
            after = rows[-1]
        return found[:limit]

    async def _finished(self, ref: MessageRef) -> Message | None:
        try:
            message = await self._messages.get(ref)
        except NoSuch:  # removed at this moment
            return None
        is_sent = message.counts is not None and message.counts.accepted > 0
        return message if message.status in FINAL and is_sent else None

    async def _sums(self, message: Message, figures: MessageFigures) -> MessageResults:
        """Return the results without the links."""
        is_measured = message.track not in (None, Track.OFF)
        unsubscribed, engagement = await asyncio.gather(
            self._unsubscribes.count(message.ref, message.queued_at),
            self._engagement.of_message(message.ref) if is_measured else _nothing(),
        )
        counts = message.counts
        accepted = figures.total.accepted if counts is None else counts.accepted
        return MessageResults(accepted, figures, unsubscribed, engagement)

    async def forget(self, message: Message) -> None:
        """Remove the results of a message that is being removed. Can be repeated."""
        await self._figures.forget(message)
        await self._unsubscribes.forget(message.ref)
        await self._engagement.forget(message.ref)
        if message.track is Track.PERSONAL:
            await self._people.forget(message.ref)

    async def _agreed(self, message: Message) -> int:
        """Return how many accepted emails have personal links."""
        return sum([page.agreed async for _, page in self._pages.summaries(message)])


async def _nothing() -> None:
    return None
