"""The results of the last messages, together: of one list, or of all that someone may view.

Only rows of finished messages are read, one or a few for each, and never those of subscribers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.delivery.providers import Provider
from postroom.domain.messages.messages import Message
from postroom.services.audience.growth.list_movements import ListMovements, Movement
from postroom.services.audience.results.message_results import ResultService, SentMessage
from postroom.services.audience.results.rates import Rates, hour_of, median_rates
from postroom.services.audience.suppression.delivery_figures import DeliveryFigures

MOST_MESSAGES: Final = 50
HOURS_OF_WEEK: Final = 7 * 24
DAYS: Final = 90
_MOST_LISTS: Final = 50  # whose movements are added up for someone who may not view every list


class ResultsOverTime(msgspec.Struct, frozen=True):
    """The last messages with their results, newest first, and what they say together.

    `opened_by_hour` counts people's opens by hour of the week in UTC, from Monday at midnight;
    empty if nothing was measured. `providers` are the largest first. `movements` are by day, of the
    last 90.
    """

    list_name: ListName | None
    messages: Sequence[SentMessage] = ()
    medians: Rates = Rates()
    opened_by_hour: tuple[int, ...] = ()
    providers: Mapping[Provider, DeliveryFigures] = {}
    movements: Mapping[str, Movement] = {}

    @property
    def moved(self) -> Movement:
        """How many joined and left in all."""
        return sum(self.movements.values(), Movement())

    @property
    def best_hour(self) -> int | None:
        """The hour of the week with the most opens; None if nothing was opened."""
        most = max(self.opened_by_hour, default=0)
        return self.opened_by_hour.index(most) if most else None


class OverTimeService:
    def __init__(self, results: ResultService, movements: ListMovements) -> None:
        self._results = results
        self._movements = movements

    async def read(
        self,
        list_name: ListName | None = None,
        *,
        sees: Callable[[Message], bool] | None = None,
        only: Sequence[ListName] | None = None,
        limit: int = MOST_MESSAGES,
    ) -> ResultsOverTime:
        """Return the results of the last messages: those of a list, or those that someone sees, who
        may view `only` these lists."""
        found = await self._results.newest(limit, list_name=list_name, sees=sees)
        return ResultsOverTime(
            list_name,
            found,
            median_rates([each.results.rates for each in found]),
            _opened_by_hour(found),
            _by_provider(found),
            await self._moved(list_name, only),
        )

    async def _moved(
        self, list_name: ListName | None, only: Sequence[ListName] | None
    ) -> dict[str, Movement]:
        if list_name is not None or only is None:
            return await self._movements.days(list_name, last=DAYS)
        sums: dict[str, Movement] = {}
        for days in await asyncio.gather(
            *(self._movements.days(each, last=DAYS) for each in only[:_MOST_LISTS])
        ):
            for day, movement in days.items():
                sums[day] = sums.get(day, Movement()) + movement
        return dict(sorted(sums.items()))


def _opened_by_hour(messages: Sequence[SentMessage]) -> tuple[int, ...]:
    opened: Counter[int] = Counter()
    for each in messages:
        engagement = each.results.engagement
        for hour, figure in engagement.hours.items() if engagement else ():
            at = hour_of(hour)
            opened[at.weekday() * 24 + at.hour] += figure.opened
    return tuple(opened[hour] for hour in range(HOURS_OF_WEEK)) if opened.total() else ()


def _by_provider(messages: Sequence[SentMessage]) -> dict[Provider, DeliveryFigures]:
    sums: dict[Provider, DeliveryFigures] = {}
    for each in messages:
        for provider, figures in each.results.delivery.providers.items():
            sums[provider] = sums.get(provider, DeliveryFigures()) + figures
    return dict(sorted(sums.items(), key=lambda item: (-item[1].accepted, item[0])))
