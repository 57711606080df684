"""Where SQLite enters its index when a query goes on: behind the last key, not at the beginning."""

from __future__ import annotations

import pytest

from postroom.storage import EVERY_KEY, KeyRange
from postroom.storage.sqlite.conditions import of_query

EMAILS = KeyRange.prefix("email:")


@pytest.mark.parametrize(
    ("partitions", "rows", "last", "values"),
    [
        (KeyRange.only("p"), EMAILS, None, ["p", "email:", "email;"]),
        (KeyRange.only("p"), EMAILS, ["p", "email:x"], ["p", "email:x", "email;"]),
        (KeyRange.only("p"), EVERY_KEY, ["p", "x"], ["p", "x"]),
        (KeyRange.prefix("p"), EVERY_KEY, ["p2", "x"], ["p2", "x", "q"]),
        (KeyRange.prefix("p"), EMAILS, ["p2", "x"], ["p2", "x", "q", "email:", "email;"]),
    ],
)
def test_there_is_one_lower_bound_on_what_the_index_is_entered_by(
    partitions: KeyRange, rows: KeyRange, last: list[str] | None, values: list[str]
) -> None:
    assert of_query(partitions, rows, None, last)[1] == values


@pytest.mark.parametrize(
    ("partitions", "rows", "last"),
    [
        (KeyRange.only("p"), EMAILS, ["p", "aaa"]),
        (KeyRange.only("p"), EMAILS, ["a", "email:x"]),
        (KeyRange.prefix("p"), EVERY_KEY, ["a", "x"]),
        (KeyRange.only("p"), KeyRange.only("r"), ["p", "a"]),
    ],
)
def test_a_key_from_before_the_range_leaves_the_range_whole(
    partitions: KeyRange, rows: KeyRange, last: list[str]
) -> None:
    _, values = of_query(partitions, rows, None, last)
    for keys in (partitions, rows):
        assert keys.start is None or keys.start in values
