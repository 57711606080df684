"""What is older than a setting says is removed, whole, whatever interrupts it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from postroom.domain.errors import NoSuch
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.scheduler.completion import Completion
from postroom.scheduler.retention import Retention
from postroom.services import entities
from postroom.services.audience.suppression.delivery_figures import NOTICED_RATES
from postroom.storage import Entity, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import days, fill, make_list
from tests.integration.usecases.making import schedule as schedule_at
from tests.integration.usecases.pages import fan_out_whole, settle, use_small_pages

KEPT = timedelta(days=30)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pages(monkeypatch, size=2, pages=20)


async def sent(services: Services, store: Store, name: str, ago: float) -> Message:
    """A message to three people that was done some days ago."""
    message = await sent_now(services, store, name, ago)
    await note_end(store, message, days(-ago))
    return message


async def note_end(store: Store, message: Message, ended: datetime | None) -> None:
    """As the index would say if the message had ended then; None: as earlier versions did."""
    row = entities.due_row(message.due_at, message.ref)
    properties = {} if ended is None else {entities.ENDED_AT: ended}
    await store.table(entities.INDEX).upsert(Entity(entities.DONE, row, properties))


async def sent_now(services: Services, store: Store, name: str, ago: float) -> Message:
    """A message to three people that was scheduled for some days ago, and is done now."""
    message = await schedule_at(services, name, days(-ago))
    message = await fan_out_whole(store, message.ref)
    await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 2)
    await settle(services, message, 1, [EmailOutcome.REFUSED])
    completion = Completion(services)
    assert await completion.check(message)
    return message


async def mentions(store: Store, message: Message) -> list[str]:
    """Where the store still knows of a message."""
    found = []
    tables = (entities.MESSAGES, entities.ARCHIVE, entities.PAGES, entities.INDEX)
    for name in (*tables, "deliveryfigures", NOTICED_RATES):
        scan = store.table(name).scan()
        found += [f"{name} {e.row}" async for e in scan if message.ref in e.partition + e.row]
    blobs = (await store.container(entities.BODIES).list()).blobs
    found += [blob.name for blob in blobs if message.ref in blob.name]
    return found


async def test_old_messages_go_and_young_ones_stay(services: Services, store: Store) -> None:
    name = await make_list(services)
    await fill(store, name, 3)
    old, young = await sent(services, store, name, 40), await sent(services, store, name, 20)
    waiting = await schedule_at(services, name, days(2))
    noticed = Entity(old.ref, "complaints,gmail.com", {"Count": 30})
    await store.table(NOTICED_RATES).insert(noticed)

    assert await Retention(Services(store), archive=KEPT, events=None).remove_old() == 1

    assert await mentions(store, old) == []
    with pytest.raises(NoSuch):
        await services.messages.get(old.ref)
    assert (await services.outcomes.counts(await services.messages.get(young.ref))).planned == 3
    assert len([each async for each in services.outcomes.emails(young)]) == 3
    assert (await services.messages.get(waiting.ref)).ref == waiting.ref


async def test_what_was_sent_or_cancelled_late_is_kept_from_its_end_on(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await fill(store, name, 3)
    late = await sent_now(services, store, name, 400)
    archived_before = await sent_now(services, store, name, 300)
    await note_end(store, archived_before, None)
    cancelled = await schedule_at(services, name, days(-200))
    cancelled = await services.message_states.cancel(cancelled.ref)
    assert await Completion(services).check(cancelled)
    old = await sent(services, store, name, 40)
    retention = Retention(Services(store), archive=KEPT, events=None)

    assert await retention.remove_old() == 1  # those that are kept come first and hide nothing

    assert await mentions(store, old) == []
    for kept in (late, archived_before, cancelled):
        assert (await services.messages.get(kept.ref)).ref == kept.ref
    await note_end(store, late, days(-31))
    assert await retention.remove_old() == 1
    assert await mentions(store, late) == []


async def test_without_a_limit_messages_are_kept_forever(services: Services, store: Store) -> None:
    name = await make_list(services)
    await fill(store, name, 3)
    old = await sent(services, store, name, 4000)

    assert await Retention(Services(store), archive=None, events=None).remove_old() == 0
    assert (await services.messages.get(old.ref)).ref == old.ref


async def test_an_interrupted_removal_is_finished_by_the_next_round(
    services: Services, store: Store, engine: str
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        name = await make_list(services, f"list{writes}")
        await fill(store, name, 3)
        old = await sent(services, store, name, 40)
        await dies(Retention(Services(Fated(store, fate)), archive=KEPT, events=None).remove_old())

        await Retention(Services(store), archive=KEPT, events=None).remove_old()

        assert await mentions(store, old) == []

    await cut_after_each_write(attempt, stride=5 if engine == "azure" else 1)
