"""Histories of queue messages that are gone are removed, those of others are not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from postroom.domain.queues.app_options import OnPoison
from postroom.domain.queues.apps import App
from postroom.domain.queues.queue_names import dead_letter_queue, poison_queue
from postroom.scheduler.retention import Retention
from postroom.services.events import EventService
from postroom.services.queues.apps import AppRegistry
from postroom.services.queues.attempts import AttemptFailure, AttemptRetention
from postroom.services.queues.delivery import QueueService
from postroom.services.queues.hosts import HostStatusService
from postroom.services.queues.queue_access import AccessService
from postroom.storage import QueueMessage, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies

QUEUE = "shop/orders"
KEPT = timedelta(days=90)
LATER = timedelta(days=100)
FAILURE = AttemptFailure("ValueError: no", "Traceback …", process="here 42")


def app(on_poison: OnPoison = OnPoison.MOVE, retries: int = 0) -> App:
    return App(
        "/shop",
        handler="orders:process",
        receive_retry_count=retries,
        max_retry_cycles=0,
        on_poison=on_poison,
    )


def retention(store: Store, after: timedelta = LATER) -> AttemptRetention:
    """As it is some time from now."""
    return AttemptRetention(store, lambda: datetime.now(UTC) + after)


def queues_long_ago(store: Store) -> QueueService:
    """The service as it was before all that is kept."""
    hosts = HostStatusService(store)
    access = AccessService(store, hosts, AppRegistry(store, hosts))
    return QueueService(
        store, hosts, access, EventService(store), lambda: datetime.now(UTC) - LATER
    )


async def receive(store: Store, queue: str = QUEUE) -> QueueMessage:
    assert await store.queue(queue).wait(20)
    [message] = await store.queue(queue).receive(lease=600)
    return message


async def fails(
    queues: QueueService, store: Store, of: App, queue: str = QUEUE, **properties: str
) -> str:
    """Let a message fail as often as it may; return the id of its history."""
    identity = await queues.put(queue, "an order", properties=properties)
    await queues.failed(await receive(store, queue), of, FAILURE)
    return identity


async def test_what_was_dropped_keeps_its_history_for_a_while(
    services: Services, store: Store
) -> None:
    identity = await fails(services.queues, store, app(OnPoison.DROP))
    await services.queues.put(QUEUE, "another one waits in the same queue")

    assert await retention(store, KEPT / 2).remove_unchanged_for(KEPT) == 0
    assert [entry.event for entry in await services.queues.history(identity)] == ["", "dropped"]

    assert await retention(store).remove_unchanged_for(KEPT) == 1
    assert await services.queues.history(identity) == []


async def test_what_still_waits_keeps_its_history_however_old(
    services: Services, store: Store
) -> None:
    waits_in = {
        await fails(services.queues, store, app(), "shop/a"): poison_queue("shop/a"),
        await fails(services.queues, store, app(OnPoison.REJECT), "b"): dead_letter_queue("b"),
        await fails(
            services.queues, store, app(OnPoison.REJECT), "c", dead_letter_queue="of/sender"
        ): "of/sender",
        await fails(services.queues, store, app(OnPoison.FAULT), "d"): "d",
        await fails(services.queues, store, app(retries=1), "e"): "e",
    }

    assert await retention(store).remove_unchanged_for(KEPT) == 0
    for identity in waits_in:
        assert await services.queues.history(identity) != []

    for place in waits_in.values():
        await services.queues.purge(place)
    assert await retention(store).remove_unchanged_for(KEPT) == len(waits_in)
    for identity in waits_in:
        assert await services.queues.history(identity) == []


async def test_young_messages_in_its_queue_do_not_keep_the_history_of_a_purged_one(
    services: Services, store: Store
) -> None:
    old = await fails(queues_long_ago(store), store, app())
    await services.queues.purge(poison_queue(QUEUE))
    young = await fails(services.queues, store, app())
    await services.queues.put(QUEUE, "an order")

    await Retention(Services(store), archive=None, events=KEPT).remove_old()

    assert await services.queues.history(old) == []
    assert await services.queues.history(young) != []


async def test_without_a_limit_histories_are_kept(services: Services, store: Store) -> None:
    identity = await fails(queues_long_ago(store), store, app(OnPoison.DROP))

    await Retention(Services(store), archive=None, events=None).remove_old()

    assert await services.queues.history(identity) != []


async def test_a_crash_at_the_end_of_a_message_leaves_a_history_that_is_removed(
    services: Services, store: Store
) -> None:
    """A message that is there has its history; without its message a history does not stay."""

    async def attempt(fate: Fate, writes: int) -> None:
        identity = await fails(services.queues, store, app(retries=1))
        message = await receive(store)
        await dies(Services(Fated(store, fate)).queues.accepted(message))

        if (await store.queue(QUEUE).info()).length:
            assert await services.queues.history(identity) != []
            assert await retention(store).remove_unchanged_for(KEPT) == 0
            await services.queues.accepted(message)
        await retention(store).remove_unchanged_for(KEPT)
        assert await services.queues.history(identity) == []

    assert await cut_after_each_write(attempt) == 2


async def test_an_interrupted_removal_is_finished_by_the_next_round(
    services: Services, store: Store
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        dropped = [await fails(services.queues, store, app(OnPoison.DROP)) for _ in range(2)]
        await dies(retention(Fated(store, fate)).remove_unchanged_for(KEPT))

        await retention(store).remove_unchanged_for(KEPT)

        for identity in dropped:
            assert await services.queues.history(identity) == []

    assert await cut_after_each_write(attempt) == 2
