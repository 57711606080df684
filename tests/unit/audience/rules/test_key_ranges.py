"""A rule about the beginning of addresses reads only rows that it can select."""

from __future__ import annotations

import unicodedata
from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.rules import compile_rule, parse_rule
from postroom.domain.audience.rules.narrowing import address_start
from postroom.domain.audience.rules.syntax import Operator, Rule, RuleComparison
from postroom.services import entities
from postroom.services.audience.targeting.key_ranges import (
    EVERY_ROW,
    KeyRanges,
    ranges_of,
    within,
)
from postroom.storage import KeyRange
from tests.unit.audience.rules.test_rules import rules_of

TODAY = date(2026, 3, 31)


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        ('email starts with "Ann"', "ann"),
        ('email = "Ann@Example.org"', "ann@example.org"),
        ('email in ("anna@b.org", "ANN@b.org")', "ann"),
        ('city = "Bern" and email starts with "an" and email starts with "anna"', "anna"),
        ('email starts with "anna" or email starts with "ann"', "ann"),
        ('(email starts with "a" or age > 3) and email starts with "b"', "b"),
        ('email starts with "jür"', "j"),
        (f'email starts with "{"x" * 30}"', "x" * 24),
        # These say nothing about the beginning:
        ('email starts with "a" or email starts with "b"', ""),
        ('email starts with "a" or city = "Bern"', ""),
        ('not email starts with "a"', ""),
        ('email != "a" and email contains "a" and email ends with "a"', ""),
        ('city starts with "a"', ""),
        ('email starts with ""', ""),
    ],
)
def test_the_beginning_of_all_selected_addresses(rule: str, start: str) -> None:
    assert address_start(parse_rule(rule)) == start
    assert (ranges_of(parse_rule(rule)) == (EVERY_ROW,)) == (start == "")


TEXTS = st.text("aAsSßẞſﬁfiﬀKkéİi1.@", max_size=5)
COMPARISONS = st.builds(
    lambda operator, values: RuleComparison("email", operator, tuple(values)),
    st.sampled_from([Operator.STARTS_WITH, Operator.EQUAL, Operator.NOT_EQUAL, Operator.CONTAINS]),
    st.lists(TEXTS, min_size=1, max_size=1),
) | st.builds(
    lambda values: RuleComparison("email", Operator.IN, tuple(values)),
    st.lists(TEXTS, min_size=1, max_size=3),
)


@given(rules_of(COMPARISONS), TEXTS)
@example(RuleComparison("email", Operator.STARTS_WITH, ("strasse",)), "straße")
@example(RuleComparison("email", Operator.STARTS_WITH, ("fine",)), "ﬁne")
def test_everyone_whom_a_rule_selects_is_in_its_ranges(rule: Rule, name: str) -> None:
    address = Address(unicodedata.normalize("NFC", f"{name}x@example.org"))
    if compile_rule(rule, TODAY)({"email": address}):
        assert sum(holds(each, entities.email_row(address)) for each in ranges_of(rule)) == 1


@given(rules_of(COMPARISONS), st.lists(TEXTS, max_size=4), TEXTS, TEXTS)
def test_the_parts_behind_a_row_are_in_order_and_lose_none(
    rule: Rule, names: list[str], start: str, stop: str
) -> None:
    first, last = f"email:{start}", f"email:{stop}"
    ranges = ranges_of(rule)
    assert are_in_order(ranges)
    left = within(ranges, first, last)
    assert are_in_order(left)
    for row in (f"email:{each}" for each in names):
        is_there = first <= row < last and any(holds(each, row) for each in ranges)
        assert any(holds(each, row) for each in left) == is_there


def holds(each: KeyRange, row: str) -> bool:
    return (each.start or "") <= row and (each.stop is None or row < each.stop)


def are_in_order(ranges: KeyRanges) -> bool:
    ends = [end for each in ranges for end in (each.start or "", each.stop or "\U0010ffff")]
    return ends == sorted(ends)
