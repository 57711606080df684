"""Names and keys on their way to Azure and back: nothing lost, nothing mixed up, order kept."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from postroom.storage import InvalidStoreUrl, KeyRange, limits
from postroom.storage.azure.conditions import is_within, range_conditions
from postroom.storage.azure.encoding import (
    Envelope,
    azure_name,
    decode_key,
    encode_key,
    metadata_of,
    real_name,
    unwrap,
    wrap,
)
from postroom.storage.azure.engine import without_poll
from postroom.storage.names import key_units

# Those that are mapped, their neighbours, and the characters that the mapping uses itself.
AWKWARD = "\"#$%&'(./0>?@[\\]\ud7ff\ue000\ufffb\ufffc\ufffd\ufffe\uffff\U00010000\U0010ffff0af "
characters = st.one_of(st.sampled_from(AWKWARD), st.characters(exclude_categories=("Cc", "Cs")))
key_texts = st.text(characters, min_size=1, max_size=12)
bounds = st.text(st.one_of(characters, st.sampled_from("\x01\x1f\x7f\x9f")), max_size=12)


def as_azure_compares(text: str) -> bytes:
    return text.encode("utf-16-be")


@given(key_texts)
def test_a_key_survives_a_round_trip_to_azure(key: str) -> None:
    assert decode_key(encode_key(key)) == key


@given(key_texts)
def test_a_kept_key_has_nothing_that_azure_forbids(key: str) -> None:
    assert not re.search(r"[/\\#?%'\x00-\x1f\x7f-\x9f]", encode_key(key))


@given(key_texts)
def test_a_kept_key_is_as_long_as_the_contract_counts(key: str) -> None:
    assert len(as_azure_compares(encode_key(key))) // 2 == key_units(key)


@given(key_texts, key_texts)
def test_azure_orders_keys_by_code_point(one: str, other: str) -> None:
    kept_one, kept_other = (
        as_azure_compares(encode_key(one)),
        as_azure_compares(encode_key(other)),
    )
    assert (kept_one < kept_other) == (one < other)
    assert (kept_one == kept_other) == (one == other)


def test_ordinary_keys_look_in_azure_as_they_are() -> None:
    for key in ("2012-10-15,634852858215726983,000042", "email:ann+tag@example.com", "한국어", "é"):
        assert encode_key(key) == key


def test_a_key_that_another_program_wrote_is_read_as_it_is() -> None:
    for kept in ("a\ufffd", "\ufffc", "\ufffcxyz", "\ufffcffffff", "%2F", "a\ufffcffffff"):
        assert decode_key(kept) == kept


@given(key_texts, st.one_of(st.none(), bounds), st.one_of(st.none(), bounds), st.booleans())
def test_a_range_finds_its_rows_on_azure(
    key: str, start: str | None, stop: str | None, including: bool
) -> None:
    within = KeyRange(start, stop, including)
    found = all(holds(condition, key) for condition in range_conditions("RowKey", within))
    assert found == is_within(key, within)


@given(key_texts, bounds)
def test_a_range_of_one_key_finds_only_that(key: str, bound: str) -> None:
    conditions = range_conditions("RowKey", KeyRange.only(bound))
    assert all(holds(condition, key) for condition in conditions) == (key == bound)


@given(key_texts, key_texts, st.one_of(st.none(), bounds))
def test_a_range_continues_after_a_key(key: str, after: str, start: str | None) -> None:
    conditions = range_conditions("RowKey", KeyRange(start), after)
    expected = key > after and (start is None or key >= start)
    assert all(holds(condition, key) for condition in conditions) == expected


def test_a_bound_that_is_longer_than_any_key_is_cut() -> None:
    longest = "/" * (limits.KEY_UNITS // 2)
    within = KeyRange(longest + "a", longest + "/" * 600, including_stop=True)
    conditions = range_conditions("RowKey", within)
    assert not all(holds(condition, longest) for condition in conditions)
    assert max(map(len, conditions)) < limits.KEY_UNITS + 30


def holds(condition: str, key: str) -> bool:
    """What Azure answers to `RowKey ge 'x'`."""
    name, operator, literal = condition.split(" ", 2)
    assert name == "RowKey"
    assert re.fullmatch(r"'([^']|'')*'", literal, re.DOTALL)
    bound = as_azure_compares(literal[1:-1].replace("''", "'"))
    kept = as_azure_compares(encode_key(key))
    return {
        "eq": kept == bound,
        "gt": kept > bound,
        "ge": kept >= bound,
        "lt": kept < bound,
        "le": kept <= bound,
    }[operator]


# -- queues ----------------------------------------------------------------------------------

queue_names = st.text(characters, min_size=1, max_size=255)


@given(queue_names)
def test_every_queue_name_becomes_one_that_azure_allows(name: str) -> None:
    kept = azure_name(name)
    assert re.fullmatch(r"[a-z0-9](-?[a-z0-9])+", kept)
    assert 3 <= len(kept) <= 63
    assert real_name(kept, metadata_of(name)) == name
    assert all(value.isascii() and value.isprintable() for value in metadata_of(name).values())


@given(queue_names, queue_names)
def test_two_queues_never_share_a_name(one: str, other: str) -> None:
    assume(one != other)
    assert azure_name(one) != azure_name(other)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("mail/send", "pr-mailz2fsend"),
        ("mailz2fsend", "pr-mailz7a2fsend"),
        ("Mail", "pr-z4dail"),
        ("shop/orders;retry", "pr-shopz2fordersz3bretry"),
        ("x" * 60, "pr-" + "x" * 60),
        ("x" * 61, "prx-c508e75f24e25db94dff52c9564a51025f69510191cc7dc2"),
    ],
)
def test_a_queue_name_can_be_read_in_azure(name: str, kept: str) -> None:
    assert azure_name(name) == kept


def test_queues_of_other_programs_are_ignored() -> None:
    assert real_name("pr-mail", None) is None
    assert real_name("pr-mail", {"owner": "somebody"}) is None
    assert real_name("pr-mail", metadata_of("other")) is None


# -- messages --------------------------------------------------------------------------------

bodies = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@given(bodies, st.dictionaries(bodies, bodies, max_size=3), st.integers(0, 100))
def test_a_message_is_read_as_it_was_written(
    body: str, properties: dict[str, str], uncounted: int
) -> None:
    envelope = Envelope(body, properties, uncounted)
    assert unwrap(wrap(envelope)) == envelope


def test_a_plain_message_is_nothing_but_its_body() -> None:
    assert wrap(Envelope("hello", {})) == "aGVsbG8="


@pytest.mark.parametrize("content", ["not base64!", "gICA", "AHgA", "", "AA==", "AHt9"])
def test_a_message_of_another_program_is_a_body_whatever_it_contains(content: str) -> None:
    assert unwrap(content).properties == {}
    assert unwrap(content).uncounted == 0


def test_the_longest_pause_between_looks_can_be_chosen() -> None:
    assert without_poll("azure://myaccount") == ("azure://myaccount", 2.0)
    assert without_poll("azure://myaccount?poll=30") == ("azure://myaccount", 30.0)
    assert without_poll("azure://?poll=0.5") == ("azure://", 0.5)


@pytest.mark.parametrize(
    "query", ["poll=0", "poll=301", "poll=soon", "pole=3", "", "poll=1&poll=2"]
)
def test_an_invalid_pause_is_refused(query: str) -> None:
    with pytest.raises(InvalidStoreUrl, match="poll"):
        without_poll(f"azure://myaccount?{query}")
