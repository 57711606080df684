"""One message to several lists: each person once, from the first list that may write to them."""

import asyncio
import itertools
from collections.abc import Mapping
from email import message_from_bytes, policy
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Invalid, NotNow
from postroom.domain.messages.audiences import Audience
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.page_emails import PageEmails
from postroom.services import entities
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.services.audience.targeting import merged_lists
from postroom.services.messages.message_contents import NewBodies
from postroom.storage import Insert, Store
from postroom.wiring import Services
from tests.contract.conftest import ON_ONE_ENGINE, StoreAddress, open_at
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import BODIES, address_of, days, now
from tests.integration.usecases.messages.sending.test_sender_and_its_store import sender
from tests.integration.usecases.pages import check_pages, fan_out_whole, settle, use_small_pages
from tests.services.mail.recording_smtp import running_recording_smtp
from tests.services.waiting import until

A, B, C = map(ListName, "abc")
ALL = Audience(more_lists=(B, C))
STATES = ("confirmed", "unconfirmed", "blocked")
NAMES = itertools.count()


async def make_lists(services: Services, *names: ListName) -> None:
    for name in names:
        await services.lists.create(name, f"News of {name}", f"{name}@contoso.example")


async def put(store: Store, name: ListName, who: Mapping[int, str]) -> None:
    operations = []
    for number, state in who.items():
        new = msgspec.structs.replace(
            new_subscriber(name, address_of(number), verified=state != "unconfirmed"),
            blocked="bounced" if state == "blocked" else "",
        )
        operations += [
            Insert(entities.subscriber_entity(new)),
            Insert(entities.lookup_entity(new)),
        ]
    if operations:
        await store.table(entities.LISTS).apply(operations)


async def subscribe(services: Services, name: ListName, *numbers: int) -> None:
    await put(services.store, name, dict.fromkeys(numbers, "confirmed"))


