"""Fan-out in small pages, and what must be true of its result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.page_emails import EmailState
from postroom.domain.messages.pages import (
    PAGE_SIZE,
    SEND_QUEUE,
    WorkItem,
    parse_work_item,
)
from postroom.domain.messages.tracking import Track
from postroom.scheduler import members, page_packing
from postroom.scheduler.completion import Completion
from postroom.scheduler.fan_out import FanOut
from postroom.sender.pages.claims import Claims
from postroom.sender.pages.settling import settled
from postroom.services import entities
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending.holds import Holds, WaitingReasons
from postroom.services.messages.sending.page_rows import (
    Page,
    PageRows,
    page_entity,
    page_from,
    page_row,
)
from postroom.services.messages.sending_options import SendingOptions
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.making import bodies_of, rows_of


def use_small_pages(monkeypatch: pytest.MonkeyPatch, size: int, pages: int) -> None:
    """The same with fewer emails a page, and fewer pages a window: more to be interrupted."""
    monkeypatch.setattr(page_packing, "PAGE_SIZE", size)
    monkeypatch.setattr(members, "_WINDOW", size * pages)


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
    """Every email on one page, every page with its items, no gaps; return the addresses."""
    assert message.status is MessageStatus.PROCESSING
    rows = await rows_of(store, entities.PAGES, entities.pages_partition(message.day, message.ref))
    assert [row.row for row in rows] == [page_row(n) for n in range(len(rows))]
    assert message.queued_pages == len(rows)
    addresses: list[Address] = []
    waves: list[list[Address]] = [[] for _ in message.page_runs]
    for row in rows:
        page = page_from(row)
        assert row.properties["Planned"] == len(page.emails) <= PAGE_SIZE
        assert row.properties["Done"] is False
        first, last = str(row.properties["FirstAddress"]), str(row.properties["LastAddress"])
        assert all(first <= address <= last for address in page.emails.addresses)
        number = sum(run.first <= page.number for run in message.page_runs) - 1
        waves[number] += page.emails.addresses
        addresses += page.emails.addresses
    assert waves == [sorted(each) for each in waves], "in order, in each wave"
    assert len(addresses) == len(set(addresses)), "each once"
    items = [parse_work_item(body) for body in await bodies_of(store, SEND_QUEUE)]
    ours = [item for item in items if item.ref == message.ref]
    assert {item.page for item in ours} == set(range(len(rows)))
    first_hand = [item.page for item in ours if not item.restarted]
    assert len(first_hand) == len(set(first_hand)), "whatever is put again says so"
    return addresses


def state(outcome: EmailOutcome, reply: str = "250 2.0.0 ok") -> EmailState:
    return EmailState(outcome, reply, tries=1)


async def claimed(store: Store, message: Message, number: int, owner: str = "a sender") -> Page:
    """Claim a page as a sender does."""
    item = WorkItem(message.day, message.ref, number)
    page = (await Claims(PageRows(store), owner, 60).take([item]))[item]
    assert isinstance(page, Page), page
    return page


async def record(store: Store, page: Page, after: Page) -> None:
    """Write a page that was claimed, as a sender does."""
    await PageRows(store).table.replace(page_entity(after), page.etag)


async def settle(
    services: Services, message: Message, page: int, outcomes: Iterable[EmailOutcome]
) -> Counts:
    """Give the pending emails of a page these outcomes, in their order."""
    item = WorkItem(message.day, message.ref, page)
    found = (await Claims(PageRows(services.store), "a sender", 60).take([item]))[item]
    if not isinstance(found, Page):
        assert found is None, found
        return await services.outcomes.counts(message)  # it is done
    states = {
        place: state(outcome)
        for place, outcome in zip(found.emails.pending(), outcomes, strict=False)
    }
    after = settled(found, states, Holds(), datetime.now(UTC))
    await record(services.store, found, after)
    return after.counts


async def sent_message(
    services: Services,
    list_name: str,
    bodies: NewBodies,
    outcomes: Sequence[EmailOutcome],
    at: datetime,
    track: Track = Track.OFF,
) -> Message:
    """A finished message to a list, whose emails have these outcomes."""
    message = await services.messages.create(
        list_name, "News", bodies, at, options=SendingOptions(track=track)
    )
    message = await fan_out_whole(services.store, message.ref)
    await settle(services, message, 0, outcomes)
    assert await Completion(services).check(message)
    message = await services.messages.get(message.ref)
    await services.delivery_figures.count(message)
    return message


async def settle_waiting(
    services: Services,
    message: Message,
    wait: WaitingReasons,
    state: EmailState | None = None,
    *,
    page: int = 0,
) -> None:
    """Settle a page whose emails wait."""
    found = await claimed(services.store, message, page)
    states = {} if state is None else dict.fromkeys(found.emails.pending(), state)
    after = settled(found, states, Holds(), datetime.now(UTC))
    await record(services.store, found, msgspec.structs.replace(after, waiting=wait))


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
