"""Suppressed addresses are blocked on every list, wherever they come from, until it is lifted."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.suppressions import Suppression, SuppressionReason, address_digest
from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind, BounceSource
from postroom.domain.messages.delivery.providers import Provider
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.pages import CONFIRM_QUEUE, SUPPRESS_QUEUE
from postroom.domain.queues.queue_names import poison_queue
from postroom.scheduler.completion import Completion
from postroom.scheduler.suppression_work import SuppressionWork
from postroom.sender.pages.settling import settled
from postroom.services import entities
from postroom.services.audience.suppression.delivery_figures import DeliveryFigures
from postroom.services.audience.suppression.delivery_limits import (
    DeliveryLimits,
    HoldRates,
    RateFinding,
)
from postroom.services.audience.suppression.suppression_items import apply_again
from postroom.services.audience.suppression.suppression_rows import SuppressionRows
from postroom.services.messages.sending.holds import Holds
from postroom.storage import Conflict, QueueMessage, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import make_list, now, schedule
from tests.integration.usecases.pages import claimed, fan_out_whole, settle, state
from tests.integration.usecases.pages import record as write_page

ANN = Address("Ann@example.com")


@pytest.fixture(params=["sqlite"])  # nothing here depends on the engine
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def bounce(
    kind: BounceKind = BounceKind.GONE,
    event: str = "event 1",
    *,
    address: Address | None = ANN,
    by_code: bool = True,
    at: datetime | None = None,
) -> Bounce:
    return Bounce(
        kind,
        event,
        BounceSource.SMTP,
        at or now(),
        address=address,
        diagnostic="550 5.1.1 no such user",
        by_code=by_code,
    )


def work_of(services: Services, lease: float = 60.0) -> SuppressionWork:
    limits = DeliveryLimits(
        services.store,
        services.messages,
        services.delivery_figures,
        services.holds,
        services.events,
        HoldRates(),
    )
    return SuppressionWork(services.store, services.suppressions, limits, lease)


async def two_lists(services: Services, address: str = ANN) -> tuple[ListName, ListName]:
    names = await make_list(services, "contoso1"), await make_list(services, "contoso2")
    for name in names:
        await services.subscriptions.add(name, address, verified=True)
    return names


async def blocked_on(services: Services, *names: ListName, address: str = ANN) -> list[str]:
    return [(await services.subscriptions.get(name, address)).blocked for name in names]


async def test_a_suppression_blocks_the_subscriber_on_every_list_until_it_is_lifted(
    services: Services,
) -> None:
    names = await two_lists(services)
    await services.suppressions.suppress("ANN@example.com", "request", source="api")
    assert await blocked_on(services, *names) == ["suppressed: request"] * 2
    size = (await services.sizes.of([names[0]]))[names[0]]
    assert (size.verified, size.recipients) == (1, 0)
    with pytest.raises(Exists):
        await services.suppressions.suppress(ANN, "again", source="api")
    with pytest.raises(NotNow, match="lift the suppression first"):
        await services.subscriptions.edit(names[0], ANN, blocked="")
    await services.suppressions.lift("ann@example.com")
    assert await blocked_on(services, *names) == ["", ""]
    with pytest.raises(NoSuch):
        await services.suppressions.get(ANN)


async def test_a_suppression_of_one_list_leaves_the_others_alone(services: Services) -> None:
    names = await two_lists(services)
    await services.suppressions.suppress(ANN, "request", source="api", list_name=names[0])
    assert await blocked_on(services, *names) == ["suppressed: request", ""]
    await services.suppressions.suppress(ANN, "complaint", source="api")
    assert await blocked_on(services, *names) == ["suppressed: complaint"] * 2
    await services.suppressions.lift(ANN)
    assert await blocked_on(services, *names) == ["suppressed: request", ""]


async def test_lifting_leaves_those_alone_whom_an_administrator_or_an_earlier_version_blocked(
    services: Services, store: Store
) -> None:
    names = await two_lists(services)
    await services.subscriptions.edit(names[0], ANN, blocked="bounced")
    row = await store.table(entities.LISTS).get(names[0], entities.email_row(ANN))
    assert row is not None
    assert "BlockedBy" not in row.properties  # as earlier versions wrote it
    await services.suppressions.suppress(ANN, "request", source="api")
    await services.suppressions.lift(ANN)
    assert await blocked_on(services, *names) == ["bounced", ""]


async def test_a_suppressed_address_is_blocked_wherever_it_comes_onto_a_list(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    for each in ("ann", "bob", "cora", "dan", "eve"):
        await services.suppressions.suppress(f"{each}@example.com", "complaint", source="api")
    added = await services.subscriptions.add(name, "bob@example.com", verified=True)
    assert added.is_suppressed
    assert await services.subscriptions.subscribe(name, "cora@example.com")
    assert (await services.subscriptions.get(name, "cora@example.com")).is_suppressed
    file = io.BytesIO(b"email,verified\nDan@example.com,true\nfay@example.com,true\n")
    report = await services.imports.import_csv(name, file)
    assert (report.added, report.blocked) == (2, 1)
    assert (await services.subscriptions.get(name, "dan@example.com")).is_suppressed
    fay = await services.subscriptions.get(name, "fay@example.com")
    assert not fay.blocked
    await services.preferences.request_address(
        fay, Address("eve@example.com"), language="", place="here"
    )
    asked = [each.body for each in await store.queue(CONFIRM_QUEUE).peek(10)]
    assert all(fay.guid not in body for body in asked)
    moved = await services.subscriptions.change_address(name, fay.address, "eve@example.com")
    assert moved.is_suppressed
    size = (await services.sizes.of([name]))[name]
    assert (size.subscribers, size.recipients) == (4, 0)


async def test_confirming_asks_again_whether_the_address_is_suppressed(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await services.subscriptions.subscribe(name, ANN)
    guid = (await services.subscriptions.get(name, ANN)).guid
    # Written between the look-up and the insertion of the sign-up, which therefore missed it.
    missed = Suppression(address_digest(ANN), ANN, "request", "api", now())
    await SuppressionRows(store).write(missed)
    confirmed = await services.subscriptions.confirm(name, guid)
    assert confirmed is not None
    assert confirmed.verified
    assert confirmed.is_suppressed


async def test_exporting_and_importing_again_keeps_the_suppression(services: Services) -> None:
    names = await two_lists(services)
    await services.suppressions.suppress(ANN, "request", source="api")
    text = "".join([piece async for piece in services.exports.export_csv(names[0])])
    await services.imports.import_csv(names[0], io.BytesIO(text.encode()))
    await services.suppressions.lift(ANN)
    assert await blocked_on(services, *names) == ["", ""]


async def test_a_dead_mailbox_is_suppressed_at_once_and_a_repeated_report_changes_nothing(
    services: Services,
) -> None:
    names = await two_lists(services)
    guid = (await services.subscriptions.get(names[0], ANN)).guid
    report = bounce(address=None)
    by_link = msgspec.structs.replace(report, list_name=names[0], subscriber=guid)
    assert await services.suppressions.record(by_link) is not None
    assert await blocked_on(services, *names) == ["suppressed: hard bounce"] * 2
    await services.suppressions.lift(ANN)
    later = msgspec.structs.replace(by_link, received_at=now() + timedelta(days=1))
    assert await services.suppressions.record(later) is None
    assert await blocked_on(services, *names) == ["", ""]


async def test_a_bounce_that_matches_no_email_changes_nothing(services: Services) -> None:
    await two_lists(services)
    assert await services.suppressions.record(bounce(address=None)) is None
    assert [each async for each in services.suppressions.all()] == []


async def test_full_mailboxes_rest_for_90_days_and_rest_again_after_the_next_bounce(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = await two_lists(services)
    start = now() - timedelta(days=6)
    for day in range(5):
        at = start + timedelta(days=day)
        await services.suppressions.record(bounce(BounceKind.FULL, f"day {day}", at=at))
        expected = ["suppressed: repeated bounces"] * 2 if day == 4 else ["", ""]
        assert await blocked_on(services, *names) == expected
    found = await services.suppressions.get(ANN)
    assert found.reason == SuppressionReason.UNDELIVERED
    assert found.expires_at is not None
    assert timedelta(days=89) < found.expires_at - now() <= timedelta(days=90)
    assert await services.suppressions.lift_expired() == 0
    later = now() + timedelta(days=91)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert await services.suppressions.lift_expired() == 1
    assert await blocked_on(services, *names) == ["", ""]
    await services.suppressions.record(bounce(BounceKind.FULL, "after the rest", at=later))
    assert await blocked_on(services, *names) == ["suppressed: repeated bounces"] * 2


async def test_lifting_leaves_a_suppression_alone_that_has_taken_its_place(
    services: Services,
) -> None:
    names = await two_lists(services)
    rows = SuppressionRows(services.store)
    expiry = now() + timedelta(days=1)
    await services.suppressions.suppress(ANN, "rest", source="api", expires_at=expiry)
    [old] = await rows.of_address(Address(ANN))
    await services.suppressions.record(bounce(BounceKind.COMPLAINT, "a complaint"))
    with pytest.raises(Conflict):
        await rows.remove(old)
    [new] = await rows.of_address(Address(ANN))
    assert new.expires_at is None
    with pytest.raises(Conflict):
        await rows.write(msgspec.structs.replace(new, etag=""), old)
    assert [each.digest for each in (await rows.slice(limit=10)).suppressions] == [new.digest]
    assert all(await blocked_on(services, *names))


async def test_recording_that_is_interrupted_anywhere_is_finished_by_the_next_attempt(
    services: Services, store: Store
) -> None:
    await make_list(services, "contoso1")
    await make_list(services, "contoso2")
    names = [ListName("contoso1"), ListName("contoso2")]

    async def attempt(fate: Fate, writes: int) -> None:
        address = Address(f"ann{writes}@example.com")
        for name in names:
            await services.subscriptions.add(name, address, verified=True)
        report = bounce(event=f"event {writes}", address=address)
        await dies(Services(Fated(store, fate)).suppressions.record(report))
        assert await services.suppressions.record(report) is not None
        blocked = await blocked_on(services, *names, address=address)
        assert blocked == ["suppressed: hard bounce"] * 2
        shown = [each async for each in services.suppressions.all() if each.address == address]
        assert len(shown) == 1

    await cut_after_each_write(attempt)


async def test_suppressing_that_is_interrupted_leaves_a_work_item_that_finishes_it(
    services: Services, store: Store
) -> None:
    name = await make_list(services)

    async def attempt(fate: Fate, writes: int) -> None:
        address = Address(f"ann{writes}@example.com")
        await services.subscriptions.add(name, address, verified=True)
        fated = Services(Fated(store, fate)).suppressions
        await dies(fated.suppress(address, "request", source="api"))
        items = [each.message.body for each in await store.queue(SUPPRESS_QUEUE).browse(1000)]
        is_suppressed = bool(await services.suppressions.of_address(address))
        assert apply_again(address) in items or not is_suppressed
        await services.suppressions.apply(address)
        [blocked] = await blocked_on(services, name, address=address)
        assert bool(blocked) == is_suppressed

    await cut_after_each_write(attempt)


async def test_pages_come_newest_first_and_are_searched(services: Services) -> None:
    for number in range(7):
        await services.suppressions.suppress(f"u{number}@example.com", "request", source="api")
    await services.suppressions.suppress("Zoe@other.org", "request", source="api")
    first = await services.suppressions.slice(limit=5)
    rest = await services.suppressions.slice(limit=5, after=first.next)
    addresses = [each.address for each in (*first.suppressions, *rest.suppressions)]
    assert addresses == [
        "Zoe@other.org",
        *(f"u{number}@example.com" for number in range(6, -1, -1)),
    ]
    assert rest.next is None
    found = await services.suppressions.slice(contains="zoe@OTHER")
    assert [each.address for each in found.suppressions] == ["Zoe@other.org"]


async def test_an_erased_address_stays_suppressed_without_being_named(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await services.subscriptions.add(name, ANN)
    await services.suppressions.record(bounce())
    await services.personal_data.erase(ANN)
    for table in ("suppression", "suppressionindex", "messagebounce", "bouncehistory"):
        rows = [each async for each in store.table(table).scan()]
        assert "ann@" not in repr(rows).lower()
    added = await services.subscriptions.add(name, ANN, verified=True)
    assert added.is_suppressed


async def test_an_erased_suppression_that_expires_unblocks_those_who_came_back(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = await two_lists(services)
    expiry = now() + timedelta(days=1)
    await services.suppressions.suppress(ANN, "rest", source="api", expires_at=expiry)
    await services.personal_data.erase(ANN)
    for name in names:
        await services.subscriptions.add(name, ANN, verified=True)
    assert await blocked_on(services, *names) == ["suppressed: rest"] * 2
    later = now() + timedelta(days=2)
    monkeypatch.setattr(clock, "now", lambda: later)

    async def attempt(fate: Fate, writes: int) -> None:
        await dies(Services(Fated(store, fate)).suppressions.lift_expired())

    await cut_after_each_write(attempt)
    assert await blocked_on(services, *names) == ["", ""]
    assert await services.suppressions.of_address(ANN) == []


async def test_long_work_keeps_its_items_from_others(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = store.queue(SUPPRESS_QUEUE)
    await queue.put_many([apply_again(ANN), apply_again(Address("bob@example.com"))])
    taken_by_others, applied = list[QueueMessage](), list[Address]()

    async def apply(address: Address) -> int:
        applied.append(address)
        for _ in range(15):  # two leases and a half
            await asyncio.sleep(0.2)
            taken_by_others.extend(await queue.receive(8, lease=60))
        return 0

    monkeypatch.setattr(services.suppressions, "apply", apply)
    assert await work_of(services, lease=1.2).work_through() == 2
    assert (applied, taken_by_others) == ([ANN, "bob@example.com"], [])
    assert (await queue.info()).length == 0


async def test_wrong_input_is_refused_with_the_value(services: Services) -> None:
    past = datetime(2020, 1, 1, tzinfo=UTC)
    with pytest.raises(Invalid, match="must be in the future, not 2020-01-01"):
        await services.suppressions.suppress(ANN, "request", source="api", expires_at=past)
    with pytest.raises(Invalid, match="reason: must not be empty"):
        await services.suppressions.suppress(ANN, " ", source="api")
    with pytest.raises(NoSuch, match="list"):
        await services.suppressions.suppress(ANN, "request", source="api", list_name="nope")


async def test_refusals_of_a_finished_message_lead_to_the_same_verdicts_as_bounces(
    services: Services, store: Store
) -> None:
    names = await two_lists(services, "dead@example.com")
    for each in ("full@example.com", "policy@example.com", "words@example.com", "ok@example.com"):
        await services.subscriptions.add(names[0], each, verified=True)
    message = await fan_out_whole(store, (await schedule(services, names[0])).ref)
    replies = {
        "dead@example.com": "550 5.1.1 user unknown",
        "full@example.com": "552 5.2.2 mailbox full",
        "policy@example.com": "550 5.7.1 blocked using a block list",
        "words@example.com": "550 no such user here",
    }
    page = await claimed(store, message, 0)
    states = {
        place: state(EmailOutcome.REFUSED, replies[address])
        if address in replies
        else state(EmailOutcome.ACCEPTED)
        for place, address in enumerate(page.emails.addresses)
    }
    await write_page(store, page, settled(page, states, Holds(), now()))
    before = await services.outcomes.counts(message)
    assert await Completion(services).check(message)
    work = work_of(services)
    assert await work.work_through() == 2
    assert [each.address async for each in services.suppressions.all()] == ["dead@example.com"]
    blocked = await blocked_on(services, *names, address="dead@example.com")
    assert blocked == ["suppressed: hard bounce"] * 2
    found = await services.suppressions.get("dead@example.com")
    assert (found.source, found.ref) == ("sending", message.ref)
    assert found.diagnostic == "550 5.1.1 user unknown"
    done = await services.messages.get(message.ref)
    assert await services.outcomes.counts(done) == before
    assert [each async for each in services.suppressions.bounces.of_message(message.ref)] == []


async def test_work_that_fails_becomes_poison_and_does_not_stop_the_rest(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await services.subscriptions.add(name, ANN, verified=True)
    missed = Suppression(address_digest(ANN), ANN, "request", "api", now())
    await SuppressionRows(store).write(missed)
    queue = store.queue(SUPPRESS_QUEUE)
    await queue.put_many(["nonsense", "refused,639000000000000000", apply_again(ANN)])
    assert await work_of(services).work_through() == 3
    assert await blocked_on(services, name) == ["suppressed: request"]
    [aside] = await store.queue(poison_queue(SUPPRESS_QUEUE)).peek(10)
    assert aside.body == "nonsense"
    assert (await queue.info()).length == 0


async def test_figures_and_holds_follow_the_bounces_of_a_message(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    people = [f"u{number}@gmail.com" for number in range(20)]
    people += [f"u{number}@example.com" for number in range(20)]
    for each in people:
        await services.subscriptions.add(name, each, verified=True)
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 40)
    assert await Completion(services).check(message)
    work = work_of(services)
    await work.work_through()
    before = await services.outcomes.counts(await services.messages.get(message.ref))
    reports = [(BounceKind.POLICY, f"u{number}@gmail.com") for number in range(4)]
    reports += [(BounceKind.GONE, "u4@gmail.com"), (BounceKind.COMPLAINT, "u0@example.com")]
    for number, (kind, address) in enumerate(reports * 2):  # each arrives twice
        report = bounce(kind, f"event {number % len(reports)}", address=Address(address))
        await services.suppressions.record(msgspec.structs.replace(report, ref=message.ref))
    await work.limits.check(message.ref)
    figures = await services.delivery_figures.of_message(message)
    assert figures.total == DeliveryFigures(40, bounced=5, rejected=4, complained=1)
    assert figures.providers[Provider("gmail.com")] == DeliveryFigures(20, 5, 4, 0)
    counted = {each.kind.value: each.count for each in figures.kinds}
    assert counted == {"policy": 4, "gone": 1, "complaint": 1}
    [hold] = await services.holds.all()
    assert hold.key == "provider:gmail.com"
    assert "4 of 20 emails at gmail.com (20.00%) were rejected" in hold.reason
    assert hold.next_probe - now() > timedelta(minutes=50)
    await services.holds.forget(hold.key)
    await work.limits.check(message.ref)
    assert await services.holds.all() == [], "only if the number of reports has doubled"
    done = await services.messages.get(message.ref)
    assert await services.outcomes.counts(done) == before
    assert (await services.delivery_figures.of_period()).lists[name] == figures.total


async def test_complaints_about_many_small_messages_are_noticed_together_and_once(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await services.subscriptions.add(name, ANN, verified=True)
    work = work_of(services)
    found = list[RateFinding]()
    for number in range(3):
        message = await fan_out_whole(store, (await schedule(services, name)).ref)
        await settle(services, message, 0, [EmailOutcome.ACCEPTED])
        report = bounce(BounceKind.COMPLAINT, f"event {number}")
        await services.suppressions.record(msgspec.structs.replace(report, ref=message.ref))
        assert await work.limits.check(message.ref) == []  # one report may be chance
        await services.suppressions.lift(ANN)
        found = await work.limits.check_period()
        assert bool(found) is (number == 2)
    assert {(each.provider, each.list_name) for each in found} == {
        (Provider("example.com"), None),
        (None, name),
    }
    [hold] = await services.holds.all()
    assert "3 of 3 emails at example.com within 30 days (100.00%)" in hold.reason
    events = [each.text for each in (await services.events.slice()).events]
    assert any(f"emails of list {name} within 30 days" in each for each in events)
    assert await work.limits.check_period() == []
