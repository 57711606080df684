"""Holds in the store, and what people do about them: try now, retry, edit a paused message."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from postroom.domain.errors import Invalid, NotNow
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.page_emails import EmailState
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem
from postroom.scheduler.held_pages import HeldPages
from postroom.sender.faults.restoring import Restoring
from postroom.services.events import Severity
from postroom.services.messages import message_states
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending.holds import (
    ACCOUNT,
    Fault,
    HoldKey,
    Refusal,
    WaitingReasons,
    message_key,
)
from postroom.services.messages.sending.page_rows import FREE
from postroom.storage import Store
from postroom.transport.contract import FaultScope, Result, ResultKind
from postroom.wiring import Services
from tests.integration.usecases.making import address_of, bodies_of, fill, make_list, schedule
from tests.integration.usecases.pages import (
    check_sum,
    claimed,
    fan_out_whole,
    record,
    settle,
    settle_waiting,
)

AWAY = Fault(FaultScope.ACCOUNT, ACCOUNT, "The mail server is unreachable", "connection refused")
FAILED = Result(ResultKind.HELD, "still refused", FaultScope.ACCOUNT, "It is away")
ACCEPTED = Result(ResultKind.ACCEPTED, "250 ok")


async def being_sent(services: Services, count: int = 5) -> Message:
    """A message of one page, whose work item was taken."""
    await fill(services.store, await make_list(services), count)
    message = await fan_out_whole(services.store, (await schedule(services)).ref)
    await bodies_of(services.store, SEND_QUEUE)
    return message


async def warnings(services: Services) -> list[str]:
    found = await services.events.slice(least=Severity.WARNING, limit=50)
    return [event.text for event in found.events]


async def test_of_many_senders_one_opens_a_hold_and_one_probes_it(services: Services) -> None:
    await asyncio.gather(*(Services(services.store).holds.open(AWAY) for _ in range(8)))
    assert len(await warnings(services)) == 1
    assert await services.holds.claim_probe(ACCOUNT) is None  # not due yet
    assert await services.holds.try_now([ACCOUNT]) == 1
    claims = await asyncio.gather(*(services.holds.claim_probe(ACCOUNT) for _ in range(8)))
    assert len([claim for claim in claims if claim is not None]) == 1

    await services.holds.probed(ACCOUNT, FAILED)
    [hold] = await services.holds.all()
    assert (hold.interval, hold.reply) == (4, "still refused")
    await services.holds.probed(ACCOUNT, ACCEPTED)
    assert not await services.holds.open_holds()
    assert len(await warnings(services)) == 1


async def test_one_page_probes_and_the_others_continue_when_their_hold_is_lifted(
    services: Services, store: Store
) -> None:
    message = await being_sent(services)
    await services.holds.open(AWAY)
    held = WaitingReasons(5, None, "connection refused", (ACCOUNT,), is_held=True)
    await settle_waiting(services, message, held)
    counts = await check_sum(services, message)
    assert (counts.pending, counts.deferred) == (5, 5)
    [shown] = (await services.message_holds.sending_state(message)).holds
    assert shown.reason == AWAY.reason

    scheduler = HeldPages(services)
    item = str(WorkItem(message.day, message.ref, 0, restarted=True))
    await scheduler.look(message)
    assert await bodies_of(store, SEND_QUEUE) == []
    await services.message_holds.try_now(message.ref)
    probing = HeldPages(services)
    for _ in range(3):  # one item, however often it looks
        await probing.look(message)
    assert await bodies_of(store, SEND_QUEUE) == [item]
    await services.holds.probed(ACCOUNT, ACCEPTED)
    # Also a scheduler that was not there when the hold was lifted finds the page.
    await HeldPages(services).look(message)
    assert await bodies_of(store, SEND_QUEUE) == [item]
    with pytest.raises(NotNow):
        await services.message_holds.try_now(message.ref)


async def test_emails_refused_because_of_our_account_are_pending_again(
    services: Services, store: Store
) -> None:
    message = await being_sent(services)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED, *[EmailOutcome.REFUSED] * 3])
    refused = tuple(Refusal(message.ref, 0, address_of(number)) for number in (1, 2))
    await services.holds.open(
        Fault(FaultScope.ACCOUNT, ACCOUNT, "Nearly all are refused", "550 no", "550 no", refused)
    )
    for _ in range(2):  # it can be repeated
        await Restoring(services).restore()
    counts = await check_sum(services, message)
    assert (counts.accepted, counts.refused, counts.pending) == (1, 1, 3)
    [hold] = await services.holds.all()
    assert hold.refused == ()
    assert (await store.queue(SEND_QUEUE).info()).length == 1


async def test_deferred_emails_are_due_immediately_on_request(services: Services) -> None:
    message = await being_sent(services)
    with pytest.raises(NotNow, match="no deferred emails"):
        await services.retries.retry(message.ref)
    later = datetime.now(UTC) + timedelta(hours=4)
    deferred = EmailState(reply="450 busy", tries=1, next_try_at=later)
    await settle_waiting(services, message, WaitingReasons(5, later, "450 busy"), deferred)
    state = await services.message_holds.sending_state(message)
    assert (state.counts.deferred, state.waiting.reply) == (5, "450 busy")
    retried = await services.retries.retry(message.ref)
    assert retried.ref == message.ref
    assert retried.retry_at is not None
    assert (await services.store.queue(SEND_QUEUE).info()).length == 1


async def test_a_paused_message_can_be_edited_until_some_of_it_was_sent(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_states, "_PAUSE_SECONDS", 0.01)
    message = await being_sent(services)
    with pytest.raises(NotNow):
        await services.messages.edit(message.ref, subject="While it is sent")
    await services.message_states.pause(message.ref)
    edited = await services.messages.edit(
        message.ref, subject="Another", bodies=NewBodies("<p>Smaller</p>", "Smaller")
    )
    assert (edited.subject, edited.status) == ("Another", MessageStatus.PAUSED)
    with pytest.raises(Invalid, match="recipients are already prepared"):
        await services.messages.edit(message.ref, scheduled_at=datetime.now(UTC))
    page = await claimed(services.store, message, 0)
    with pytest.raises(NotNow, match="still busy"):
        await services.messages.edit(message.ref, subject="Meanwhile")
    await record(services.store, page, msgspec.structs.replace(page, claim=FREE))
    await settle(services, message, 0, [EmailOutcome.ACCEPTED])
    with pytest.raises(NotNow, match="has been sent"):
        await services.messages.edit(message.ref, subject="Too late")


async def test_a_hold_of_a_message_ends_with_it(services: Services, store: Store) -> None:
    message = await being_sent(services)
    too_large = Fault(FaultScope.MESSAGE, message_key(message.ref), "It is too large", "552 large")
    await services.holds.open(too_large)
    other = Fault(FaultScope.PROVIDER, HoldKey("provider:x.example"), "It throttles us", "451 slow")
    await services.holds.open(other)
    [hold] = (await services.message_holds.sending_state(message)).holds
    assert hold.scope is FaultScope.MESSAGE
    await HeldPages(services).forget(message)
    assert list((await services.holds.open_holds()).by_key) == ["provider:x.example"]
