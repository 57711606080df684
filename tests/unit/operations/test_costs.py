"""What a month on Azure costs: requests for pages, messages and waiting."""

import pytest

from postroom.cli.operations.cost import PER_MESSAGE, PER_PAGE, Prices, Requests, monthly_cost


def test_requests_grow_with_pages_and_messages() -> None:
    one = monthly_cost(100, 1, Prices())
    more = monthly_cost(101, 2, Prices())

    assert one.requests == PER_PAGE + PER_MESSAGE
    assert more.requests == PER_PAGE.times(2) + PER_MESSAGE.times(2)


def test_prices_are_for_ten_thousand_requests() -> None:
    prices = Prices(table=1.0, queue=0.0, blob=0.0, gigabyte=0.0)
    found = monthly_cost(1_000_000, 1, prices)

    assert found.dollars == pytest.approx(found.requests.table / 10_000)
    assert found.dollars_kept == 0
    assert found.total == found.dollars + found.dollars_idle


def test_a_million_emails_cost_a_small_part_of_a_request_each() -> None:
    assert monthly_cost(1_000_000, 1, Prices()).requests.total < 45_000
    assert Requests(1, 2, 3).total == 6
