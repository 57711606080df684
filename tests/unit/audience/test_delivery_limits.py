"""Which bounce and complaint rates are too high, and which hold emails back."""

from __future__ import annotations

import pytest

from postroom.domain.messages.providers import Provider
from postroom.services.audience.suppression.delivery_figures import (
    DeliveryFigures,
    MessageFigures,
)
from postroom.services.audience.suppression.delivery_limits import (
    HoldRates,
    RateKind,
    describe_finding,
    find_high_rates,
)

GMAIL = Provider("gmail.com")
NEVER = HoldRates(None, None)
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
    ],
)
def test_rates_that_are_too_high(figures: MessageFigures, rates: HoldRates, found: Found) -> None:
    assert [(e.kind, e.provider, e.holds) for e in find_high_rates(figures, rates)] == found


def test_a_finding_names_the_limits() -> None:
    [finding] = find_high_rates(at_gmail(complained=30), HoldRates())
    assert describe_finding(finding) == (
        "30 of 10,000 emails at gmail.com (0.30 %) were marked as spam; Gmail recommends less than"
        " 0.1 %, and Gmail and Yahoo require less than 0.3 %"
    )
