"""Property values as people type them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.errors import Invalid
from postroom.services.resources.operations import ValueKind, kind_of, parse_value, show_value
from postroom.storage import Value

VALUES = st.one_of(
    st.text(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.datetimes(min_value=datetime(1700, 1, 1), timezones=st.just(UTC)),
    st.binary(),
)


@given(VALUES)
def test_what_is_shown_is_read_as_the_same_value(value: Value) -> None:
    again = parse_value("Name", kind_of(value), show_value(value))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", "1.5"),
        ("integer", "９" * 3),
        ("integer", "9" * 5000),
        ("integer", ""),
        ("float", "nan"),
        ("float", "1e999"),
        ("float", "many"),
        ("boolean", "yes"),
        ("timestamp", "2026-11-15T09:00:00"),
        ("timestamp", "tomorrow"),
        ("timestamp", "0001-01-01T00:00:00+23:59"),
        ("bytes", "not base64!"),
        ("bytes", "YQ"),
        ("colour", "red"),
        ("", ""),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_a_hint(kind: str, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_value("Age", kind, text)
    assert refused.value.field == "Age"
    assert len(str(refused.value)) < 200


def test_every_kind_has_a_reader() -> None:
    examples = {"boolean": "true", "timestamp": "2026-11-15T09:00:00Z", "bytes": "aGVsbG8="}
    for kind in ValueKind:
        assert kind_of(parse_value("x", kind, examples.get(kind, "1"))) is kind
