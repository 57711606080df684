"""The results of messages, as the API and the command line show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.services.audience.results.message_results import ComparedResults
from postroom.services.audience.results.personal_hits import PersonResult
from postroom.services.audience.results.rates import Rates
from postroom.services.audience.results.segment_results import SegmentFigures
from postroom.services.audience.suppression.delivery_figures import DeliveryFigures
from postroom.services.resources import Resource, Time, describe_time


class BounceKindResource(Resource, frozen=True):
    """How many emails had bounces of a kind, with one of their texts."""

    kind: BounceKind
    count: int
    text: str


class ProviderResultsResource(Resource, frozen=True):
    """What one provider reported."""

    provider: str
    accepted: Annotated[
        int, Meta(description="An estimate for messages to more than 10,000 recipients.")
    ]
    bounced: int
    rejected: Annotated[
        int,
        Meta(
            description="The provider objects to the sender or to the message; included in bounced."
        ),
    ]
    complained: int


class OpenedResource(Resource, frozen=True):
    """Visits that loaded the invisible picture."""

    people: int
    proxies: Annotated[
        int,
        Meta(description="Image proxies of Apple, Gmail and Yahoo: perhaps nobody looked at it."),
    ]
    automated: Annotated[int, Meta(description="Programs that check emails.")]


class ClickedResource(Resource, frozen=True):
    """Visits that followed a link."""

    people: int
    automated: Annotated[int, Meta(description="Programs that check links; counted in clicks.")]


class LinkClicksResource(Resource, frozen=True):
    """A link, and how often people clicked it."""

    url: str
    clicks: int
    people: Annotated[
        int | None,
        Meta(description="Of those who agreed to personal tracking. Null without it."),
    ]


class PeopleFiguresResource(Resource, frozen=True):
    """Subscribers who agreed to personal tracking; each counts once."""

    agreed: Annotated[int, Meta(description="Whose email was accepted.")]
    opened: int
    clicked: int


class HourResource(Resource, frozen=True):
    """People's opens and clicks of an hour."""

    hour: Annotated[str, Meta(description="Its beginning in UTC.", examples=["2026-11-16T22:00Z"])]
    opened: int
    clicked: int


class RatesResource(Resource, frozen=True):
    """Rates in percent; null: not measured, or nothing to divide by."""

    delivered: Annotated[float | None, Meta(description="Of accepted emails.")]
    bounced: Annotated[float | None, Meta(description="Of accepted emails.")]
    complained: Annotated[float | None, Meta(description="Of accepted emails.")]
    unsubscribed: Annotated[float | None, Meta(description="Of accepted emails.")]
    opened: Annotated[float | None, Meta(description="People, of delivered emails.")]
    clicked: Annotated[float | None, Meta(description="People, of delivered emails.")]
    click_to_open: Annotated[float | None, Meta(description="Clicks per 100 opens, by people.")]


class ComparisonResource(Resource, frozen=True):
    """The medians of the messages of the same list before this one."""

    messages: Annotated[int, Meta(description="How many messages: up to ten.")]
    rates: RatesResource


class MessageResultsResource(Resource, frozen=True):
    """What became of the emails of a message after they were accepted. Bounces are a few seconds
    old while they arrive."""

    accepted: int
    delivered: Annotated[
        int, Meta(description="Accepted by the mail server, and not bounced since.")
    ]
    bounced: int
    complained: int
    unsubscribed: Annotated[
        int,
        Meta(
            description="People who unsubscribed with a link of this message. Known without"
            " tracking."
        ),
    ]
    opened: Annotated[OpenedResource | None, Meta(description="Null: not measured.")]
    clicked: Annotated[ClickedResource | None, Meta(description="Null: not measured.")]
    people: Annotated[
        PeopleFiguresResource | None, Meta(description="Null without personal tracking.")
    ]
    click_to_open: Annotated[
        float | None, Meta(description="Clicks per 100 opens by people. Null without opens.")
    ]
    links: Annotated[Sequence[LinkClicksResource], Meta(description="Most clicked first.")]
    hours: Sequence[HourResource]
    kinds: Sequence[BounceKindResource]
    providers: Sequence[ProviderResultsResource]
    rates: RatesResource
    comparison: Annotated[
        ComparisonResource | None,
        Meta(description="Null with fewer than three earlier messages."),
    ]


