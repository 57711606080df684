"""Which bounce and complaint rates are too high, and which hold emails back."""

from __future__ import annotations

import pytest

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.delivery.providers import Provider
from postroom.services.audience.suppression.delivery_figures import (
    DeliveryFigures,
    MessageFigures,
    PeriodFigures,
)
from postroom.services.audience.suppression.delivery_limits import (
    HoldRates,
    RateKind,
    describe_finding,
    find_high_rates,
    find_high_rates_of_period,
)

GMAIL = Provider("gmail.com")
NEVER = HoldRates(None, None, None)
Found = list[tuple[RateKind, Provider | None, bool]]


def total(**figures: int) -> MessageFigures:
    return MessageFigures(DeliveryFigures(10_000, **figures))


def at_gmail(**figures: int) -> MessageFigures:
    return MessageFigures(DeliveryFigures(100_000), (), {GMAIL: DeliveryFigures(10_000, **figures)})


@pytest.mark.parametrize(
    ("figures", "rates", "found"),
    [
        (total(complained=9), HoldRates(), []),
        (total(complained=10), HoldRates(), [(RateKind.COMPLAINTS, None, False)]),
        (total(complained=30), HoldRates(), [(RateKind.COMPLAINTS, None, True)]),
        (total(complained=30), NEVER, [(RateKind.COMPLAINTS, None, False)]),
        (MessageFigures(DeliveryFigures(10, complained=2)), HoldRates(), []),
        (at_gmail(complained=30), HoldRates(), [(RateKind.COMPLAINTS, GMAIL, True)]),
        (at_gmail(bounced=100, rejected=100), HoldRates(), []),
        (at_gmail(bounced=101, rejected=101), HoldRates(), [(RateKind.REJECTIONS, GMAIL, True)]),
        (at_gmail(bounced=101, rejected=101), NEVER, []),
        (total(bounced=500), HoldRates(), []),
        (total(bounced=501), HoldRates(), [(RateKind.BOUNCES, None, False)]),
        (total(bounced=1000), HoldRates(), [(RateKind.BOUNCES, None, True)]),
        (total(bounced=1000), NEVER, [(RateKind.BOUNCES, None, False)]),
        (total(bounced=300), HoldRates(bounces=2), [(RateKind.BOUNCES, None, True)]),
        (MessageFigures(DeliveryFigures(100, bounced=19)), HoldRates(), []),
    ],
)
def test_rates_that_are_too_high(figures: MessageFigures, rates: HoldRates, found: Found) -> None:
    assert [(e.kind, e.provider, e.holds) for e in find_high_rates(figures, rates)] == found


def test_rates_of_30_days_are_those_of_lists_and_providers_together() -> None:
    small = DeliveryFigures(1000, bounced=60, rejected=11, complained=3)
    news = ListName("news")
    figures = PeriodFigures({news: small}, {GMAIL: small})
    found = [
        (each.kind, each.provider or each.list_name, each.holds)
        for each in find_high_rates_of_period(figures, HoldRates())
    ]
    assert found == [
        (RateKind.COMPLAINTS, GMAIL, True),
        (RateKind.REJECTIONS, GMAIL, True),
        (RateKind.BOUNCES, GMAIL, False),
        (RateKind.COMPLAINTS, news, False),
        (RateKind.BOUNCES, news, False),
    ]
    texts = [describe_finding(each) for each in find_high_rates_of_period(figures, NEVER)]
    assert texts[-1] == "60 of 1,000 emails of list news within 30 days (6.00%) bounced"


def test_a_finding_names_the_limits() -> None:
    [finding] = find_high_rates(at_gmail(complained=30), HoldRates())
    assert describe_finding(finding) == (
        "30 of 10,000 emails at gmail.com (0.30%) were marked as spam; Gmail recommends less than"
        " 0.1%, and Gmail and Yahoo require less than 0.3%"
    )
