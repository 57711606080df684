"""The results of a message: every number that pages, API and command line show about it."""

from __future__ import annotations

import msgspec

from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.tracking import Track
from postroom.services.audience.results.engagement import Engagement, EngagementRows
from postroom.services.audience.results.message_unsubscribes import MessageUnsubscribes
from postroom.services.audience.results.people import PeopleRows, PeopleSums
from postroom.services.audience.suppression.delivery_figures import (
    DeliveryFigureService,
    MessageFigures,
)
from postroom.services.messages.link_tables import LinkTables
from postroom.services.messages.sending.page_rows import PageRows


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

    delivery: MessageFigures = MessageFigures()
    unsubscribed: int = 0
    engagement: Engagement | None = None
    links: tuple[LinkClicks, ...] = ()
    people: PeopleFigures | None = None

    @property
    def opened(self) -> int | None:
        return None if self.engagement is None else self.engagement.opened

    @property
    def clicked(self) -> int | None:
        return None if self.engagement is None else self.engagement.clicked

    @property
    def click_to_open(self) -> float | None:
        """The clicks per 100 opens of people; None if nobody opened it."""
        if self.engagement is None or not self.engagement.opened:
            return None
        return 100 * self.engagement.clicked / self.engagement.opened


NO_RESULTS = MessageResults()


class ResultService:
    def __init__(
        self,
        figures: DeliveryFigureService,
        unsubscribes: MessageUnsubscribes,
        engagement: EngagementRows,
        people: PeopleRows,
        links: LinkTables,
        pages: PageRows,
    ) -> None:
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
        results = MessageResults(
            await self._figures.of_message(message),
            await self._unsubscribes.count(message.ref),
        )
        if message.track in (None, Track.OFF):
            return results
        engagement = await self._engagement.of_message(message.ref)
        table = await self._links.read(message) or ()
        sums, people = PeopleSums(), None
        if message.track is Track.PERSONAL:
            sums = await self._people.sums(message.ref)
            people = PeopleFigures(await self._agreed(message), sums.opened, sums.clicked)
        clicks = [
            LinkClicks(url, engagement.links.get(number, 0), sums.links.get(number, 0))
            for number, url in enumerate(table)
            if url
        ]
        ranked = tuple(sorted(clicks, key=lambda each: -each.clicks))
        return msgspec.structs.replace(results, engagement=engagement, links=ranked, people=people)

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
