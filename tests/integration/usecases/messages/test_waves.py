"""Messages in waves, interrupted after every single write: nobody twice, nobody left out."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from postroom.domain.audience.addresses import Address, address_key
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Invalid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import FINAL, Message, MessageStatus
from postroom.domain.messages.waves.buckets import bucket_of
from postroom.domain.messages.waves.canaries import ONLY_CHOSEN, CanaryRules
from postroom.scheduler.fan_out import FanOut
from postroom.scheduler.waiting_waves import WaitingWaves
from postroom.services.events import Severity
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending.page_rows import PageRows
from postroom.services.messages.sending_options import OptionsChange, SendingOptions
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import BODIES, address_of, days, fill, make_list, now
from tests.integration.usecases.messages.test_scheduling import scheduling, until
from tests.integration.usecases.pages import check_pages, check_sum, settle, use_small_pages

ACCEPTED, REFUSED = EmailOutcome.ACCEPTED, EmailOutcome.REFUSED


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pages(monkeypatch, size=10, pages=3)


@pytest.fixture
def stride(engine: str) -> int:
    return 3 if engine == "azure" else 1


async def schedule(services: Services, canary: str, name: str = "contoso1") -> Message:
    return await services.messages.create(
        name, "News", BODIES, now(), options=SendingOptions(canary=canary)
    )


async def fan_out_wave(store: Store, ref: str, rules: CanaryRules = ONLY_CHOSEN) -> Message:
    """Plan the current wave, as a scheduler does that finds the message in any state."""
    services = Services(store)
    working = FanOut(services, rules)
    message = await services.message_rows.get_for_change(ref)
    if message.status is MessageStatus.PENDING:
        message = await working.begin(message)
    waits = message.waves is not None and message.waves.is_waiting
    if message.status is MessageStatus.QUEUING and not waits:
        message = await working.run(message, lambda: True)
    return message


async def begin_next(store: Store, message: Message) -> Message:
    assert message.waves is not None
    if not message.waves.is_waiting:
        return message
    waves = message.waves.following(message.queued_pages)
    return await Services(store).message_rows.save(msgspec.structs.replace(message, waves=waves))


async def fan_out_waves(store: Store, ref: str) -> Message:
    message = await begin_next(store, await fan_out_wave(store, ref))
    return await fan_out_wave(store, message.ref)


async def test_waves_interrupted_after_any_write_plan_everyone_once(
    services: Services, store: Store, stride: int
) -> None:
    name = await make_list(services)
    made = await fill(store, name, 65)
    wanted = [each.address for each in made]

    async def attempt(fate: Fate, writes: int) -> None:
        message = await schedule(services, "40%")
        await dies(fan_out_waves(Fated(store, fate), message.ref))
        done = await fan_out_waves(store, message.ref)
        assert sorted(await check_pages(store, done)) == wanted
        first, second = done.page_runs
        assert first.end == second.first
        planned = await addresses_until(services, done, second.first)
        assert planned == {s.address for s in made if bucket_of(done.ref, s.guid) < 4000}

    needed = await cut_after_each_write(attempt, stride=stride)
    assert needed >= 1 + 1 + 2 * (2 + 1) + 1


async def addresses_until(services: Services, message: Message, end: int) -> set[Address]:
    pages = await PageRows(services.store).some(message, 0, end)
    return {address for page in pages for address in page.emails.addresses}


async def test_someone_who_comes_back_or_moves_between_two_waves_gets_one_email(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 40)
    message = await fan_out_wave(store, (await schedule(services, "50%")).ref)
    first = sorted(await addresses_until(services, message, message.queued_pages))
    others = sorted({address_of(n) for n in range(40)} - set(first))
    use = services.subscriptions
    for again in (first[0], others[0]):  # with another GUID
        await use.remove(name, again)
        await use.add(name, again, verified=True)
    await use.change_address(name, first[1], "aaa@example.com")
    await use.change_address(name, first[2], "zzz@example.com")
    await use.change_address(name, others[1], "aab@example.com")

    done = await fan_out_wave(store, (await begin_next(store, message)).ref)
    planned = await check_pages(store, done)
    assert set(planned) == {*first, *others, "aab@example.com"} - {others[1]}


async def test_erasing_a_former_address_waits_until_all_waves_are_planned(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 40)
    message = await fan_out_wave(store, (await schedule(services, "50%")).ref)
    await settle_all(services, message, ACCEPTED)
    old = min(await addresses_until(services, message, message.queued_pages))
    await services.subscriptions.change_address(name, old, "new@example.com")
    assert (await services.personal_data.erase(old)).waiting == [message.ref]

    done = await fan_out_wave(store, (await begin_next(store, message)).ref)
    planned = await addresses_until(services, done, done.queued_pages)
    assert Address("new@example.com") not in planned
    assert (await services.personal_data.erase(old)).waiting == []
    assert await services.outcomes.emails_to(done, old) == []


async def test_every_email_is_found_whichever_wave_it_is_in(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 65)
    message = await fan_out_wave(store, (await schedule(services, "30%")).ref)
    early = await addresses_until(services, message, message.queued_pages)
    for number in range(65):
        found = await services.outcomes.email(message, address_of(number))
        assert (found is not None) == (address_of(number) in early)
    message = await fan_out_wave(store, (await begin_next(store, message)).ref)
    for page in range(message.queued_pages):
        await settle(services, message, page, [REFUSED, ACCEPTED] * 5)
    for number in range(65):
        found = await services.outcomes.email(message, address_of(number))
        assert found is not None
        assert found.address == address_of(number)
    sliced = await services.outcomes.slice(message, prefix="user00001")
    assert {each.address for each in sliced.emails} == {address_of(n) for n in range(10, 20)}
    parts, after = [], None
    while True:
        some = await services.outcomes.slice(message, prefix="user00003", limit=3, after=after)
        parts += [each.address for each in some.emails]
        if (after := some.next) is None:
            break
    assert sorted(parts) == [address_of(n) for n in range(30, 40)]
    key = address_key(address_of(20))
    merged = [e.address async for e in services.outcomes.emails_after(message, REFUSED, key)]
    every = {e.address async for e in services.outcomes.emails(message, REFUSED)}
    assert merged == sorted(each for each in every if each > key)
    await check_sum(services, message)


async def test_only_messages_to_many_have_a_canary_by_default(
    services: Services, store: Store
) -> None:
    rules = CanaryRules(above=20, share=10.0)
    few, many = await make_list(services, "few"), await make_list(services, "many")
    await fill(store, few, 20)
    await fill(store, many, 21)
    for name, canary, has_waves in (
        (few, "", False),
        (many, "", True),
        (many, "off", False),
        (few, "10%", True),
        (few, "5", True),
        (few, "500", False),  # everybody would be in it
    ):
        ref = (await schedule(services, canary, name)).ref
        message = await fan_out_wave(store, ref, rules)
        assert (message.waves is not None) == has_waves, (name, canary)
        status = MessageStatus.QUEUING if has_waves else MessageStatus.PROCESSING
        assert message.status is status


async def test_a_healthy_canary_is_followed_by_the_others_after_its_wait(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 30)
    message = await schedule(services, "30%,1s")
    async with scheduling(store):
        sending = await until(services, message.ref, is_waiting)
        assert sending.queued_pages >= 1
        await settle_all(services, sending, ACCEPTED)
        sent_at = now()
        following = await until(
            services, message.ref, lambda m: m.status is MessageStatus.PROCESSING
        )
        assert now() - sent_at >= timedelta(seconds=0.9)
        await settle_all(services, following, ACCEPTED)
        done = await until(services, message.ref, lambda m: m.status in FINAL)
    assert done.status is MessageStatus.COMPLETED
    assert (await check_sum(services, done)).accepted == 30


async def test_a_bad_canary_pauses_the_message_until_someone_resumes_it(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 60)
    message = await schedule(services, "30%,0s")
    async with scheduling(store):
        sending = await until(services, message.ref, is_waiting)
        await settle_all(services, sending, REFUSED)
        paused = await until(services, message.ref, lambda m: m.status is MessageStatus.PAUSED)
        counts = await check_sum(services, paused)
        assert counts.planned == counts.refused < 60
        assert "were refused or bounced (100.0%; the limit is 5%)" in paused.reason
        [event] = (await services.events.slice()).events
        assert event.severity is Severity.WARNING
        assert event.subject == f"message:{message.ref}"
        assert paused.reason in event.text
        await services.message_states.resume(message.ref)
        resumed = await until(services, message.ref, lambda m: m.status is MessageStatus.PROCESSING)
        await settle_all(services, resumed, ACCEPTED)
        done = await until(services, message.ref, lambda m: m.status in FINAL)
    assert (await check_sum(services, done)).planned == 60


def is_waiting(message: Message) -> bool:
    return message.waves is not None and message.waves.is_waiting


async def settle_all(services: Services, message: Message, outcome: EmailOutcome) -> None:
    for page in range(message.queued_pages):
        await settle(services, message, page, [outcome] * 10)


async def test_a_decision_that_is_interrupted_anywhere_is_the_same_the_next_time(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 40)

    async def attempt(fate: Fate, writes: int) -> None:
        message = await fan_out_wave(store, (await schedule(services, "50%,0s")).ref)
        await settle_all(services, message, REFUSED)
        await dies(decide(Fated(store, fate), message.ref))
        decided = await decide(store, message.ref)
        assert decided.status is MessageStatus.PAUSED
        assert decided.paused_from is MessageStatus.QUEUING
        assert decided.waves is not None
        assert decided.waves.is_last
        about = [e for e in (await services.events.slice()).events if str(decided.ref) in e.subject]
        assert len(about) in (1, 2)
        resumed = await services.message_states.resume(message.ref)
        done = await fan_out_wave(store, resumed.ref)
        assert len(await check_pages_of(services, done)) == 40

    await cut_after_each_write(attempt)


async def decide(store: Store, ref: str) -> Message:
    services = Services(store)
    message = await services.message_rows.get_for_change(ref)
    gate = WaitingWaves(services, ONLY_CHOSEN)
    for _ in range(3):
        if message.status is MessageStatus.QUEUING and message.waves is not None:
            message = await gate.look(message, message.waves)
    return message


async def check_pages_of(services: Services, message: Message) -> set[Address]:
    emails = [each.address async for each in services.outcomes.emails(message)]
    assert len(emails) == len(set(emails))
    return set(emails)


async def test_a_message_can_be_paused_and_cancelled_between_two_waves(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 40)
    message = await schedule(services, "50%,0s")
    async with scheduling(store):
        await until(services, message.ref, is_waiting)
        paused = await services.message_states.pause(message.ref)
        await settle_all(services, paused, ACCEPTED)
        resumed = await services.message_states.resume(message.ref)
        assert resumed.status is MessageStatus.QUEUING
        await until(services, message.ref, lambda m: m.status is MessageStatus.PROCESSING)
        other = await schedule(services, "50%,1h")
        sending = await until(services, other.ref, is_waiting)
        await services.message_states.cancel(other.ref)
        await settle_all(services, sending, EmailOutcome.SUPPRESSED)
        done = await until(services, other.ref, lambda m: m.counts is not None)
    assert done.status is MessageStatus.CANCELLED
    assert (await check_sum(services, done)).planned < 40


async def test_a_canary_without_recipients_delays_nobody(services: Services, store: Store) -> None:
    await make_list(services)
    message = await schedule(services, "10%,1h")
    async with scheduling(store):
        done = await until(services, message.ref, lambda m: m.status in FINAL)
    assert done.status is MessageStatus.COMPLETED
    assert done.reason


async def test_recipients_of_both_waves_match_rules_and_are_retried(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 50)
    message = await fan_out_waves(store, (await schedule(services, "40%,0s")).ref)
    for page in range(message.queued_pages):
        await settle(services, message, page, [ACCEPTED, REFUSED] * 5)
    accepted = {e.address async for e in services.outcomes.emails(message, ACCEPTED)}
    found = await services.segments.preview(name, f"received {message.ref}")
    assert found.count == len(accepted)
    async with scheduling(store):
        await until(services, message.ref, lambda m: m.status in FINAL)
        retry = await services.retries.retry_refused(message.ref)
        again = await until(services, retry.ref, lambda m: m.status is MessageStatus.PROCESSING)
    planned = await check_pages_of(services, again)
    assert planned == {address_of(n) for n in range(50)} - accepted


ZONES = {"a": "Asia/Tokyo", "b": "", "c": "America/New_York", "d": "Mars/Base", "e": "Asia/Kolkata"}


async def make_zoned(services: Services, name: str = "contoso1") -> ListName:
    """Make a list in Berlin with subscribers in several zones."""
    made = await make_list(services, name)
    await services.lists.edit(made, time_zone="Europe/Berlin")
    await services.fields.declare(made, [Field("time_zone"), Field("city")])
    for local, zone in ZONES.items():
        await services.subscriptions.add(
            made,
            f"{local}@example.com",
            verified=True,
            attributes={"time_zone": zone, "city": "x"} if zone else {},
        )
    return made


async def schedule_by_local_time(services: Services, name: ListName) -> Message:
    """Schedule a message whose time has just passed in Berlin."""
    due = now() - timedelta(minutes=5)
    return await services.messages.create(
        name, "News", BODIES, due, options=SendingOptions(local_time=True)
    )


def locals_of(addresses: Iterable[Address]) -> str:
    return "".join(sorted(each[0] for each in addresses))


async def test_subscribers_get_it_when_their_own_clocks_show_its_time(
    services: Services, store: Store
) -> None:
    name = await make_zoned(services)

    async def attempt(fate: Fate, writes: int) -> None:
        message = await schedule_by_local_time(services, name)
        await dies(fan_out_waves(Fated(store, fate), message.ref))
        done = await fan_out_waves(store, message.ref)
        first, second = done.page_runs
        assert first.end == second.first
        assert locals_of(await addresses_until(services, done, second.first)) == "abde"
        assert locals_of(await check_pages(store, done)) == "abcde"
        assert done.waves is not None
        assert done.waves.expected == (4, 1)
        six_hours = timedelta(hours=6)  # from Berlin to New York; an hour less for some weeks
        assert abs(done.waves.times[1] - message.due_at - six_hours) <= timedelta(hours=1)

    await cut_after_each_write(attempt)


async def test_a_message_starts_when_its_time_comes_in_the_first_zone(
    services: Services, store: Store
) -> None:
    name = await make_zoned(services)
    due = datetime(2030, 1, 15, 8, 0, tzinfo=UTC)  # 9:00 in Berlin
    message = await services.messages.create(
        name, "News", BODIES, due, options=SendingOptions(local_time=True)
    )
    assert message.starts_at == datetime(2030, 1, 14, 19, 0, tzinfo=UTC)  # 9:00 at UTC+14
    assert message.due_at == due
    later = await services.messages.edit(message.ref, options=OptionsChange(local_time=False))
    assert later.starts_at == due


async def test_subscribers_who_change_their_zone_between_two_waves_get_one_email(
    services: Services, store: Store
) -> None:
    name = await make_zoned(services)
    message = await fan_out_wave(store, (await schedule_by_local_time(services, name)).ref)
    for local, zone in (("a", "America/New_York"), ("c", "Asia/Tokyo")):
        await services.subscriptions.edit(
            name, f"{local}@example.com", attributes={"time_zone": zone}
        )
    done = await fan_out_wave(store, (await begin_next(store, message)).ref)
    assert locals_of(await check_pages(store, done)) == "abcde"


async def test_each_wave_of_local_time_begins_at_its_time(services: Services, store: Store) -> None:
    name = await make_list(services)
    await services.fields.declare(name, [Field("time_zone")])
    for local, zone in (("a", "Etc/GMT-1"), ("b", "UTC")):
        await services.subscriptions.add(
            name, f"{local}@example.com", verified=True, attributes={"time_zone": zone}
        )
    due = now() + timedelta(seconds=3)
    message = await services.messages.create(
        name, "News", BODIES, due, options=SendingOptions(local_time=True)
    )
    async with scheduling(store):
        first = await until(services, message.ref, is_waiting)
        assert locals_of(await addresses_until(services, first, first.queued_pages)) == "a"
        assert first.waves is not None
        assert first.waves.next_at == first.due_at
        await until(services, message.ref, lambda m: m.status is MessageStatus.PROCESSING)
        assert now() >= message.due_at
        await settle_all(services, await services.messages.get(message.ref), ACCEPTED)
        done = await until(services, message.ref, lambda m: m.status in FINAL)
    assert (await check_sum(services, done)).accepted == 2


async def test_a_canary_and_local_time_are_not_combined(services: Services) -> None:
    name = await make_list(services)
    with pytest.raises(Invalid, match="canary"):
        await services.messages.create(
            name, "News", BODIES, now(), options=SendingOptions(canary="1%", local_time=True)
        )
    message = await services.messages.create(
        name, "News", BODIES, days(1), options=SendingOptions(canary="1%")
    )
    with pytest.raises(Invalid, match="canary"):
        await services.messages.edit(message.ref, options=OptionsChange(local_time=True))
    assert (
        await services.messages.edit(
            message.ref, options=OptionsChange(local_time=True, canary="off")
        )
    ).local_time


async def test_fields_of_a_message_by_local_time_are_filled_in(
    services: Services, store: Store
) -> None:
    name = await make_zoned(services)
    bodies = NewBodies("<p>{{ city | default: '-' }}</p>", "{{ city | default: '-' }}")
    message = await services.messages.create(
        name, "News", bodies, now(), options=SendingOptions(local_time=True)
    )
    done = await fan_out_waves(store, message.ref)
    assert locals_of(await check_pages(store, done)) == "abcde"
    pages = await PageRows(store).some(done, 0, done.queued_pages)
    values = {
        str(address)[0]: each
        for page in pages
        for address, each in zip(page.emails.addresses, page.emails.values(), strict=True)
    }
    assert set(values["a"]) == {"x"}