class SegmentResultsResource(Resource, frozen=True):
    """The results of a message for those who are in a segment now, and received it."""

    segment: str
    accepted: int
    bounced: int
    agreed: Annotated[
        int | None, Meta(description="To personal tracking. Null if the message has none.")
    ]
    opened: Annotated[int | None, Meta(description="Of those who agreed.")]
    clicked: Annotated[int | None, Meta(description="Of those who agreed.")]


class SegmentsResultsResource(Resource, frozen=True):
    """The results of a message by segment."""

    segments: Annotated[
        Sequence[SegmentResultsResource],
        Meta(description="The first 20 segments of the message's list, sorted by name."),
    ]


def describe_segment_results(
    message: Message, figures: Mapping[str, SegmentFigures]
) -> SegmentsResultsResource:
    is_personal = message.track is Track.PERSONAL
    return SegmentsResultsResource(
        segments=[
            SegmentResultsResource(
                name,
                each.accepted,
                each.bounced,
                each.agreed if is_personal else None,
                each.opened if is_personal else None,
                each.clicked if is_personal else None,
            )
            for name, each in figures.items()
        ]
    )


def describe_rates(rates: Rates) -> RatesResource:
    shown = {
        name: None if value is None else round(value, 2)
        for name, value in msgspec.structs.asdict(rates).items()
    }
    return RatesResource(**shown)


def describe_provider_results(provider: str, figures: DeliveryFigures) -> ProviderResultsResource:
    return ProviderResultsResource(provider, **msgspec.structs.asdict(figures))


class PersonResource(Resource, frozen=True):
    """What a subscriber who agrees to personal tracking did with a message."""

    email: str
    list: str
    opened_at: Annotated[Time | None, Meta(description="The first time.")]
    clicked_at: Annotated[Time | None, Meta(description="The first time.")]
    links: Annotated[Sequence[str], Meta(description="The links that they clicked.")]


def describe_person(found: PersonResult) -> PersonResource:
    return PersonResource(
        email=found.subscriber.address,
        list=found.subscriber.list_name,
        opened_at=describe_time(found.opened_at),
        clicked_at=describe_time(found.clicked_at),
        links=list(found.links),
    )


def describe_results(found: ComparedResults) -> MessageResultsResource:
    results, comparison = found.results, found.comparison
    figures = results.delivery
    total, measured = figures.total, results.engagement
    ratio, people = results.click_to_open, results.people
    return MessageResultsResource(
        accepted=results.accepted,
        delivered=results.delivered,
        bounced=total.bounced,
        complained=total.complained,
        unsubscribed=results.unsubscribed,
        opened=None
        if measured is None
        else OpenedResource(
            measured.opened, measured.opened_by_proxies, measured.opened_by_programs
        ),
        clicked=None
        if measured is None
        else ClickedResource(measured.clicked, measured.clicked_by_programs),
        people=None
        if people is None
        else PeopleFiguresResource(people.agreed, people.opened, people.clicked),
        click_to_open=None if ratio is None else round(ratio, 1),
        links=[
            LinkClicksResource(each.url, each.clicks, None if people is None else each.people)
            for each in results.links
        ],
        hours=[]
        if measured is None
        else [
            HourResource(f"{hour}:00Z", each.opened, each.clicked)
            for hour, each in measured.hours.items()
        ],
        kinds=[BounceKindResource(each.kind, each.count, each.text) for each in figures.kinds],
        providers=[
            describe_provider_results(name, each) for name, each in figures.providers.items()
        ],
        rates=describe_rates(results.rates),
        comparison=None
        if comparison is None
        else ComparisonResource(comparison.messages, describe_rates(comparison.rates)),
    )
