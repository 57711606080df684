"""What a page reads whole, so that it can be sorted, is what the same page shows bit by bit."""

from datetime import UTC, datetime

import pytest

from postroom.domain.errors import NoSuch
from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.scheduler.completion import Completion
from postroom.services import entities
from postroom.services.audience.bulk_changes import BulkAction, change_many
from postroom.services.audience.subscriber_search import SubscriberState
from postroom.services.events import Severity
from postroom.services.messages.message_rows import MessagePart
from postroom.storage import Entity, Store
from postroom.wiring import Services
from tests.integration.usecases.making import days, fill, make_list, now, schedule
from tests.integration.usecases.pages import fan_out_whole, settle, use_small_pages

MANY = 1_100  # more than the store answers at once


async def test_subscribers_by_state_and_part_of_address(services: Services, store: Store) -> None:
    name = await make_list(services)
    made = [each.address for each in await fill(store, name, 25)]
    await change_many(services.subscriptions, name, made[20:22], BulkAction.BLOCK)
    for state in (None, *SubscriberState):
        for part in ("", made[20][3:9].upper(), "zoe"):
            found = await services.search.find(name, state=state, contains=part, seconds=60)
            whole = await services.search.whole(name, state=state, contains=part, most=25)
            assert whole is not None
            shown = [(e.address, e.verified, e.blocked, e.created_at) for e in whole]
            assert shown == [
                (e.address, e.verified, e.blocked, e.created_at) for e in found.subscribers
            ]
    assert await services.search.whole(name, most=24) is None
    with pytest.raises(NoSuch):
        await services.search.whole("nowhere", most=5)


async def test_more_than_the_store_returns_at_once(services: Services, store: Store) -> None:
    name = await make_list(services)
    made = [each.address for each in await fill(store, name, MANY)]
    whole = await services.search.whole(name, most=MANY)
    assert whole is not None
    assert [each.address for each in whole] == made
    assert await services.search.whole(name, most=MANY - 1) is None
    assert await services.search.whole(name, most=999) is None


async def test_messages_that_are_open_and_those_that_are_done(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 3)
    for number in range(4):
        await schedule(services, name, days(number), f"To come {number}")
    done = await fan_out_whole(store, (await schedule(services, name, subject="Done")).ref)
    outcomes = [EmailOutcome.ACCEPTED, EmailOutcome.REFUSED, EmailOutcome.ACCEPTED]
    await settle(services, done, 0, outcomes)
    assert await Completion(services).check(done)

    found = (await services.messages.slice()).messages
    assert await services.times.whole(MessagePart.OPEN, most=4) == found
    assert await services.times.whole(MessagePart.OPEN, most=3) is None
    archived = await services.times.whole(MessagePart.DONE, most=3)
    assert archived is not None
    [message] = archived
    assert (message.ref, message.counts) == (done.ref, Counts(planned=3, accepted=2, refused=1))


async def test_a_message_is_listed_once_whatever_its_index_contains(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    message = await schedule(services, name, datetime(2099, 1, 1, 12, tzinfo=UTC))
    index = store.table(entities.INDEX)
    for at in (datetime(2099, 1, 1, 9, tzinfo=UTC), datetime(2099, 1, 5, tzinfo=UTC)):
        await index.insert(Entity(entities.OPEN, entities.due_row(at, message.ref), {}))
    assert await services.times.whole(MessagePart.OPEN, most=10) == [message]
    await services.messages.delete(message.ref)
    assert await services.times.whole(MessagePart.OPEN, most=10) == []


async def test_emails_by_outcome_and_beginning(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, size=4, pages=20)
    name = await make_list(services)
    made = [each.address for each in await fill(store, name, 22)]
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    kinds = [outcome for outcome in EmailOutcome if outcome is not EmailOutcome.PENDING]
    await settle(services, message, 1, kinds)
    await settle(services, message, 2, [EmailOutcome.REFUSED])
    outcomes = services.outcomes
    for outcome in (None, *EmailOutcome):
        for prefix in ("", made[10][:9], made[7], "a", "zoe"):
            found = await outcomes.slice(message, outcome=outcome, prefix=prefix)
            whole = await outcomes.whole(message, outcome=outcome, prefix=prefix, most=22)
            assert whole == found.emails, (outcome, prefix)
    assert await outcomes.whole(message, most=21) is None
    assert await outcomes.whole(message, outcome=EmailOutcome.REFUSED, most=8) is not None


async def test_actions_events_and_blobs(services: Services, store: Store) -> None:
    for number in range(3):
        await services.audit.record(f"user{number}@example.com", "did it", f"thing {number}")
        await services.events.record("host", f"event {number}", severity=list(Severity)[number])
        await store.container("scratch").put(f"{number}.txt", b"x" * number)
    today = now().date()
    for who in ("", "user1@example.com", "nobody"):
        actions = await services.audit.newest(who=who, day=today)
        assert await services.audit.whole(who=who, day=today, most=3) == actions.entries
    assert await services.audit.whole(most=2) is None
    for least in Severity:
        events = await services.events.slice(least=least, day=today)
        assert await services.events.whole(least=least, day=today, most=3) == events.events
    assert await services.events.whole(most=2) is None
    blobs = await services.explorer.blobs("scratch")
    assert await services.explorer.all_blobs("scratch", most=3) == blobs.blobs
    assert await services.explorer.all_blobs("scratch", prefix="1", most=1) == blobs.blobs[1:2]
    assert await services.explorer.all_blobs("scratch", most=2) is None
