"""Key ranges: which keys lie in them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from postroom.storage import KeyRange

texts = st.text(st.characters(codec="utf-8"), max_size=5)


def lies_within(keys: KeyRange, key: str) -> bool:
    after_start = keys.start is None or key >= keys.start
    before_stop = keys.stop is None or key < keys.stop or (keys.including_stop and key == keys.stop)
    return after_start and before_stop


@given(prefix=texts, key=texts)
@example(prefix="\ud7ff", key="\ue000")
@example(prefix="a\U0010ffff", key="b")
@example(prefix="\U0010ffff", key="\U0010ffffx")
def test_a_prefix_covers_exactly_the_keys_that_begin_with_it(prefix: str, key: str) -> None:
    assert lies_within(KeyRange.prefix(prefix), key) == key.startswith(prefix)
    assert lies_within(KeyRange.prefix(prefix), prefix + key)


@pytest.mark.parametrize(
    ("keys", "single"),
    [
        (KeyRange.only("a"), "a"),
        (KeyRange.between("a", "a"), "a"),
        (KeyRange("a", "a"), None),  # half open: holds nothing
        (KeyRange.between("a", "b"), None),
        (KeyRange.prefix("a"), None),
        (KeyRange(), None),
    ],
)
def test_a_range_of_one_key_is_known_as_such(keys: KeyRange, single: str | None) -> None:
    assert keys.single == single
