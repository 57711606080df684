"""Settling a page: its emails get their new states, and the page says what it waits for."""

import uuid
from datetime import UTC, datetime, timedelta

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.page_emails import EmailState, PageEmails
from postroom.domain.messages.refs import MessageRef
from postroom.sender.pages.settling import is_due, seconds_until_due, settled
from postroom.services.messages.sending.holds import ACCOUNT, Fault, HoldKey, Holds, opened
from postroom.services.messages.sending.page_rows import (
    FREE,
    Page,
    PageClaim,
    page_entity,
    page_from,
)
from postroom.transport.contract import FaultScope

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
REF = MessageRef("639303934531336520")
ACCEPTED = EmailState(EmailOutcome.ACCEPTED, "250 ok", tries=1, at=NOW)
DEFERRED = EmailState(reply="450 later", tries=1, at=NOW, next_try_at=LATER, first_tried_at=NOW)
HELD = Holds([opened(Fault(FaultScope.ACCOUNT, ACCOUNT, "Wrong password", "535 no"), None, NOW)])


def claimed_page(count: int = 4) -> Page:
    guids = {
        Address(f"{number}@example.org"): SubscriberGuid(str(uuid.UUID(int=number)))
        for number in range(count)
    }
    claim = PageClaim("a sender", LATER)
    return Page("2026-11-15", REF, 7, PageEmails.planned(guids), claim=claim, etag="1")


def test_settled_emails_have_their_states_and_the_claim_ends() -> None:
    page = settled(claimed_page(), dict.fromkeys(range(4), ACCEPTED), Holds(), NOW)
    assert page.claim == FREE
    assert page.counts.as_dict()["accepted"] == 4
    assert seconds_until_due(page, NOW) is None


def test_a_page_comes_back_when_its_first_deferred_email_is_due() -> None:
    states = {0: ACCEPTED, 1: DEFERRED, 2: DEFERRED, 3: ACCEPTED}
    page = settled(claimed_page(), states, Holds(), NOW)
    assert (page.waiting.deferred, page.waiting.next_try_at) == (2, LATER)
    assert page.waiting.reply == "450 later"
    assert seconds_until_due(page, NOW) == 300


def test_a_page_with_emails_that_were_not_sent_comes_back_at_once() -> None:
    page = settled(claimed_page(), {0: ACCEPTED, 1: DEFERRED}, Holds(), NOW)
    assert seconds_until_due(page, NOW) == 0


def test_a_parked_page_waits_for_the_scheduler() -> None:
    page = settled(claimed_page(), {0: ACCEPTED}, Holds(), NOW, parked=True)
    assert page.parked
    assert seconds_until_due(page, NOW) is None


def test_a_page_whose_emails_all_wait_for_a_hold_needs_no_work_item() -> None:
    page = settled(claimed_page(), {0: ACCEPTED}, HELD, NOW)
    assert page.waiting.is_held
    assert page.waiting.held_by == (ACCOUNT,)
    assert page.waiting.deferred == 3
    assert seconds_until_due(page, NOW) is None


def test_an_email_outside_the_hold_keeps_the_page_in_the_queue() -> None:
    guids = {
        Address("ann@gmail.com"): SubscriberGuid(str(uuid.uuid4())),
        Address("bob@contoso.com"): SubscriberGuid(str(uuid.uuid4())),
    }
    page = Page("2026-11-15", REF, 0, PageEmails.planned(guids))
    key = HoldKey("provider:gmail.com")
    holds = Holds([opened(Fault(FaultScope.PROVIDER, key, "It throttles us", "451"), None, NOW)])
    both = settled(page, {}, holds, NOW)
    assert not both.waiting.is_held
    assert seconds_until_due(both, NOW) == 0
    one = settled(page, {1: ACCEPTED}, holds, NOW)
    assert one.waiting.is_held
    assert (one.waiting.deferred, one.waiting.held_by) == (1, (key,))


def test_retrying_at_once_makes_emails_due_that_were_tried_before() -> None:
    assert not is_due(DEFERRED, None, NOW)
    assert is_due(DEFERRED, None, LATER)
    assert is_due(DEFERRED, NOW + timedelta(seconds=1), NOW + timedelta(seconds=2))
    assert not is_due(DEFERRED, NOW - timedelta(seconds=1), NOW)


def test_a_page_is_read_as_it_was_written() -> None:
    for after in (
        claimed_page(),
        settled(claimed_page(), {0: ACCEPTED, 1: DEFERRED}, Holds(), NOW, parked=True),
        settled(claimed_page(), {}, HELD, NOW),
    ):
        read = page_from(page_entity(after))
        assert read.counts == after.counts
        assert list(read.emails) == list(after.emails)
        assert (read.claim, read.waiting, read.parked) == (after.claim, after.waiting, after.parked)


def test_a_page_of_long_addresses_and_replies_is_spread_over_several_properties() -> None:
    guids = {
        Address(f"{number:03}{'x' * 305}@example.org"): SubscriberGuid(str(uuid.uuid4()))
        for number in range(100)
    }
    page = Page("2026-11-15", REF, 0, PageEmails.planned(guids))
    states = {
        place: EmailState(EmailOutcome.REFUSED, f"{place} {'y' * 1000}", 1) for place in range(100)
    }
    after = settled(page, states, Holds(), NOW)
    entity = page_entity(after)
    pieces = [value for value in entity.properties.values() if isinstance(value, bytes)]
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= 60_000
    assert list(page_from(entity).emails) == list(after.emails)