async def lists_of(services: Services, message: Message) -> dict[Address, ListName]:
    """For each email, the list that it belongs to."""
    return {
        email.address: message.lists[email.list_number]
        async for email in services.outcomes.emails(message)
    }


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "azure"], indirect=True)
@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    members=st.lists(
        st.dictionaries(st.integers(0, 12), st.sampled_from(STATES), max_size=13),
        min_size=3,
        max_size=3,
    )
)
def test_everyone_is_counted_and_planned_once(
    address: StoreAddress, members: list[dict[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merged_lists, "AT_ONCE", 2)
    use_small_pages(monkeypatch, size=3, pages=1)

    async def run() -> None:
        async with await open_at(address) as store:
            services = Services(store)
            run = next(NAMES)
            names = [ListName(f"{each}{run}") for each in "abc"]
            await make_lists(services, *names)
            for name, who in zip(names, members, strict=True):
                await put(store, name, who)
            expected = {
                address_of(number): next(
                    name
                    for name, who in zip(names, members, strict=True)
                    if who.get(number) == "confirmed"
                )
                for number in range(13)
                if any(who.get(number) == "confirmed" for who in members)
            }
            audience = Audience(more_lists=tuple(names[1:]))
            counted = await services.audiences.count(names[0], audience)
            assert counted.will_receive == len(expected)
            assert counted.subscribers == sum(map(len, members))
            message = await services.messages.create(
                names[0], "News", BODIES, now(), audience=audience
            )
            done = await fan_out_whole(store, message.ref)
            assert await check_pages(store, done) == sorted(expected)
            assert await lists_of(services, done) == expected

    asyncio.run(run())


@ON_ONE_ENGINE
async def test_a_fan_out_cut_after_any_write_leaves_everyone_on_their_list(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is on a page keeps the list that they had, even if they have joined an earlier one."""
    use_small_pages(monkeypatch, size=2, pages=2)
    monkeypatch.setattr(merged_lists, "AT_ONCE", 3)
    await make_lists(services, A, B, C)
    await subscribe(services, A, 0, 3, 6)
    await subscribe(services, B, *range(1, 8))
    await subscribe(services, C, *range(10))
    first = {0: A, 3: A, 6: A, 1: B, 2: B, 4: B, 5: B, 7: B, 8: C, 9: C}

    async def attempt(fate: Fate, writes: int) -> None:
        message = await services.messages.create(A, "News", BODIES, now(), audience=ALL)
        died = await dies(fan_out_whole(Fated(store, fate), message.ref))
        before = await lists_of(services, await services.messages.get(message.ref))
        await subscribe(services, A, 1, 8)
        done = await fan_out_whole(store, message.ref)
        for number in (1, 8):
            await services.subscriptions.remove(A, address_of(number))
        assert died == fate.is_dead
        assert await check_pages(store, done) == [address_of(n) for n in range(10)]
        after = await lists_of(services, done)
        for number, name in first.items():
            moved = died and number in (1, 8) and address_of(number) not in before
            assert after[address_of(number)] == (A if moved else name)

    await cut_after_each_write(attempt, stride=2)


@ON_ONE_ENGINE
async def test_each_email_has_the_name_and_links_of_the_subscribers_own_list(
    services: Services, store: Store, tmp_path: Path
) -> None:
    await make_lists(services, A, B)
    for name in (A, B):
        await services.fields.declare(name, [Field("city")])
    await subscribe(services, A, 0, 1, 4)
    await subscribe(services, B, 1, 2, 3)
    await services.subscriptions.edit(A, address_of(1), attributes={"city": "Bern"})
    await services.subscriptions.edit(B, address_of(2), attributes={"city": "Basel"})
    bodies = NewBodies(None, 'In {{ city | default: "?" }} {{ unsubscribe_url }}')
    message = await services.messages.create(
        A, "News", bodies, now(), audience=Audience(more_lists=(B,))
    )
    message = await fan_out_whole(store, message.ref)
    await services.subscriptions.remove(B, address_of(3))  # left before it was sent
    own = {0: (A, "?"), 1: (A, "Bern"), 2: (B, "Basel"), 4: (A, "?")}

    async def is_done() -> bool:
        return (await services.outcomes.counts(message)).pending == 0

    with running_recording_smtp() as server:
        async with sender(store, server, tmp_path):
            await until(is_done, "the message is sent")
        emails = {each.recipients[0]: each.content for each in server.accepted()}
    counts = await services.outcomes.counts(message)
    assert (counts.planned, counts.accepted, counts.suppressed) == (5, 4, 1)
    assert emails.keys() == {address_of(number) for number in own}
    for number, (name, city) in own.items():
        subscriber = await services.subscriptions.get(name, address_of(number))
        found = message_from_bytes(emails[address_of(number)], policy=policy.default)
        assert "<a@contoso.example>" in found["From"], "one message, one sender"
        assert f"<{name}.contoso.example>" in found["List-Id"]
        link = found["List-Unsubscribe"].strip("<>")
        text = found.get_content()
        assert text.startswith(f"In {city} {link}")
        expected = {"id": [subscriber.guid], "listName": [name], "ref": [message.ref]}
        assert parse_qs(urlsplit(link).query) == expected


@ON_ONE_ENGINE
async def test_a_segment_and_exclusions_hold_for_all_lists(
    services: Services, store: Store
) -> None:
    await make_lists(services, A, B, C)
    await services.segments.create(A, "first", 'email starts with "user00000"')
    await services.fields.declare(A, [Field("plan")])
    await services.segments.create(A, "pro", 'plan = "pro"')
    await subscribe(services, A, 1, 20)
    await subscribe(services, B, 1, 2, 3, 21)
    await subscribe(services, C, 3)
    audience = Audience("first", exclude_lists=(C,), more_lists=(B,))
    counted = await services.audiences.count(A, audience)
    assert counted.will_receive == 2
    assert counted.excluded == {"outside_segment": 2, "excluded_list": 1, "duplicate": 1}
    message = await services.messages.create(A, "News", BODIES, now(), audience=audience)
    done = await fan_out_whole(store, message.ref)
    assert await check_pages(store, done) == [address_of(1), address_of(2)]
    with pytest.raises(Invalid, match="uses the field plan, which the list b does not have"):
        await services.audiences.checked(A, Audience("pro", more_lists=(B,)))


@ON_ONE_ENGINE
async def test_refused_recipients_are_retried_on_their_own_lists(
    services: Services, store: Store
) -> None:
    await make_lists(services, A, B)
    await subscribe(services, A, 0)
    await subscribe(services, B, 1, 2)
    audience = Audience(more_lists=(B,))
    message = await services.messages.create(A, "News", BODIES, now(), audience=audience)
    message = await fan_out_whole(store, message.ref)
    refused = [EmailOutcome.REFUSED, EmailOutcome.REFUSED, EmailOutcome.ACCEPTED]
    await settle(services, message, 0, refused)
    await services.message_states.cancel(message.ref)
    retry = await services.retries.retry(message.ref)
    done = await fan_out_whole(store, retry.ref)
    assert await lists_of(services, done) == {address_of(0): A, address_of(1): B}


@ON_ONE_ENGINE
@pytest.mark.parametrize(
    ("audience", "problem"),
    [
        (Audience(more_lists=(A,)), "a already gets the message"),
        (Audience(more_lists=(ListName("x"),)), "there is no list 'x'"),
        (Audience(exclude_lists=(B,), more_lists=(B,)), "b gets the message, so"),
        (
            Audience(more_lists=tuple(ListName(f"l{each}") for each in range(11))),
            "must have at most 10 names, not 11",
        ),
    ],
)
async def test_lists_that_cannot_be_added_are_refused(
    services: Services, audience: Audience, problem: str
) -> None:
    await make_lists(services, A, B)
    with pytest.raises(Invalid, match=problem):
        await services.messages.create(A, "News", BODIES, now(), audience=audience)


@ON_ONE_ENGINE
async def test_a_further_list_stays_until_the_message_is_done(
    services: Services, store: Store
) -> None:
    await make_lists(services, A, B)
    await services.fields.declare(A, [Field("city", default="Bern")])
    audience = Audience(more_lists=(B,))
    message = await services.messages.create(A, "News", BODIES, days(1), audience=audience)
    with pytest.raises(NotNow, match=f"while its message {message.ref} is Pending"):
        await services.lists.delete(B)
    with pytest.raises(Invalid, match="city"):  # only one of the lists has it
        await services.messages.edit(message.ref, bodies=NewBodies("<p>{{ city }}</p>"))
    await store.table(entities.LISTS).delete(B, entities.LIST_ROW)
    paused = await fan_out_whole(store, message.ref)
    assert paused.status is MessageStatus.PAUSED
    assert paused.reason == "its audience is unknown: there is no list 'b'"


def test_a_page_of_one_list_takes_no_more_space() -> None:
    guids = {address_of(n): new_subscriber(A, address_of(n), verified=True).guid for n in range(3)}
    plain = PageEmails.planned(guids).packed()
    assert PageEmails.planned(guids, (), bytes(3)).packed() == plain
    mixed = PageEmails.planned(guids, [("x",), ("y",), ("z",)], bytes([0, 2, 1]))
    for found in (mixed, PageEmails.unpacked(mixed.packed())):
        assert [found.list_number(place) for place in range(3)] == [0, 2, 1]
        assert found.values()[1] == ("y",)
        settled = found.settled({0: found.state(0)})
        assert [settled.list_number(place) for place in range(3)] == [0, 2, 1]


@ON_ONE_ENGINE
async def test_conditions_are_evaluated_without_any_merge_field(services: Services) -> None:
    await make_lists(services, A, B)
    await subscribe(services, A, 1)
    await subscribe(services, B, 2)
    text = NewBodies(None, '{% if email contains "2@" %}Two{% else %}Another{% end %}')
    made = await services.messages.create(A, "Hi", text, now(), audience=Audience(more_lists=(B,)))
    done = await fan_out_whole(services.store, made.ref)
    found = [values async for page in services.pages.whole(done) for values in page.emails.values()]
    assert found == [("",), ("1",)]
