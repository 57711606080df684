"""The values of fields as emails show them."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_texts import field_texts, stored_texts
from postroom.domain.audience.fields import Field, Fields

NAMES = ("first_name", "class", "city")
FIELDS = Fields([Field("class"), Field("city", default="Bern")])

_texts = st.text(st.characters(codec="utf-8"))
_values = st.one_of(_texts, st.none(), st.integers(0, 9), st.booleans(), st.lists(_texts))


@given(st.dictionaries(st.sampled_from((*NAMES, "last_name")), _values))
def test_stored_texts_are_read_as_they_are_shown(attributes: dict[str, Any]) -> None:
    shown = field_texts(FIELDS, NAMES, Address("a@b.c"), datetime.now(UTC), attributes)
    read = stored_texts(NAMES)(msgspec.json.encode(attributes).decode())
    are_texts = all(isinstance(each := attributes.get(name), str) and each for name in NAMES)
    assert read == (shown if are_texts else None)


def test_without_stored_attributes_nothing_is_read() -> None:
    assert stored_texts(NAMES)("") is None
