"""The audience of a message: checked, counted, fixed when it is queued, and never asked twice."""

import asyncio
import contextlib
import itertools
import math
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_types import FieldType, FieldValue
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.rules import Rule, parse_rule, text_of
from postroom.domain.audience.rules.syntax import AllRules, AnyRule, Not
from postroom.domain.errors import Exists, Invalid, NotNow
from postroom.domain.messages.audiences import EVERYBODY, Audience
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.scheduler.fan_out import NO_MATCH, FanOut, Superseded
from postroom.services import entities
from postroom.services.audience.fields.field_changes import UnfinishedRenames
from postroom.services.audience.growth import recent_counts
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.services.audience.targeting import received_messages
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.services.messages.message_contents import NewBodies
from postroom.storage import Insert, KeyRange, Store
from postroom.wiring import Services
from tests.contract.conftest import ON_ONE_ENGINE, StoreAddress, open_at
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import BODIES, FROM, address_of, days, fill, make_list, now
from tests.integration.usecases.pages import check_pages, fan_out_whole, settle, use_small_pages
from tests.long import sized
from tests.unit.audience.rules.test_rules import (
    FIELDS,
    RECEIVED,
    TODAY,
    model,
    rows,
    rules_with_messages,
)

NEWS = ListName("news")
BERN = Audience("bern")
NAMES = itertools.count()
DECLARED = [
    Field(name, kind, choices=("a",) if kind in (FieldType.CHOICE, FieldType.CHOICES) else ())
    for name, kind in FIELDS.items()
    if name not in ("email", "joined")
]


async def schedule(services: Services, audience: Audience, at: datetime | None = None) -> Message:
    return await services.messages.create(NEWS, "News", BODIES, at or now(), audience=audience)


async def live_in(services: Services, city: str, numbers: range) -> None:
    for number in numbers:
        await services.subscriptions.edit(NEWS, address_of(number), attributes={"city": city})


@pytest.fixture
async def news(services: Services, store: Store) -> ListName:
    """A list of 12, of whom the first 6 live in Bern."""
    await services.lists.create(NEWS, "The news", FROM)
    await services.fields.declare(NEWS, [Field("city")])
    await services.segments.create(NEWS, "bern", 'city = "Bern"')
    await fill(store, NEWS, 12)
    await live_in(services, "Bern", range(6))
    return NEWS


# -- the same people everywhere --------------------------------------------------------------


async def put_people(store: Store, name: ListName, people: list[Mapping[str, Any]]) -> None:
    operations = []
    for number, values in enumerate(people):
        known = {key: value for key, value in values.items() if key not in ("email", "joined")}
        joined = values["joined"]
        new = msgspec.structs.replace(
            new_subscriber(name, address_of(number), verified=number % 5 != 4),
            attributes={
                key: value.isoformat() if isinstance(value, date) else value
                for key, value in known.items()
                if value is not None
            },
            created_at=datetime.combine(joined, time(12), UTC),
            blocked="bounced" if number % 7 == 6 else "",
        )
        operations.append(Insert(entities.subscriber_entity(new)))
    await store.table(entities.LISTS).apply(operations)


def known_values(number: int, values: Mapping[str, FieldValue]) -> dict[str, FieldValue]:
    return {**values, "email": address_of(number)}


async def send(services: Services, ref: MessageRef, recipients: Collection[str]) -> None:
    """A message to ten, in small pages, of whom these received it; the others were refused, or
    still wait for it. Repeating it changes nothing."""
    sent = ListName("sent")
    with contextlib.suppress(Exists):
        await services.lists.create(sent, "The news", FROM)
        await fill(services.store, sent, 10)
    message = await services.messages.create(sent, "News", BODIES, now(), ref=ref)
    if message.status is not MessageStatus.PENDING:
        return
    message = await fan_out_whole(services.store, ref)
    refused = EmailOutcome.REFUSED
    for number in range(message.queued_pages - 1):  # the last page waits
        page = await services.pages.get(message.day, ref, number)
        assert page is not None
        outcomes = [
            EmailOutcome.ACCEPTED if each in recipients else refused
            for each in page.emails.addresses
        ]
        await settle(services, message, number, outcomes)


