"""A/B tests: shares that do not overlap, and winners only with enough confidence."""

import pytest

from postroom.domain.errors import Invalid
from postroom.domain.messages.waves.ab_tests import (
    Criterion,
    VariantFigures,
    chance_of,
    judged,
    parse_share,
    parse_wait,
    ranges,
)
from postroom.domain.messages.waves.buckets import BUCKETS


@pytest.mark.parametrize("share", [2, 20, 33, 90])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_ranges_are_equal_and_disjoint_parts_of_the_share(share: int, count: int) -> None:
    found = ranges(share, count)
    assert len({each.end - each.first for each in found}) == 1
    assert [each.first for each in found[1:]] == [each.end for each in found[:-1]]
    assert found[0].first == 0
    assert share - 0.05 <= found[-1].end / BUCKETS * 100 <= share


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        # z = 2.2822, 2.3570 and 3.0220, looked up in a table of the normal distribution
        ((50, 1000, 30, 1000), 0.02248),
        ((30, 1000, 50, 1000), 0.02248),
        ((15, 100, 5, 100), 0.01842),
        ((120, 2400, 90, 1800), 1.0),
        ((300, 1000, 240, 1000), 0.00251),
    ],
)
def test_the_chance_of_a_difference_is_that_of_the_z_test(
    groups: tuple[int, int, int, int], expected: float
) -> None:
    assert chance_of(*groups) == pytest.approx(expected, abs=0.00002)


def test_too_few_people_or_hits_say_nothing() -> None:
    assert chance_of(0, 0, 5, 10) == 1.0
    assert chance_of(4, 1000, 0, 1000) == 1.0
    assert chance_of(10, 10, 0, 10) < 0.001
    assert chance_of(20, 20, 20, 20) == 1.0


def test_most_clicks_win_if_all_measure_them_otherwise_fewest_unsubscribes() -> None:
    first, second = VariantFigures(1000, 300, 20), VariantFigures(1000, 240, 2)
    verdict = judged([first, second])
    assert (verdict.criterion, verdict.winner) == (Criterion.CLICKS, 0)
    assert verdict.confidence == pytest.approx(1 - 0.00251, abs=0.0001)
    unmeasured = judged([VariantFigures(1000, None, 20), second])
    assert (unmeasured.criterion, unmeasured.winner) == (Criterion.UNSUBSCRIBES, 1)


def test_without_enough_confidence_nobody_wins_but_the_best_is_known() -> None:
    verdict = judged([VariantFigures(1000, 50), VariantFigures(1000, 55)])
    assert (verdict.best, verdict.winner) == (1, None)
    assert 0 < verdict.confidence < 0.95
    nothing = judged([VariantFigures(0, 0), VariantFigures(0, 0)])
    assert (nothing.winner, nothing.confidence) == (None, 0.0)
    # More clicks than emails: visits are counted, and somebody may come twice.
    assert judged([VariantFigures(20, 90), VariantFigures(20, 2)]).winner == 0


def test_more_variants_need_a_larger_difference() -> None:
    two = [VariantFigures(1000, 50), VariantFigures(1000, 30)]
    four = [*two, VariantFigures(1000, 30), VariantFigures(1000, 30)]
    assert judged(two).winner == 0
    assert judged(four).winner is None
    assert judged(four).confidence == pytest.approx(1 - 6 * 0.02248, abs=0.001)


def test_share_and_wait_have_bounds() -> None:
    for wrong in (1, 91, -5):
        with pytest.raises(Invalid, match="between 2 and 90"):
            parse_share(wrong)
    for minutes in (0, 7 * 24 * 60 + 1):
        with pytest.raises(Invalid, match="wait_minutes"):
            parse_wait(minutes)
