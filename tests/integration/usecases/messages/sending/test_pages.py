"""Pages that senders claim: in groups, once each, and settled with their work items."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem, parse_work_item
from postroom.sender.journal.journal import Journal, has_journal
from postroom.sender.journal.recovery import Recovery
from postroom.sender.pages import group_claims
from postroom.sender.pages.claims import Claims, PageLost, PageTaken
from postroom.sender.pages.group_claims import Recipients
from postroom.sender.pages.settler import Settler
from postroom.sender.pages.settling import settled
from postroom.sender.policy import RetryPlan, WhenInDoubt
from postroom.services import entities
from postroom.services.messages.sending.holds import Holds
from postroom.services.messages.sending.page_rows import FREE, Page, PageRows
from postroom.storage import Batch, QueueMessage, Step, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import address_of, fill, make_list, rows_of, schedule
from tests.integration.usecases.pages import (
    check_sum,
    claimed,
    fan_out_whole,
    record,
    state,
    use_small_pages,
)

ACCEPTED = EmailOutcome.ACCEPTED
LEASE = 60.0
OVERDUE = -0.001  # a lease that has run out at once: another sender may take the page over


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pages(monkeypatch, size=3, pages=20)


@pytest.fixture
async def message(services: Services, store: Store) -> Message:
    """Four pages: three of three emails, and one of one."""
    name = await make_list(services)
    await fill(store, name, 10)
    return await fan_out_whole(store, (await schedule(services, name)).ref)


async def received(store: Store) -> dict[WorkItem, QueueMessage]:
    messages = await store.queue(SEND_QUEUE).receive(32, lease=LEASE)
    return {parse_work_item(message.body): message for message in messages}


def items_of(message: Message, *numbers: int) -> list[WorkItem]:
    return [WorkItem(message.day, message.ref, number) for number in numbers]


def claims_of(store: Store, owner: str, lease: float = LEASE) -> Claims:
    return Claims(PageRows(store), owner, lease)


def all_accepted(page: Page) -> Page:
    states = dict.fromkeys(page.emails.pending(), state(ACCEPTED))
    return settled(page, states, Holds(), datetime.now(UTC))


async def test_pages_are_claimed_and_settled_in_groups(
    services: Services, store: Store, message: Message
) -> None:
    items = items_of(message, 1, 3)
    taken = await claims_of(store, "me").take(items)
    pages = [page for page in taken.values() if isinstance(page, Page)]
    assert [list(page.emails.addresses) for page in pages] == [
        [address_of(number) for number in (3, 4, 5)],
        [address_of(9)],
    ]
    others = await claims_of(store, "other").take(items_of(message, 0, 1, 2, 3))
    assert [isinstance(page, Page) for page in others.values()] == [True, False, True, False]
    assert isinstance(others[items[0]], PageTaken)
    settler = Settler(store)
    await asyncio.gather(*(settler.settle(all_accepted(page), page.etag) for page in pages))
    counts = await check_sum(services, message)
    assert (counts.accepted, counts.pending) == (4, 6)
    assert await claims_of(store, "third").take(items) == dict.fromkeys(items)


async def test_of_many_senders_each_page_has_one(store: Store, message: Message) -> None:
    items = items_of(message, 0, 1, 2, 3)
    results = await asyncio.gather(
        *(claims_of(store, f"sender {number}").take(items) for number in range(6))
    )
    for item in items:
        assert len([each for each in results if isinstance(each[item], Page)]) == 1


async def test_a_claim_that_is_given_up_leaves_no_email_in_doubt(
    store: Store, message: Message
) -> None:
    """Unless it was taken over from a sender that may have sent emails, or we may have."""
    items = items_of(message, 0, 1, 2)
    mine = Claims(PageRows(store), "me", OVERDUE, has_sent=lambda item: item.page == 1)
    taken = await mine.take(items)
    third = taken[items[2]]
    assert isinstance(third, Page)
    await mine.take_over(third, doubtful=True)
    await mine.give_up(items)
    await claims_of(store, "other").give_up(items)
    others = (await claims_of(store, "other").take(items)).values()
    assert [isinstance(page, Page) and page.claim.doubtful for page in others] == [
        False,
        True,
        True,
    ]


async def test_a_page_that_is_gone_needs_no_work(store: Store, message: Message) -> None:
    [item] = items_of(message, 77)
    assert await claims_of(store, "me").take([item]) == {item: None}


async def test_a_page_that_another_sender_has_taken_over_is_lost_alone(
    services: Services, store: Store, message: Message
) -> None:
    taken = await claims_of(store, "me").take(items_of(message, 0, 1, 2))
    pages = [page for page in taken.values() if isinstance(page, Page)]
    assert len(pages) == 3
    over = await claims_of(store, "other").take_over(pages[1], doubtful=True)
    settler = Settler(store)
    results = await asyncio.gather(
        *(settler.settle(all_accepted(page), page.etag) for page in pages), return_exceptions=True
    )
    assert [isinstance(each, PageLost) for each in results] == [False, True, False]
    counts = await check_sum(services, message)
    assert (counts.accepted, counts.pending) == (6, 4)
    assert list(await claims_of(store, "me").renew(pages)) == []
    assert list(await claims_of(store, "other").renew([over])) == [1]


async def test_a_renewed_claim_has_a_new_etag_and_time(store: Store, message: Message) -> None:
    mine = claims_of(store, "me")
    page = await claimed(store, message, 0, "me")
    renewed = (await mine.renew([page]))[0]
    assert renewed.etag != page.etag
    assert renewed.claim.until > page.claim.until
    with pytest.raises(PageLost):
        await Settler(store).settle(all_accepted(page), page.etag)
    await Settler(store).settle(all_accepted(page), renewed.etag)


async def test_pages_that_are_finished_within_a_moment_are_written_together(
    store: Store, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [await claimed(store, message, number, "me") for number in range(3)]
    write, written = store.write_in_order, list[int]()

    async def counted(steps: Sequence[Step]) -> None:
        written.append(sum(len(step.operations) for step in steps if isinstance(step, Batch)))
        await write(steps)

    monkeypatch.setattr(store, "write_in_order", counted)
    settler = Settler(store, 0.05)
    first = asyncio.create_task(settler.settle(all_accepted(pages[0]), pages[0].etag))
    await asyncio.sleep(0)
    await asyncio.gather(first, *(settler.settle(all_accepted(p), p.etag) for p in pages[1:]))
    assert written == [3]


async def test_subscribers_are_found_among_any_number_of_others(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_claims, "_ROWS_AT_ONCE", 10)
    monkeypatch.setattr(group_claims, "_FEW", 3)
    name = await make_list(services)
    made = await fill(store, name, 60)
    await services.subscriptions.remove(name, address_of(7))
    recipients = Recipients(store)
    for wanted in ([], [7], [8], range(60), range(0, 60, 3), [0, 59, 7, 20, 21], range(0, 60, 11)):
        addresses = {address_of(number): made[number].guid for number in wanted}
        found = await recipients.allowed(name, addresses, addresses.__getitem__)
        assert {each for each in addresses if each in found} == set(addresses) - {address_of(7)}
        for number in wanted:
            if number != 7:
                assert found[address_of(number)].guid == made[number].guid


async def test_a_work_item_ends_after_its_page_wherever_that_is_interrupted(
    services: Services, store: Store
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        name = await make_list(services, f"list{writes}")
        await fill(store, name, 2)
        message = await fan_out_whole(store, (await schedule(services, name)).ref)
        [(item, queued)] = (await received(store)).items()
        died = await dies(settle_as(Fated(store, fate), "me", item, queued))
        assert (await store.queue(SEND_QUEUE).info()).length == int(died)
        if died:
            await settle_as(store, "successor", item, queued)
        counts = await check_sum(services, message)
        assert (counts.accepted, counts.pending) == (2, 0)
        rows = await rows_of(store, entities.PAGES, f"{message.day},{message.ref}")
        assert [row.row for row in rows] == ["000000"]

    # The claim, the page, the work item.
    assert await cut_after_each_write(attempt) == 3


async def settle_as(store: Store, owner: str, item: WorkItem, queued: QueueMessage) -> None:
    page = (await claims_of(store, owner, OVERDUE).take([item]))[item]
    if isinstance(page, Page):
        await Settler(store).settle(all_accepted(page), page.etag, queued)
    else:
        assert page is None, page
        await store.queue(SEND_QUEUE).delete(queued)


async def test_pages_of_two_dead_senders_one_after_the_other_are_in_doubt(
    services: Services, store: Store, message: Message, tmp_path: Path
) -> None:
    """The second took the page over, and died before it could record the doubt."""
    [item] = items_of(message, 0)
    work = (await received(store))[item]
    await claims_of(store, "first", OVERDUE).take([item])
    taken = (await claims_of(store, "second").take([item]))[item]
    assert isinstance(taken, Page)
    assert taken.claim.doubtful
    journal = Journal(tmp_path, "second")
    journal.page_taken(item.partition, work.id, work.receipt, str(item))
    journal.close()

    await Recovery(Services(store), RetryPlan(), WhenInDoubt.HOLD).settle_dead_senders(tmp_path)

    page = await services.pages.get(message.day, message.ref, 0)
    assert page is not None
    assert {each.outcome for _, each in page.emails} == {EmailOutcome.IN_DOUBT}
    assert page.claim == FREE


async def test_a_page_of_a_dead_neighbour_is_left_to_its_journal(
    store: Store, message: Message, tmp_path: Path
) -> None:
    """Its lease has run out; a sender that took it over now would doubt every email."""
    [item] = items_of(message, 0)
    work = (await received(store))[item]
    await claims_of(store, "dead", OVERDUE).take([item])
    journal = Journal(tmp_path, "dead")
    journal.page_taken(item.partition, work.id, work.receipt, str(item))
    journal.close()
    alive = Claims(PageRows(store), "alive", LEASE, lambda owner: has_journal(tmp_path, owner))

    assert isinstance((await alive.take([item]))[item], PageTaken)
    await Recovery(Services(store), RetryPlan(), WhenInDoubt.HOLD).settle_dead_senders(tmp_path)
    taken = (await alive.take([item]))[item]

    assert isinstance(taken, Page)
    assert not taken.claim.doubtful
    assert not has_journal(tmp_path, "dead")


async def test_emails_of_a_lost_sender_are_eventually_in_doubt(
    store: Store, message: Message
) -> None:
    [item] = items_of(message, 0)
    await claims_of(store, "suspended", -2 * LEASE).take([item])
    taken = (await Claims(PageRows(store), "alive", LEASE, lambda _: True).take([item]))[item]
    assert isinstance(taken, Page)
    assert taken.claim.doubtful


@pytest.mark.parametrize("sent", [False, True])
async def test_our_own_claim_from_before_an_outage_is_in_doubt_only_if_we_sent(
    store: Store, message: Message, sent: bool
) -> None:
    [item] = items_of(message, 0)
    await claims_of(store, "me", OVERDUE).take([item])
    mine = Claims(PageRows(store), "me", LEASE, has_sent=lambda _: sent)
    taken = (await mine.take([item]))[item]
    assert isinstance(taken, Page)
    assert taken.claim.doubtful is sent


async def test_a_claim_lasts_no_longer_than_a_lease_whatever_its_clock_said(
    store: Store, message: Message
) -> None:
    page = await claimed(store, message, 0)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    late = msgspec.structs.replace(page.claim, until=tomorrow)
    await record(store, page, msgspec.structs.replace(page, claim=late))
    [item] = items_of(message, 0)
    found = (await claims_of(store, "other").take([item]))[item]
    assert isinstance(found, PageTaken)
    assert found.free_at < datetime.now(UTC) + timedelta(seconds=LEASE + 1)
