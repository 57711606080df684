"""Properties as JSON: every value comes back, and an operator can read them."""

import json
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from postroom.storage import Value, codec
from postroom.storage.limits import EARLIEST

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
timestamps = st.datetimes(
    EARLIEST.replace(tzinfo=None), timezones=st.sampled_from([UTC, timezone(timedelta(hours=9))])
)
values: st.SearchStrategy[Value] = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.binary(),
    timestamps.filter(lambda value: value >= EARLIEST + timedelta(days=1)),
)


@given(st.dictionaries(names, values))
def test_what_is_encoded_is_decoded_to_the_same_types(properties: dict[str, Value]) -> None:
    decoded = codec.decode(*codec.encode(properties))
    assert decoded == properties
    assert {name: type(value) for name, value in decoded.items()} == {
        name: type(value) for name, value in properties.items()
    }


@given(timestamps, timestamps)
def test_the_text_of_timestamps_is_in_the_order_of_time(one: datetime, two: datetime) -> None:
    assert (str(codec.written_as(one)) < str(codec.written_as(two))) == (one < two)


def test_an_operator_reads_plain_json() -> None:
    text, packed = codec.encode(
        {
            "Verified": True,
            "Age": 40,
            "SeenAt": datetime(2026, 11, 15, 7, 28, 20, tzinfo=UTC),
            "Key": b"secret",
        }
    )
    assert packed is not None
    assert json.loads(text) == {
        "Verified": True,
        "Age": 40,
        "SeenAt": "2026-11-15T07:28:20.000000Z",
        "@": {"SeenAt": "t"},
    }


def test_bytes_that_an_earlier_version_wrote_into_the_json_are_read() -> None:
    assert codec.decode('{"Key": "c2VjcmV0", "@": {"Key": "b"}}') == {"Key": b"secret"}
