"""What a canary may be, who is in it, and when it stops a message."""

from datetime import timedelta

import pytest

from postroom.domain.errors import Invalid
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.waves.buckets import BucketRange
from postroom.domain.messages.waves.canaries import (
    ONLY_CHOSEN,
    Canary,
    CanaryRules,
    chosen_canary,
    parse_canary,
)
from postroom.domain.messages.waves.waves import ALL_PAGES, PageRun, Waves, runs_of
from postroom.scheduler.waiting_waves import why_stopped
from postroom.services.audience.suppression.delivery_figures import DeliveryFigures


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        (None, ""),
        (" ", ""),
        ("OFF", "off"),
        ("1%", "1%"),
        ("0.50 %", "0.5%"),
        ("500", "500"),
        ("2%, 600s", "2%,10m"),
        ("500,0s", "500,0s"),
        ("1000000", "1000000"),
    ],
)
def test_a_choice_is_stored_in_its_shortest_form(text: str | None, choice: str) -> None:
    assert parse_canary(text) == choice
    assert parse_canary(choice) == choice


@pytest.mark.parametrize(
    "text", ["on", "0", "0%", "51%", "0.001%", "1.5", "1%,", "1%,10", "1%,2d", "-1%", ",10m", "1%%"]
)
def test_anything_else_is_refused_with_what_is_possible(text: str) -> None:
    with pytest.raises(Invalid, match="canary"):
        parse_canary(text)


def test_the_settings_say_how_long_the_others_wait_unless_the_author_does() -> None:
    rules = CanaryRules(wait=timedelta(minutes=3))
    assert chosen_canary("", rules) is None
    assert chosen_canary("off", rules) is None
    assert chosen_canary("2%", rules) == Canary(2.0, wait=180.0)
    assert chosen_canary("2%,5s", rules) == Canary(2.0, wait=5.0)
    assert chosen_canary("700,5s", rules) == Canary(count=700, wait=5.0)


def test_a_number_becomes_a_share_of_the_recipients() -> None:
    assert Canary(1.0).buckets(0) == BucketRange(0, 100)
    assert Canary(count=500).buckets(50_000) == BucketRange(0, 100)
    assert Canary(count=1).buckets(1_000_000) == BucketRange(0, 1)
    assert Canary(count=500).buckets(100) == BucketRange(0, 10_000)


@pytest.mark.parametrize(
    ("counts", "figures", "reason"),
    [
        (Counts(100, accepted=100), DeliveryFigures(100), ""),
        (Counts(100, accepted=95, refused=5), DeliveryFigures(95), ""),
        (Counts(100, accepted=94, refused=6), DeliveryFigures(94), "6 of 100 emails were refused"),
        (Counts(100, accepted=97, refused=3), DeliveryFigures(97, bounced=3), "6 of 100"),
        (Counts(10, accepted=8, refused=2), DeliveryFigures(8), ""),
        (Counts(100, accepted=100), DeliveryFigures(100, bounced=3, rejected=3), "reputation"),
        (Counts(100, accepted=100), DeliveryFigures(100, bounced=2, rejected=2), ""),
        (Counts(100, accepted=100), DeliveryFigures(100, complained=2), ""),
        (Counts(100, accepted=100), DeliveryFigures(100, complained=3), "marked as spam"),
        (Counts(1000, accepted=1000), DeliveryFigures(1000, complained=3), ""),
        (Counts(), DeliveryFigures(), ""),
    ],
)
def test_a_message_stops_if_its_first_emails_exceed_a_limit_and_are_not_just_a_few(
    counts: Counts, figures: DeliveryFigures, reason: str
) -> None:
    stopped = why_stopped(counts, figures, ONLY_CHOSEN)
    assert reason in stopped
    assert bool(stopped) == bool(reason)
    anything = CanaryRules(refusals=None, rejections=None, complaints=None)
    assert not why_stopped(counts, figures, anything)


def test_pages_are_in_the_order_of_addresses_within_each_wave() -> None:
    first = Waves(BucketRange(0, 100))
    assert runs_of(None, 7) == (ALL_PAGES,)
    assert runs_of(first, 3) == (PageRun(0, None),)
    assert runs_of(first.planned(), 3) == (PageRun(0, 3),)
    assert first.planned().is_waiting
    second = first.planned().following(3)
    assert (second.first_page, second.is_last, second.is_waiting) == (3, True, False)
    assert runs_of(second, 9) == (PageRun(0, 3), PageRun(3, None))
    assert not second.planned().is_waiting
