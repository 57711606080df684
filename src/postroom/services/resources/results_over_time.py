"""Results over time, as the API, the command line and the file show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.refs import MessageRef
from postroom.services.audience.growth.list_movements import Movement
from postroom.services.audience.results.message_results import SentMessage
from postroom.services.audience.results.results_over_time import ResultsOverTime
from postroom.services.resources import Resource, Time, describe_time
from postroom.services.resources.results import (
    ProviderResultsResource,
    RatesResource,
    describe_provider_results,
    describe_rates,
)


class SentMessageResource(Resource, frozen=True):
    """A finished message with its numbers."""

    ref: MessageRef
    subject: str
    list: ListName
    sent_at: Time
    accepted: int
    delivered: int
    bounced: int
    complained: int
    unsubscribed: int
    opened: Annotated[int | None, Meta(description="People. Null: not measured.")]
    clicked: Annotated[int | None, Meta(description="People. Null: not measured.")]
    rates: RatesResource


class HourOfWeekResource(Resource, frozen=True):
    """How many people opened messages in an hour of the week."""

    weekday: Annotated[int, Meta(description="In UTC; 1 is Monday.")]
    hour: Annotated[int, Meta(description="In UTC.")]
    opened: int


class MovementResource(Resource, frozen=True):
    """How many joined, by how they joined, and how many left."""

    form: Annotated[int, Meta(description="Signed up with a form.")]
    api: int
    imported: int
    team: Annotated[int, Meta(description="Added by the team.")]
    unsubscribed: int
    removed: Annotated[int, Meta(description="By the team, or by a bounce.")]


class MovementOfDayResource(Resource, frozen=True):
    """How many joined and left on a day."""

    day: Annotated[str, Meta(description="In UTC.", examples=["2026-11-16"])]
    moved: MovementResource


class ResultsOverTimeResource(Resource, frozen=True):
    """The results of the last 50 messages of a list, or of all lists that you may view."""

    list: ListName | None
    messages: Annotated[Sequence[SentMessageResource], Meta(description="Newest first.")]
    medians: Annotated[RatesResource, Meta(description="Of these messages.")]
    hours: Annotated[
        Sequence[HourOfWeekResource], Meta(description="Hours without opens are left out.")
    ]
    providers: Annotated[Sequence[ProviderResultsResource], Meta(description="Largest first.")]
    moved: Annotated[MovementResource, Meta(description="In the last 90 days.")]
    days: Annotated[
        Sequence[MovementOfDayResource], Meta(description="Of the last 90, those with changes.")
    ]


def describe_sent_message(sent: SentMessage) -> SentMessageResource:
    message, results = sent.message, sent.results
    return SentMessageResource(
        ref=message.ref,
        subject=message.subject,
        list=message.list_name,
        sent_at=describe_time(sent.sent_at),
        accepted=results.accepted,
        delivered=results.delivered,
        bounced=results.delivery.total.bounced,
        complained=results.delivery.total.complained,
        unsubscribed=results.unsubscribed,
        opened=results.opened,
        clicked=results.clicked,
        rates=describe_rates(results.rates),
    )


def describe_results_over_time(found: ResultsOverTime) -> ResultsOverTimeResource:
    return ResultsOverTimeResource(
        list=found.list_name,
        messages=[describe_sent_message(each) for each in found.messages],
        medians=describe_rates(found.medians),
        hours=[
            HourOfWeekResource(place // 24 + 1, place % 24, opened)
            for place, opened in enumerate(found.opened_by_hour)
            if opened
        ],
        providers=[describe_provider_results(name, each) for name, each in found.providers.items()],
        moved=_describe_movement(found.moved),
        days=[
            MovementOfDayResource(day, _describe_movement(each))
            for day, each in found.movements.items()
        ],
    )


def _describe_movement(moved: Movement) -> MovementResource:
    return MovementResource(**msgspec.structs.asdict(moved))
