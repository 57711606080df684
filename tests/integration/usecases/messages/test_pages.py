"""Pages in a sender's hands: taken together, read again, settled with their work items."""

from pathlib import Path

import pytest

from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import SEND_QUEUE, WorkItem, parse_work_item
from postroom.sender.journal.journal import Journal, has_journal
from postroom.sender.journal.recovery import Recovery
from postroom.sender.pages import allowed_recipients as recipients_module
from postroom.sender.pages.allowed_recipients import Recipients
from postroom.sender.pages.claims import Claims, PageLost, PageTaken
from postroom.sender.pages.page import PageStore
from postroom.sender.policy import RetryPlan, WhenInDoubt
from postroom.services import entities
from postroom.services.entities import EmailRow
from postroom.storage import QueueMessage, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import address_of, fill, make_list, rows_of, schedule
from tests.integration.usecases.pages import check_sum, fan_out_whole, use_small_pages, verdict

ACCEPTED, SUPPRESSED = EmailOutcome.ACCEPTED, EmailOutcome.SUPPRESSED
LEASE = 60.0
OVERDUE = 0.0  # a lease that has run out at once: another sender may take the page over


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


def item_of(message: Message, number: int, *, restarted: bool = False) -> WorkItem:
    return WorkItem(message.day, message.ref, number, restarted)


def items_of(message: Message, *numbers: int) -> dict[WorkItem, str]:
    return {item_of(message, number): f"item {number}" for number in numbers}


async def test_neighbours_are_taken_together(
    services: Services, store: Store, message: Message
) -> None:
    await services.subscriptions.remove(message.list_name, address_of(4))
    pages = PageStore(store)
    claims = await Claims(store, "me").take_together(items_of(message, 1, 2, 3), LEASE)
    assert [claim.item.page for claim in claims] == [1, 2, 3]
    loaded = await pages.load_together(claims)
    every = {a: email for page in loaded if page is not None for a, email in page.emails.items()}
    allowed = await Recipients(store).allowed(message.list_name, every)
    assert set(allowed) == {address_of(number) for number in (3, 5, 6, 7, 8, 9)}
    for page, numbers in zip(loaded, ([3, 4, 5], [6, 7, 8], [9]), strict=True):
        assert page is not None
        assert sorted(page.emails) == [address_of(number) for number in numbers]
        assert page.counts.planned == len(numbers)
    for number in (1, 2, 3):
        with pytest.raises(PageTaken):
            await Claims(store, "other").take(item_of(message, number), "another item", LEASE)
    for claim, page in zip(claims, loaded, strict=True):
        assert page is not None
        outcomes = {
            address: verdict(ACCEPTED if address in allowed else SUPPRESSED)
            for address in page.emails
        }
        await pages.settle(claim, page, outcomes, parked=False)
    counts = await check_sum(services, message)
    assert (counts.accepted, counts.suppressed, counts.pending) == (6, 1, 3)


@pytest.mark.parametrize("case", ["apart", "restarted", "taken"])
async def test_others_are_left_to_be_taken_one_by_one(
    store: Store, message: Message, case: str
) -> None:
    mine = Claims(store, "me")
    items = items_of(message, 0, 1, 2)
    if case == "apart":
        items = items_of(message, 0, 2)
    elif case == "restarted":
        items[item_of(message, 3, restarted=True)] = "item 3"
    else:
        await Claims(store, "other").take(item_of(message, 1), "another item", LEASE)
    assert await mine.take_together(items, LEASE) == []
    for item, identity in items_of(message, 0, 2).items():
        claim = await mine.take(item, identity, LEASE)
        loaded = await PageStore(store).load(claim)
        assert loaded is not None
        assert len(loaded.emails) == 3


async def test_subscribers_are_found_among_any_number_of_others(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipients_module, "_AT_ONCE", 10)
    monkeypatch.setattr(recipients_module, "_FEW", 3)
    name = await make_list(services)
    made = await fill(store, name, 60)
    await services.subscriptions.remove(name, address_of(7))
    recipients = Recipients(store)
    for wanted in ([], [7], [8], range(60), range(0, 60, 3), [0, 59, 7, 20, 21], range(0, 60, 11)):
        addresses = {address_of(number): EmailRow(made[number].guid) for number in wanted}
        found = await recipients.allowed(name, addresses)
        assert {each for each in addresses if each in found} == set(addresses) - {address_of(7)}
        for number in wanted:
            if number != 7:
                assert found[address_of(number)].guid == made[number].guid


