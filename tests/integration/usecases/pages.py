"""Fan-out in small pages, and what must be true of its result."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.pages import (
    PAGE_SIZE,
    SEND_QUEUE,
    WorkItem,
    page_partition,
    parse_work_item,
)
from postroom.scheduler import fan_out
from postroom.scheduler.fan_out import FanOut
from postroom.sender.pages.claims import Claims
from postroom.sender.pages.page import PageStore
from postroom.sender.policy import Attempt, EmailVerdict
from postroom.services import entities
from postroom.services.messages.waiting_reasons import WaitingReasons
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.making import bodies_of, rows_of


def use_small_pages(monkeypatch: pytest.MonkeyPatch, size: int, pages: int) -> None:
    """The same with fewer emails a page, and fewer pages a window: more to be interrupted."""
    monkeypatch.setattr(fan_out, "PAGE_SIZE", size)
    monkeypatch.setattr(fan_out, "_WINDOW", size * pages)


async def fan_out_whole(store: Store, ref: str) -> Message:
    """As a scheduler does that finds the message in any state before Processing."""
    services = Services(store)
    working = FanOut(services)
    message = await services.message_rows.get_for_change(ref)
    if message.status is MessageStatus.PENDING:
        message = await working.begin(message)
    if message.status is MessageStatus.QUEUING:
        message = await working.run(message, lambda: True)
    return message


async def check_pages(store: Store, message: Message) -> list[Address]:
    """Every email in one page, every page with its items, no gaps; answers the addresses."""
    assert message.status is MessageStatus.PROCESSING
    rows = await rows_of(store, entities.PAGES, entities.pages_partition(message.day, message.ref))
    assert [row.row for row in rows] == [f"{n:06}" for n in range(len(rows))]
    assert message.queued_pages == len(rows)
    addresses: list[Address] = []
    for number, row in enumerate(rows):
        emails = await rows_of(
            store, entities.MESSAGES, page_partition(message.day, message.ref, number)
        )
        assert row.properties["Planned"] == len(emails) <= PAGE_SIZE
        assert row.properties["Done"] is (not emails)
        for email in emails:
            first, last = row.properties["FirstAddress"], row.properties["LastAddress"]
            assert str(first) <= email.row <= str(last)
        addresses += [Address(email.row) for email in emails]
    assert addresses == sorted(set(addresses)), "each once, in order"
    items = [parse_work_item(body) for body in await bodies_of(store, SEND_QUEUE)]
    ours = [item for item in items if item.ref == message.ref]
    assert {item.page for item in ours} == set(range(len(rows)))
    first_hand = [item.page for item in ours if not item.restarted]
    assert len(first_hand) == len(set(first_hand)), "whatever is put again says so"
    return addresses


def verdict(outcome: EmailOutcome, reply: str = "250 2.0.0 ok") -> EmailVerdict:
    return EmailVerdict(outcome, reply, Attempt(tries=1))


async def settle(
    services: Services, message: Message, page: int, outcomes: Iterable[EmailOutcome]
) -> Counts:
    """As a sender does: what becomes of the emails of a page, in their order."""
    pages = PageStore(services.store)
    item = WorkItem(message.day, message.ref, page, restarted=True)
    claim = await Claims(services.store, "a sender").take(item, "an item", 60)
    loaded = await pages.load(claim)
    assert loaded is not None
    verdicts = {
        address: verdict(outcome) for address, outcome in zip(loaded.emails, outcomes, strict=False)
    }
    return await pages.settle(claim, loaded, verdicts, parked=False)


async def settle_waiting(
    services: Services,
    message: Message,
    wait: WaitingReasons,
    verdict: EmailVerdict | None = None,
    *,
    page: int = 0,
) -> None:
    """As a sender does whose emails wait."""
    pages = PageStore(services.store)
    item = WorkItem(message.day, message.ref, page, restarted=True)
    claim = await Claims(services.store, "a sender").take(item, "an item", 60)
    loaded = await pages.load(claim)
    assert loaded is not None
    verdicts = {} if verdict is None else dict.fromkeys(loaded.emails, verdict)
    await pages.settle(claim, loaded, verdicts, parked=False, wait=wait)


async def check_sum(services: Services, message: Message) -> Counts:
    """The counts agree with the emails, one by one."""
    counts = await services.outcomes.counts(message)
    listed = [record async for record in services.outcomes.emails(message)]
    shown = counts.as_dict()
    for outcome in EmailOutcome:
        of_it = [record for record in listed if record.outcome is outcome]
        assert shown[outcome.value] == len(of_it), outcome
    assert counts.planned == len(listed)
    return counts