def moved(rule: Rule, by: timedelta) -> Rule:
    """The rule with other days."""
    match rule:
        case Not(part):
            return Not(moved(part, by))
        case AllRules(parts):
            return AllRules(tuple(moved(each, by) for each in parts))
        case AnyRule(parts):
            return AnyRule(tuple(moved(each, by) for each in parts))
    values = tuple(each + by if isinstance(each, date) else each for each in rule.values)
    return msgspec.structs.replace(rule, values=values)


async def compare(
    services: Services,
    people: list[Mapping[str, Any]],
    wanted: Rule,
    unwanted: Rule,
    today: date,
) -> None:
    """Compare everything with the model, on days around today."""
    by = today - TODAY
    wanted, unwanted = moved(wanted, by), moved(unwanted, by)
    people = [{**each, "joined": (each.get("joined") or TODAY) + by} for each in people]
    store = services.store
    for ref, recipients in RECEIVED.items():
        await send(services, MessageRef(ref), recipients)
    name = ListName(f"list{next(NAMES)}")
    other = ListName(f"{name}-others")
    for each in (name, other):
        await services.lists.create(each, "The news", FROM)
    await services.fields.declare(name, DECLARED)
    await services.segments.create(name, "wanted", text_of(wanted))
    await services.segments.create(name, "unwanted", text_of(unwanted))
    await put_people(store, name, people)
    await put_people(store, other, people[:2])

    selected = [
        address_of(number)
        for number, values in enumerate(people)
        if model(wanted, known_values(number, values), today)
    ]
    preview = await services.segments.preview(name, text_of(wanted))
    assert (preview.count, preview.sample) == (len(selected), selected[:20])
    for number in range(len(people)):
        explained = await services.segments.explain(name, "wanted", address_of(number))
        assert explained.reason.holds == (address_of(number) in selected)
    exported = "".join([piece async for piece in services.exports.export_csv(name, "wanted")])
    assert [line.partition(",")[0] for line in exported.splitlines()[1:]] == selected

    expected = [
        address_of(number)
        for number, values in enumerate(people)
        if address_of(number) in selected
        and number >= 2
        and number % 5 != 4
        and number % 7 != 6
        and not model(unwanted, known_values(number, values), today)
    ]
    audience = Audience("wanted", ("unwanted",), (other,))
    counted = await services.audiences.count(name, audience)
    assert counted.will_receive == len(expected)
    assert sum(counted.excluded.values()) == len(people) - len(expected)
    message = await services.messages.create(name, "News", BODIES, now(), audience=audience)
    done = await fan_out_whole(store, message.ref)
    assert await check_pages(store, done) == expected
    assert (done.reason == NO_MATCH) == (not expected)


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "azure"], indirect=True)
@pytest.mark.timeout(sized(300, 3600))
@settings(
    max_examples=sized(6, 60),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    people=st.lists(rows, min_size=8, max_size=10),
    wanted=rules_with_messages,
    unwanted=rules_with_messages,
)
def test_count_preview_explanation_and_fan_out_select_the_same_people(
    address: StoreAddress,
    people: list[Mapping[str, Any]],
    wanted: Rule,
    unwanted: Rule,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_small_pages(monkeypatch, size=3, pages=1)
    monkeypatch.setattr(received_messages, "_PAGES_AT_ONCE", 1)

    async def run() -> None:
        async with await open_at(address) as store:
            today = clock.now().date()
            try:
                await compare(Services(store), people, wanted, unwanted, today)
            except AssertionError:
                if clock.now().date() == today:  # otherwise the day has ended meanwhile
                    raise

    asyncio.run(run())


@ON_ONE_ENGINE
async def test_a_rule_about_a_message_that_does_not_exist_is_refused(
    services: Services, store: Store, news: ListName
) -> None:
    """When it is saved and, if the message is deleted later, when a message with it is due."""
    gone = "639040123456789012"
    with pytest.raises(Invalid, match=f"line 1, column 23: there is no message {gone}"):
        await services.segments.create(NEWS, "late", f'city = "" or received {gone}')
    draft = await services.composing.create(ContentChange(list_name=NEWS), "ann")
    await services.segments.create(NEWS, "late", f"not received {draft.ref}")
    late = Audience("late")
    assert (await services.audiences.count(NEWS, late)).will_receive == 12
    message = await schedule(services, late)
    await services.messages.delete(draft.ref)
    paused = await fan_out_whole(store, message.ref)
    assert paused.status is MessageStatus.PAUSED
    assert f"there is no message {draft.ref}" in paused.reason
    with pytest.raises(Invalid, match="there is no message"):
        await services.audiences.count(NEWS, late)


@ON_ONE_ENGINE
async def test_paused_subscribers_are_neither_counted_nor_planned(
    services: Services, store: Store, news: ListName
) -> None:
    for number in (2, 8):
        subscriber = await services.subscriptions.get(NEWS, address_of(number))
        await services.preferences.pause(subscriber)
    counted = await services.audiences.count(NEWS, BERN)
    assert counted.will_receive == 5
    assert counted.excluded == {"paused": 2, "outside_segment": 5}
    done = await fan_out_whole(store, (await schedule(services, BERN)).ref)
    assert await check_pages(store, done) == [address_of(n) for n in range(6) if n != 2]


@ON_ONE_ENGINE
async def test_a_large_list_is_counted_occasionally(
    services: Services, news: ListName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The editor asks after each save: a small list is counted again, a large one is not."""

    async def count(audience: Audience = BERN) -> int:
        return (await services.audiences.count(NEWS, audience)).will_receive

    assert await count() == 6
    await live_in(services, "Basel", range(1))
    assert await count() == 5

    monkeypatch.setattr(recent_counts, "SMALL", 11)
    monkeypatch.setattr(recent_counts, "REMEMBERED_SECONDS", math.inf)
    assert set(await asyncio.gather(count(), count())) == {5}
    await live_in(services, "Basel", range(1, 2))
    assert await count() == 5
    assert await count(Audience("", ("bern",))) == 8, "another audience"
    monkeypatch.setattr(recent_counts, "REMEMBERED_SECONDS", 0.0)
    assert await count() == 4
    monkeypatch.undo()
    await services.segments.change(NEWS, "bern", 'city = "Basel"')
    assert await count() == 2, "another rule"


# -- fixed when the message is queued --------------------------------------------------------


async def test_a_fan_out_cut_after_any_write_asks_nobody_on_its_pages_again(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is on a page stays there, and nobody gets two, though all who are left change places."""
    use_small_pages(monkeypatch, size=2, pages=2)
    await services.lists.create(NEWS, "The news", FROM)
    await services.fields.declare(NEWS, [Field("city")])
    await services.segments.create(NEWS, "bern", 'city = "Bern"')
    await fill(store, NEWS, 12)

    async def attempt(fate: Fate, writes: int) -> None:
        await live_in(services, "Bern", range(6))
        await live_in(services, "Basel", range(6, 12))
        message = await schedule(services, BERN)
        died = await dies(fan_out_whole(Fated(store, fate), message.ref))
        before = await planned(services, message)
        await live_in(services, "Basel", range(6))
        await live_in(services, "Bern", range(6, 12))
        done = await fan_out_whole(store, message.ref)
        after = await check_pages(store, done)
        assert after[: len(before)] == before
        assert died == fate.is_dead
        moved = [address_of(number) for number in range(6, 12)]
        everybody = [address_of(number) for number in range(6)]
        assert after == (before + moved if died else everybody)

    await cut_after_each_write(attempt, stride=2)


async def planned(services: Services, message: Message) -> list[Address]:
    current = await services.messages.get(message.ref)
    return [
        address async for page in services.pages.whole(current) for address in page.emails.addresses
    ]


@ON_ONE_ENGINE
async def test_the_rule_and_its_fields_are_those_of_the_moment_of_queuing(
    services: Services, store: Store, news: ListName, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, size=2, pages=1)
    message = await schedule(services, BERN)
    assert await dies(fan_out_whole(Fated(store, Fate(4)), message.ref))
    queuing = await services.messages.get(message.ref)
    assert queuing.audience_rules is not None
    assert queuing.audience_rules.segment == 'city = "Bern"'
    await services.segments.change(NEWS, "bern", "city is empty")
    await services.fields.declare(NEWS, [Field("city", FieldType.DATE)])
    done = await fan_out_whole(store, message.ref)
    assert await check_pages(store, done) == [address_of(number) for number in range(6)]


@ON_ONE_ENGINE
async def test_a_field_that_is_being_renamed_selects_the_same_people(
    services: Services, store: Store, news: ListName, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, size=2, pages=1)
    await services.field_changes.change(NEWS, "city", Field("town"))
    await services.segments.change(NEWS, "bern", 'town = "Bern"')  # the rows follow
    await services.subscriptions.edit(NEWS, address_of(0), attributes={"town": "Bern"})
    expected = [address_of(number) for number in range(6)]
    assert (await services.audiences.count(NEWS, BERN)).will_receive == 6
    message = await schedule(services, BERN)
    assert await dies(fan_out_whole(Fated(store, Fate(4)), message.ref))
    await services.field_changes.finish_rename(NEWS)
    done = await fan_out_whole(store, message.ref)
    assert await check_pages(store, done) == expected


@ON_ONE_ENGINE
async def test_fields_that_change_during_a_fan_out_change_neither_selection_nor_values(
    services: Services, store: Store, news: ListName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of a renamed field wait for the message, and a removed field keeps its values."""
    use_small_pages(monkeypatch, size=2, pages=1)
    await services.fields.declare(NEWS, [Field("city"), Field("plan", default="free")])
    await services.subscriptions.edit(NEWS, address_of(5), attributes={"plan": "pro"})
    bodies = NewBodies(None, 'In {{ city | default: "?" }} with {{ plan }}')
    message = await services.messages.create(NEWS, "News", bodies, now(), audience=BERN)
    assert await dies(fan_out_whole(Fated(store, Fate(4)), message.ref))
    await services.field_changes.remove(NEWS, "plan")
    await services.field_changes.rename(NEWS, "city", "town")
    assert await services.field_changes.finish_rename(NEWS) is None
    renames = UnfinishedRenames(store, services.field_changes)
    await renames.finish()
    assert (await services.fields.of(NEWS)).fields.declared[0].formerly == "city"

    done = await fan_out_whole(store, message.ref)
    assert await check_pages(store, done) == [address_of(number) for number in range(6)]
    values = [each async for page in services.pages.whole(done) for each in page.emails.values()]
    assert values == [*[("Bern", "free")] * 5, ("Bern", "pro")]
    await renames.finish()  # as the scheduler does, also after an interruption
    assert (await services.fields.of(NEWS)).fields.declared[0].formerly == ""
    renamed = await services.subscriptions.get(NEWS, address_of(0))
    assert renamed.attributes == {"town": "Bern"}
    assert (await services.segments.get(NEWS, "bern")).rule == 'town = "Bern"'
    assert not [each async for each in store.table("listindex").scan(KeyRange.only("renaming"))]


@ON_ONE_ENGINE
async def test_a_message_stored_by_an_earlier_version_goes_to_everyone(
    services: Services, store: Store, news: ListName
) -> None:
    message = await schedule(services, EVERYBODY)
    row = await store.table(entities.MESSAGES).get(message.day, entities.message_row(message.ref))
    assert row is not None
    assert not {"Segment", "ExcludeSegments", "ExcludeLists", "AudienceRules"} & set(row.properties)
    done = await fan_out_whole(store, message.ref)
    assert len(await check_pages(store, done)) == 12
    assert done.audience_rules is None


@ON_ONE_ENGINE
async def test_a_search_for_few_recipients_says_at_every_read_that_it_makes_progress(
    services: Services, store: Store, news: ListName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the watchdog would restart the scheduler on a large list, and again after that."""
    use_small_pages(monkeypatch, size=2, pages=1)
    await live_in(services, "Basel", range(6))
    message = await FanOut(services).begin(await schedule(services, BERN))
    asked = 0

    def goes_on() -> bool:
        nonlocal asked
        asked += 1
        return asked < 4

    with pytest.raises(Superseded):
        await FanOut(services).run(message, goes_on)
    assert asked == 4, "of 7 reads"
    assert (await fan_out_whole(store, message.ref)).reason == NO_MATCH


# -- what can go wrong before ----------------------------------------------------------------


@ON_ONE_ENGINE
@pytest.mark.parametrize(
    ("audience", "field", "problem"),
    [
        (Audience("berne"), "segment", "there is no segment 'berne' of the list news"),
        (Audience("bern", ("old",)), "exclude_segments", "there is no segment 'old'"),
        (Audience("", (), (ListName("x"),)), "exclude_lists", "there is no list 'x'"),
        (
            Audience("", (), (NEWS,)),
            "exclude_lists",
            "news gets the message, so",
        ),
        (Audience("be rn"), "segment", "must have 1 to 100 letters"),
        (
            Audience("", tuple(f"s{number}" for number in range(11))),
            "exclude_segments",
            "must have at most 10 names, not 11",
        ),
    ],
)
async def test_an_audience_that_does_not_exist_is_refused(
    services: Services, news: ListName, audience: Audience, field: str, problem: str
) -> None:
    with pytest.raises(Invalid, match=problem) as caught:
        await schedule(services, audience)
    assert caught.value.field == field
    with pytest.raises(Invalid, match=problem):
        await services.audiences.count(NEWS, audience)


@ON_ONE_ENGINE
async def test_what_a_scheduled_message_needs_cannot_be_deleted(
    services: Services, store: Store, news: ListName
) -> None:
    other = await make_list(services, "other")
    message = await schedule(services, Audience("", ("bern",), (other,)), days(1))
    with pytest.raises(NotNow, match="the segment 'bern' cannot be deleted while the message"):
        await services.segments.remove(NEWS, "bern")
    with pytest.raises(NotNow, match="which excludes it, is Pending"):
        await services.lists.delete(other)
    await services.messages.edit(message.ref, audience=EVERYBODY)
    await services.segments.remove(NEWS, "bern")
    await services.lists.delete(other)


@ON_ONE_ENGINE
async def test_a_message_whose_segment_is_gone_pauses_and_can_be_put_right(
    services: Services, store: Store, news: ListName
) -> None:
    message = await schedule(services, BERN)
    await store.table(entities.LISTS).delete(NEWS, "segment:bern")
    paused = await fan_out_whole(store, message.ref)
    assert paused.status is MessageStatus.PAUSED
    assert paused.reason == "its audience is unknown: there is no segment 'bern' of the list news"
    await services.segments.create(NEWS, "bern", 'city = "Bern"')
    await services.message_states.resume(message.ref)
    done = await fan_out_whole(store, message.ref)
    assert len(await check_pages(store, done)) == 6
    with pytest.raises(NotNow):
        await services.messages.edit(message.ref, audience=EVERYBODY)


@ON_ONE_ENGINE
async def test_a_draft_keeps_its_audience_until_it_is_sent(
    services: Services, store: Store, news: ListName
) -> None:
    other = await make_list(services, "other")
    await services.subscriptions.add(other, address_of(1), verified=True)
    await services.subscriptions.add(other, address_of(2))  # not confirmed
    change = ContentChange(list_name=NEWS, subject="Hi", body="<p>Hi</p>", text="Hi")
    draft = await services.composing.create(
        msgspec.structs.replace(change, segment="bern", exclude_lists=[other, other]), "ann"
    )
    assert draft.audience == Audience("bern", (), (other,))
    copy = await services.composing.duplicate(draft.ref, "ann")
    assert copy.audience == draft.audience
    counted = await services.audiences.count(NEWS, draft.audience)
    assert counted.will_receive == 5
    assert counted.excluded == {"outside_segment": 6, "excluded_list": 1}
    await services.composing.schedule(draft.ref)
    done = await fan_out_whole(store, draft.ref)
    expected = [address_of(number) for number in range(6) if number != 1]
    assert await check_pages(store, done) == expected


@ON_ONE_ENGINE
async def test_only_recipients_who_are_evaluated_are_kept(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are between two neighbours of another list."""
    use_small_pages(monkeypatch, size=3, pages=1)
    monkeypatch.setattr(received_messages, "_PAGES_AT_ONCE", 1)
    ref = MessageRef(next(iter(RECEIVED)))
    people = [address_of(number) for number in range(10)]
    await send(services, ref, people)
    rule, today = parse_rule(f"received {ref}"), now().date()
    recipients = await services.segments.received.of([rule], [ListName("news")], today)
    await recipients.look_up([people[0], people[7]])
    assert recipients.received[ref] == {people[0], people[7]}
    await recipients.look_up([people[8]])
    assert recipients.received[ref] == {people[8]}
    await recipients.look_up([people[1], people[2]])
    assert recipients.received[ref] == {people[1], people[2]}
