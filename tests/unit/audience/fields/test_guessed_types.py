"""The type of a column that is imported into a new field, guessed from its first values."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.audience.field_types import FieldType
from postroom.services.audience.files.columns.columns import ColumnPlan
from postroom.services.audience.files.columns.dates import DateOrder
from postroom.services.audience.files.columns.guessed_types import guessed_type
from postroom.services.audience.files.subscriber_lines import SubscriberFile

YEAR_FIRST, DAY_FIRST = DateOrder.YEAR_FIRST, DateOrder.DAY_FIRST


@pytest.mark.parametrize(
    ("name", "cells", "kind"),
    [
        ("Age", ["7", "", "-12", "0"], "integer"),
        ("Price", ["7", "1.50", "-0.25"], "number"),
        ("Born", ["1990-01-31", "31.1.1990", "1990-01-31 10:00"], "date"),
        ("Vip", ["Yes", "no", "TRUE"], "boolean"),
        ("Size", ["S", "M", "L"] * 10, "choice"),
        # In doubt, text:
        ("Size", ["S", "M", "L"] * 9, "text"),
        ("Name", [f"n{n}" for n in range(9)] * 10, "text"),
        ("Same", ["x"] * 50, "text"),
        ("Zip", ["80331", "12345"], "text"),
        ("Mobile phone", ["12345"], "text"),
        ("Customer ID", ["12345"], "text"),
        ("Age", ["7", "old"], "text"),
        ("Age", ["007"], "text"),
        ("Account", ["4930123456789"], "text"),
        ("Price", ["1,50"], "text"),
        ("Born", ["31/01/1990"], "text"),
        ("Born", ["1990-02-31"], "text"),
        ("Long", [each * 101 for each in "ab"] * 10, "text"),
        ("Empty", ["", " "], None),
        ("None", [], None),
    ],
)
def test_a_type_is_guessed_only_without_a_doubt(
    name: str, cells: list[str], kind: str | None
) -> None:
    assert guessed_type(name, cells, YEAR_FIRST) == kind


def test_the_order_of_dates_decides_about_short_ones() -> None:
    assert guessed_type("Born", ["31/01/1990"], DAY_FIRST) is FieldType.DATE
    assert guessed_type("Born", ["31/01/1990"], DateOrder.MONTH_FIRST) is FieldType.TEXT


CELLS = st.one_of(
    st.sampled_from(["", "1", "-1", "0.5", "1e5", "yes", "NO", "1990-01-31", "S", "M", "Ł", "'=1"]),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
    st.text("ab1. -/", max_size=12),
)


@given(st.lists(CELLS, min_size=1, max_size=100), st.sampled_from(DateOrder))
def test_every_value_that_was_looked_at_fits_the_type(cells: list[str], order: DateOrder) -> None:
    quoted = ['"{}"'.format(cell.replace('"', '""')) for cell in cells]
    text = "email,new\n" + "".join(f"u{n}@b.org,{cell}\n" for n, cell in enumerate(quoted))
    plan = ColumnPlan(create_fields=True, guess_types=True, date_order=order)
    file = SubscriberFile(io.BytesIO(text.encode()), plan=plan)
    rejected = [each for chunk in file.chunks(1000) for each in chunk.rejected]
    assert rejected == []


def test_columns_without_values_create_nothing() -> None:
    plan = ColumnPlan(create_fields=True, guess_types=True)
    file = SubscriberFile(io.BytesIO(b"email,a,b\nann@b.org,,7\n"), plan=plan)
    assert [(each.name, each.type) for each in file.new_fields] == [("b", FieldType.INTEGER)]


def test_a_choice_has_the_values_of_the_whole_file() -> None:
    rows = "".join(f"u{n}@b.org,{'SM'[n % 2]}\n" for n in range(600))
    plan = ColumnPlan(create_fields=True, guess_types=True)
    file = SubscriberFile(io.BytesIO(f'email,size\n{rows}z@b.org,"L, wide"\n'.encode()), plan=plan)
    [size] = file.new_fields
    assert (size.type, size.choices) == (FieldType.CHOICE, ("S", "M", "L, wide"))
    many = "".join(f"v{n}@b.org,size{n}\n" for n in range(101))
    file = SubscriberFile(io.BytesIO(f"email,size\n{rows}{many}".encode()), plan=plan)
    assert [each.type for each in file.new_fields] == [FieldType.TEXT]