async def test_a_work_item_ends_after_all_else_wherever_that_is_interrupted(
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
        assert [row.row for row in rows] == ["000000"], "no claim is left"

    # The claim, the archive, the emails, the page, the work item.
    assert await cut_after_each_write(attempt) == 5


async def settle_as(store: Store, owner: str, item: WorkItem, queued: QueueMessage) -> None:
    pages = PageStore(store)
    claim = await Claims(store, owner).take(item, queued.id, OVERDUE)
    loaded = await pages.load(claim)
    assert loaded is not None
    outcomes = {address: verdict(ACCEPTED) for address in loaded.emails}
    await pages.settle(claim, loaded, outcomes, parked=False, item=queued)


async def test_who_has_lost_a_page_cannot_settle_it(store: Store, message: Message) -> None:
    pages = PageStore(store)
    item = item_of(message, 0)
    claim = await Claims(store, "me").take(item, "the item", LEASE)
    loaded = await pages.load(claim)
    assert loaded is not None
    await Claims(store, "other").take_over(item, "the item", LEASE, claim.etag)
    with pytest.raises(PageLost):
        await pages.settle(claim, loaded, {}, parked=False)


async def test_what_two_dead_senders_had_one_after_the_other_is_in_doubt(
    services: Services, store: Store, message: Message, tmp_path: Path
) -> None:
    """The second took the page over, and died before it could record the doubt."""
    item = item_of(message, 0)
    work = (await received(store))[item]
    await Claims(store, "first").take(item, work.id, OVERDUE)
    taken = await Claims(store, "second").take(item, work.id, LEASE)
    assert taken.doubtful
    journal = Journal(tmp_path, "second")
    journal.page_taken(item.partition, work.id, work.receipt, str(item))
    journal.close()

    await Recovery(
        Services(store), "alive", RetryPlan(), WhenInDoubt.HOLD, LEASE
    ).settle_dead_senders(tmp_path)

    emails = await services.outcomes.page_emails(message, 0)
    assert {each.outcome for each in emails} == {EmailOutcome.IN_DOUBT}


async def test_a_page_of_a_dead_neighbour_is_left_to_its_journal(
    services: Services, store: Store, message: Message, tmp_path: Path
) -> None:
    """Its lease has run out; whoever took it over now would doubt every email."""
    item = item_of(message, 0)
    work = (await received(store))[item]
    await Claims(store, "dead").take(item, work.id, LEASE)
    journal = Journal(tmp_path, "dead")
    journal.page_taken(item.partition, work.id, work.receipt, str(item))
    journal.close()
    alive = Claims(store, "alive", lambda owner: has_journal(tmp_path, owner))

    with pytest.raises(PageTaken):
        await alive.take(item, work.id, LEASE)
    await Recovery(
        Services(store), "alive", RetryPlan(), WhenInDoubt.HOLD, LEASE
    ).settle_dead_senders(tmp_path)
    taken = await alive.take(item, work.id, LEASE)

    assert not taken.doubtful
    assert not has_journal(tmp_path, "dead")


async def test_a_neighbour_that_stays_away_is_doubted_in_the_end(
    store: Store, message: Message, tmp_path: Path
) -> None:
    item = item_of(message, 0)
    work = (await received(store))[item]
    await Claims(store, "suspended").take(item, work.id, -2 * LEASE)
    alive = Claims(store, "alive", lambda _: True)
    assert (await alive.take(item, work.id, LEASE)).doubtful


@pytest.mark.parametrize("sent", [False, True])
async def test_our_own_claim_from_before_an_outage_is_in_doubt_only_if_we_sent(
    store: Store, message: Message, sent: bool
) -> None:
    item = item_of(message, 0)
    work = (await received(store))[item]
    mine = Claims(store, "me", has_sent=lambda _: sent)
    await mine.take(item, work.id, OVERDUE)
    assert (await mine.take(item, work.id, LEASE)).doubtful is sent


async def test_a_page_whose_rows_somebody_removed_late_is_counted_from_the_archive(
    services: Services, store: Store, message: Message
) -> None:
    """Who had lost the page archives and removes its emails, and only then hears of it."""
    item = item_of(message, 0)
    pages, other = PageStore(store), Claims(store, "other")
    claim = await Claims(store, "late").take(item, "the item", OVERDUE)
    loaded = await pages.load(claim)
    assert loaded is not None
    over = await other.take(item, "the item", LEASE)
    seen = await pages.load(over)
    assert seen is not None
    await pages.settle(over, seen, {}, parked=False)
    verdicts = {address: verdict(ACCEPTED) for address in loaded.emails}
    with pytest.raises(PageLost):
        await pages.settle(claim, loaded, verdicts, parked=False)

    again = await other.take(item, "the item", LEASE)
    found = await pages.load(again)
    assert found is not None
    counts = await pages.settle(again, found, {}, parked=False)
    assert (counts.accepted, counts.pending) == (3, 0)
    await check_sum(services, message)
