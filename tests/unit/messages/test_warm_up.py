"""Warm-up plans: volumes by day, and when the last email goes."""

from datetime import date

import pytest

from postroom.domain.errors import Invalid
from postroom.domain.messages.delivery.warm_up import (
    WarmUpPlan,
    last_day,
    parse_volumes,
    parse_warm_up_domain,
)

MONDAY = date(2026, 11, 16)
PLAN = WarmUpPlan("contoso.com", MONDAY, (50, 100, 500))


def test_each_day_has_its_volume_and_there_is_no_limit_before_and_after() -> None:
    days = [date(2026, 11, day) for day in range(15, 21)]
    assert [PLAN.volume(day) for day in days] == [None, 50, 100, 500, None, None]
    assert PLAN.ends == date(2026, 11, 19)
    assert PLAN.day_number(date(2026, 11, 18)) == 3


@pytest.mark.parametrize(
    ("emails", "day"), [(0, 16), (20, 16), (21, 17), (120, 17), (121, 18), (620, 18), (9_999, 19)]
)
def test_the_last_email_goes_on_the_day_whose_volume_reaches_it(emails: int, day: int) -> None:
    assert last_day([PLAN], 20, emails, MONDAY) == date(2026, 11, day)


def test_with_two_plans_the_smaller_volume_of_a_day_counts() -> None:
    other = WarmUpPlan("all", MONDAY, (1_000, 10, 10, 10))
    assert last_day([PLAN, other], 0, 25, MONDAY) == date(2026, 11, 19)


def test_volumes_are_read_from_text() -> None:
    assert parse_volumes(" 50, 100;500\n1000 ") == (50, 100, 500, 1_000)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must have between 1 and 120 days, not 0"),
        ("50, x", "must be whole numbers separated by commas, not 'x'"),
        ("50, 0", "must be between 1 and 1,000,000,000 per day, not 0"),
        ("5 " * 121, "must have between 1 and 120 days, not 121"),
    ],
)
def test_wrong_volumes_are_refused(text: str, problem: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_volumes(text)
    assert refused.value.problem == problem


def test_a_plan_is_for_a_domain_or_for_all_emails() -> None:
    assert parse_warm_up_domain(" Contoso.COM ") == "contoso.com"
    assert parse_warm_up_domain("all") == "all"
    with pytest.raises(Invalid, match="must be a domain such as example"):
        parse_warm_up_domain("everything")
