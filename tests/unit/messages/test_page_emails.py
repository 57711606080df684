"""The emails of a page: whatever is settled is found again, and the sum is that of the emails."""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.domain.audience.addresses import Address, address_key
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.page_emails import UNTRIED, EmailState, PageEmails

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
moments = st.integers(0, 10**12).map(lambda us: NOON + timedelta(microseconds=us))
states = st.builds(
    EmailState,
    outcome=st.sampled_from(EmailOutcome),
    reply=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    tries=st.integers(0, 255),
    unanswered=st.integers(0, 3),
    at=st.none() | moments,
    next_try_at=st.none() | moments,
    first_tried_at=st.none() | moments,
)

alike = st.tuples(st.integers(0, 99), st.integers(1, 40), states).map(
    lambda run: dict.fromkeys(range(run[0], min(100, run[0] + run[1])), run[2])
)
"""Neighbours with one state, as the emails of a page mostly are."""


def new_page(count: int) -> PageEmails:
    return PageEmails.planned(
        {
            Address(f"person{number:03}@example.org"): SubscriberGuid(str(uuid.UUID(int=number)))
            for number in range(count)
        }
    )


def stored(page: PageEmails) -> PageEmails:
    return PageEmails.unpacked(page.packed())


def test_a_new_page_has_its_addresses_and_guids_and_nothing_else() -> None:
    page = stored(new_page(100))
    assert len(page) == 100
    assert page.addresses[7] == "person007@example.org"
    assert page.guid(7) == str(uuid.UUID(int=7))
    assert list(page.pending()) == list(range(100))
    assert page.counts().pending == 100
    assert {state for _, state in page} == {UNTRIED}


@given(st.lists(st.dictionaries(st.integers(0, 99), states) | alike, max_size=5))
def test_every_email_is_in_the_state_that_was_settled_last(
    rounds: list[dict[int, EmailState]],
) -> None:
    page, expected = new_page(100), dict.fromkeys(range(100), UNTRIED)
    for changes in rounds:
        page = stored(page.settled(changes))
        expected |= changes
    assert {place: page.state(place) for place in range(100)} == expected
    tally = Counter(state.outcome for state in expected.values())
    counts = page.counts()
    assert counts.planned == 100
    assert {outcome: counts.as_dict()[outcome.value] for outcome in EmailOutcome} == {
        outcome: tally[outcome] for outcome in EmailOutcome
    }
    assert counts.possible_duplicates == sum(
        1
        for each in expected.values()
        if each.unanswered and each.outcome is not EmailOutcome.PENDING
    )
    assert list(page.pending()) == [
        place for place, each in expected.items() if each.outcome is EmailOutcome.PENDING
    ]


def test_each_reply_is_kept_once_and_forgotten_when_nobody_has_it() -> None:
    page = new_page(100)
    deferred = EmailState(reply="450 try later" * 50, tries=1, at=NOON, next_try_at=NOON)
    page = page.settled(dict.fromkeys(range(100), deferred))
    assert len(page.packed()) < len(new_page(100).packed()) + 2_600
    accepted = EmailState(EmailOutcome.ACCEPTED, "250 ok", tries=2, at=NOON)
    page = page.settled(dict.fromkeys(range(100), accepted))
    assert b"450" not in page.packed()


def test_a_page_of_long_addresses_and_replies_fits_into_one_entity() -> None:
    page = PageEmails.planned(
        {
            Address(f"{number:03}{'x' * 305}@example.org"): SubscriberGuid(str(uuid.uuid4()))
            for number in range(100)
        }
    )
    long = {
        place: EmailState(EmailOutcome.REFUSED, f"550 {place} {'𝕏' * 2000}", 1, at=NOON)
        for place in range(100)
    }
    packed = page.settled(long).packed()
    assert len(packed) < 500_000
    assert len(PageEmails.unpacked(packed).state(99).reply) == 1000


def test_an_address_is_found_however_it_is_spelled() -> None:
    spelled = ["ann@example.org", "Bob@Example.org", "CARL@example.org"]
    page = stored(
        PageEmails.planned({Address(a): SubscriberGuid(str(uuid.uuid4())) for a in spelled})
    )
    found = [page.places_of(address_key(Address(each.swapcase()))) for each in spelled]
    assert found == [[0], [1], [2]]
    assert page.places_of(address_key(Address("dora@example.org"))) == []


@pytest.mark.parametrize("count", [1, 2, 99])
def test_a_page_may_have_any_number_of_emails(count: int) -> None:
    page = stored(new_page(count)).settled({0: EmailState(EmailOutcome.ACCEPTED, "250", 1)})
    assert page.counts().as_dict()["pending"] == count - 1


def test_values_stay_with_their_emails_until_they_are_erased() -> None:
    people = {Address(f"p{n}@example.org"): SubscriberGuid(str(uuid.UUID(int=n))) for n in range(3)}
    values = [("Ann", "Bern"), ("", "Basel"), ("Zoë", "")]
    page = stored(PageEmails.planned(people, values))
    assert page.has_values
    after = stored(page.settled({1: EmailState(EmailOutcome.ACCEPTED, "250 ok", 1, at=NOON)}))
    assert after.values() == values
    erased = stored(after.erased(0))
    assert erased.values() == [("", ""), *values[1:]]
    assert b"Ann" not in erased.packed()


def test_a_page_without_values_takes_no_more_space_than_before() -> None:
    page = new_page(100)
    assert len(msgspec.msgpack.decode(page.packed())) == 11
    settled = page.settled({0: EmailState(EmailOutcome.ACCEPTED, "250 ok", 1, at=NOON)})
    assert len(msgspec.msgpack.decode(stored(settled).settled({1: UNTRIED}).packed())) == 11
    assert not page.has_values
    assert page.values() == ()
