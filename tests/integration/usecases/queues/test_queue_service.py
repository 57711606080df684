"""Attempts, retries, poison messages and redrive, on SQLite and PostgreSQL, under power cuts.

A host is imitated: it receives, looks, delivers to a handler that fails or dies, and says so.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from postroom.domain.errors import Invalid, NoSuch, NotAllowed
from postroom.domain.queues.app_options import OnPoison
from postroom.domain.queues.apps import App
from postroom.domain.queues.queue_names import (
    dead_letter_queue,
    poison_queue,
    retry_queue,
)
from postroom.services.events import EventService, Severity
from postroom.services.queues.apps import AppRegistry
from postroom.services.queues.attempts import UNANSWERED, AttemptFailure, stable_id
from postroom.services.queues.delivery import QueueService
from postroom.services.queues.dispositions import Disposition, DispositionResult
from postroom.services.queues.hosts import HostStatusService
from postroom.services.queues.queue_access import AccessService
from postroom.storage import LeaseLost, QueueMessage, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies

QUEUE = "shop/orders"
PLACES = (QUEUE, retry_queue(QUEUE), poison_queue(QUEUE), dead_letter_queue(QUEUE))
FAILURE = AttemptFailure("ValueError: no", "Traceback …", process="here 42")
A_MOMENT = 20.0


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    """Where a move is one step."""
    return str(request.param)


def make_app(on_poison: OnPoison = OnPoison.MOVE, retries: int = 1, cycles: int = 1) -> App:
    return App(
        "/shop",
        handler="orders:process",
        receive_retry_count=retries,
        max_retry_cycles=cycles,
        retry_cycle_delay=timedelta(0),
        on_poison=on_poison,
    )


async def places(store: Store) -> dict[str, int]:
    """How many messages are where; what is empty is left out."""
    lengths = {name: (await store.queue(name).info()).length for name in PLACES}
    return {name: length for name, length in lengths.items() if length}


async def receive(store: Store, queue: str = QUEUE) -> QueueMessage:
    assert await store.queue(queue).wait(A_MOMENT)
    [message] = await store.queue(queue).receive(lease=600)
    return message


class ImitatedHost:
    """Delivers to a handler that always fails: it raises, or the process dies."""

    def __init__(self, store: Store, app: App, *, dying: bool = False) -> None:
        self.store = store
        self.services = Services(store)
        self.app = app
        self.dying = dying
        self.attempts = 0

    async def run(self) -> DispositionResult:
        """Until the message has met its end."""
        for _ in range(100):
            await self.services.queues.start_due_retries(retry_queue(QUEUE))
            for message in await self.store.queue(QUEUE).receive(lease=600):
                verdict = await self._deliver(message)
                if verdict is not None and verdict.action not in (
                    Disposition.RELEASED,
                    Disposition.RETRY,
                ):
                    return verdict
        raise AssertionError("the message is tried without end")

    async def _deliver(self, message: QueueMessage) -> DispositionResult | None:
        verdict = await self.services.queues.check_before_delivery(message, self.app)
        if verdict is not None:
            return verdict
        self.attempts += 1
        if self.dying:
            await self.store.queue(QUEUE).release(message)  # as when its lease runs out
            return None
        return await self.services.queues.failed(message, self.app, FAILURE)


@pytest.mark.parametrize("dying", [False, True], ids=["raises", "dies"])
@pytest.mark.parametrize(("retries", "cycles"), [(5, 2), (0, 0), (0, 2), (2, 0)])
async def test_a_message_is_tried_as_often_as_allowed(
    services: Services, store: Store, retries: int, cycles: int, dying: bool
) -> None:
    app = make_app(retries=retries, cycles=cycles)
    identity = await services.queues.put(QUEUE, "an order", properties={"colour": "red"})
    host = ImitatedHost(store, app, dying=dying)

    verdict = await host.run()

    assert verdict.action is Disposition.POISONED
    assert host.attempts == (retries + 1) * (cycles + 1)
    assert await places(store) == {poison_queue(QUEUE): 1}
    [message] = await services.queues.peek(poison_queue(QUEUE))
    assert message.body == "an order"
    assert message.properties["colour"] == "red"
    history = await services.queues.history(identity)
    attempts = [(entry.cycle, entry.attempt) for entry in history if not entry.event]
    assert attempts == [(c, a) for c in range(cycles + 1) for a in range(1, retries + 2)]
    assert history[-1].event == f"moved to {poison_queue(QUEUE)}"
    assert history[-1].attempt == retries + 1, "no attempt that was never made"
    if dying:
        assert {entry.error for entry in history if not entry.event} == {UNANSWERED}
    else:
        first = history[0]
        assert (first.error, first.traceback, first.process) == (
            "ValueError: no",
            "Traceback …",
            "here 42",
        )
        assert first.queue == QUEUE
        assert abs(first.time - datetime.now(UTC)) < timedelta(minutes=5)


ENDS = {
    OnPoison.MOVE: {poison_queue(QUEUE): 1},
    OnPoison.REJECT: {dead_letter_queue(QUEUE): 1},
    OnPoison.DROP: {},
    OnPoison.FAULT: {QUEUE: 1},
}


@pytest.mark.parametrize("on_poison", OnPoison)
async def test_each_disposition(services: Services, store: Store, on_poison: OnPoison) -> None:
    identity = await services.queues.put(QUEUE, "an order")
    await services.queues.put("shop/other", "another order")

    await ImitatedHost(store, make_app(on_poison)).run()

    assert await places(store) == ENDS[on_poison]
    history = await services.queues.history(identity)
    assert [entry.error for entry in history if not entry.event] == ["ValueError: no"] * 4
    assert [entry.event for entry in history if entry.event]
    faulted = on_poison is OnPoison.FAULT
    assert await services.queues.is_faulted(QUEUE) == faulted
    assert not await services.queues.is_faulted("shop/other")
    assert (await services.queues.faulted()).keys() == ({QUEUE} if faulted else set())
    if faulted:
        # Once somebody has dealt with it, it has all its attempts again.
        assert await services.queues.clear_fault(QUEUE)
        assert not await services.queues.clear_fault(QUEUE)
        again = ImitatedHost(store, make_app(on_poison))
        await again.run()
        assert again.attempts == 4
        assert len(await services.queues.history(identity)) == 10


@pytest.mark.parametrize("on_poison", OnPoison)
@pytest.mark.parametrize("dying", [False, True], ids=["raises", "dies"])
async def test_a_host_that_dies_after_any_write_leaves_one_message(
    services: Services, store: Store, on_poison: OnPoison, dying: bool
) -> None:
    app = make_app(on_poison)

    async def attempt(fate: Fate, writes: int) -> None:
        await services.queues.put(QUEUE, "an order")
        first = ImitatedHost(Fated(store, fate), app, dying=dying)
        second = ImitatedHost(store, app, dying=dying)
        died = await dies(first.run())
        await fate.end_leases(store)
        if on_poison is not OnPoison.DROP:
            assert sum((await places(store)).values()) == 1
        # The attempt that the power cut interrupted counts, whether it was answered or not.
        if died and await is_waiting(store) and not await services.queues.is_faulted(QUEUE):
            await second.run()
        assert first.attempts + second.attempts <= 4, "two attempts in each of two cycles"
        assert await places(store) == ENDS[on_poison]
        assert await services.queues.is_faulted(QUEUE) == (on_poison is OnPoison.FAULT)
        for name in PLACES:
            await services.queues.purge(name)
        await services.queues.clear_fault(QUEUE)

    assert await cut_after_each_write(attempt) > 10


async def is_waiting(store: Store) -> bool:
    """Whether the message still waits for its next attempt."""
    found = await places(store)
    return QUEUE in found or retry_queue(QUEUE) in found


async def test_poison_now_and_retry_later(services: Services, store: Store) -> None:
    app = make_app(retries=5, cycles=2)
    await services.queues.put(QUEUE, "later")
    verdict = await services.queues.failed(
        await receive(store), app, AttemptFailure("busy", retry_in=3600)
    )
    assert (verdict.action, verdict.delay) == (Disposition.RELEASED, 3600)
    assert not await store.queue(QUEUE).wait(0)
    await services.queues.purge(QUEUE)

    await services.queues.put(QUEUE, "never")
    verdict = await services.queues.failed(
        await receive(store), app, AttemptFailure("no", poison=True)
    )
    assert (verdict.action, verdict.queue) == (Disposition.POISONED, poison_queue(QUEUE))
    assert await places(store) == {poison_queue(QUEUE): 1}


async def test_each_message_comes_back_at_its_own_time(services: Services, store: Store) -> None:
    soon = App("/shop", "o:p", receive_retry_count=0, retry_cycle_delay=timedelta(seconds=0.3))
    late = App("/shop", "o:p", receive_retry_count=0, retry_cycle_delay=timedelta(hours=1))
    for body, app in (("late", late), ("soon", soon)):
        await services.queues.put(QUEUE, body)
        verdict = await services.queues.failed(await receive(store), app, FAILURE)
        assert verdict.action is Disposition.RETRY
        assert verdict.queue == retry_queue(QUEUE)
    assert await store.wait_for_messages(timeout=A_MOMENT) == {retry_queue(QUEUE)}
    assert await services.queues.start_due_retries(QUEUE) == 1
    assert await services.queues.start_due_retries(QUEUE) == 0
    message = await receive(store)
    assert (message.body, message.dequeue_count, message.properties["cycle"]) == ("soon", 1, "1")
    assert await places(store) == {QUEUE: 1, retry_queue(QUEUE): 1}


async def test_an_accepted_message_is_deleted_with_its_history(
    services: Services, store: Store
) -> None:
    app = make_app(retries=0)
    identity = await services.queues.put(QUEUE, "an order")
    await services.queues.failed(await receive(store), app, FAILURE)
    await services.queues.start_due_retries(QUEUE)
    message = await receive(store)
    assert await services.queues.check_before_delivery(message, app) is None
    assert await services.queues.history(identity) != []
    await services.queues.accepted(message)
    assert await places(store) == {}
    assert await services.queues.history(identity) == []
    with pytest.raises(LeaseLost):
        await services.queues.accepted(message)


async def test_a_handler_that_asks_for_time_gets_it_on_the_last_attempt_of_a_cycle(
    services: Services, store: Store
) -> None:
    app = make_app(retries=0, cycles=1)
    await services.queues.put(QUEUE, "an order")
    message = await receive(store)
    later = AttemptFailure("RetryLater: closed", retry_in=60.0)
    verdict = await services.queues.failed(message, app, later)
    assert (verdict.action, verdict.delay) == (Disposition.RETRY, 60.0)
    assert await services.queues.start_due_retries(QUEUE) == 0


async def test_a_message_that_crashed_its_process_is_known_as_such(
    services: Services, store: Store
) -> None:
    app = make_app(retries=1, cycles=1)
    crash = AttemptFailure("the process ended: killed by SIGSEGV", exit_status=-11)
    await services.queues.put(QUEUE, "an order")
    message = await receive(store)
    assert not await services.queues.attempts.has_crashed(message)
    await services.queues.failed(message, app, crash)
    message = await receive(store)
    assert await services.queues.attempts.has_crashed(message)
    await services.queues.failed(message, app, crash)
    await services.queues.start_due_retries(QUEUE)
    message = await receive(store)
    assert await services.queues.attempts.has_crashed(message), "also in the next cycle"
    await services.queues.failed(message, app, FAILURE)
    message = await receive(store)
    assert not await services.queues.attempts.has_crashed(message), "the last time it only raised"


async def test_messages_that_are_given_up_leave_an_event(services: Services, store: Store) -> None:
    app = make_app(retries=0, cycles=0)
    for number in range(3):
        await services.queues.put(QUEUE, f"order {number}")
        await services.queues.failed(await receive(store), app, FAILURE)
    events = (await services.events.slice(least=Severity.WARNING)).events
    [event] = events  # not one for each: three at once are one problem
    assert f"was moved to {poison_queue(QUEUE)}: ValueError: no" in event.text
    assert event.subject == f"queue:{QUEUE}"


async def test_a_time_to_live_ends_where_no_application_takes_messages(
    services: Services, store: Store
) -> None:
    await services.queues.put(QUEUE, "too old", ttl=3600)
    await services.queues.put(QUEUE, "younger", ttl=7200)
    await services.queues.put(QUEUE, "for ever")
    assert await services.queues.expire_due() == 0
    later = make_later(store, hours=1.5)
    assert await later.expire_due() == 1
    [dead] = await services.queues.peek(dead_letter_queue(QUEUE))
    assert dead.body == "too old"
    assert await places(store) == {QUEUE: 2, dead_letter_queue(QUEUE): 1}
    [entry] = await services.queues.history(stable_id(dead))
    assert "expired" in entry.event
    assert await later.expire_due() == 0


async def test_an_expired_message_ends_when_it_is_released(
    services: Services, store: Store
) -> None:
    await services.queues.put(QUEUE, "in hand", ttl=3600)
    message = await receive(store)
    assert await make_later(store, hours=2).expire_due() == 0, "somebody works on it"
    await store.queue(QUEUE).release(message)
    assert await make_later(store, hours=3).expire_due() == 1


def make_later(store: Store, *, hours: float) -> QueueService:
    """The service as it will be then."""
    hosts = HostStatusService(store)
    access = AccessService(store, hosts, AppRegistry(store, hosts))
    return QueueService(
        store,
        hosts,
        access,
        EventService(store),
        lambda: datetime.now(UTC) + timedelta(hours=hours),
    )


async def test_messages_rejected_to_the_senders_own_queue_can_be_redriven(
    services: Services, store: Store
) -> None:
    app = make_app(OnPoison.REJECT, retries=0, cycles=0)
    own = "senders/own"
    for body in ("one", "two", "three"):
        await services.queues.put(QUEUE, body, properties={"dead_letter_queue": own})
        await services.queues.failed(await receive(store), app, FAILURE)
    await services.queues.put(own, "something else")
    rejected = {message.body: message.id for message in await services.queues.peek(own)}
    with pytest.raises(NoSuch):
        await services.queues.redrive(QUEUE, source=own, id=rejected["something else"])
    assert await services.queues.redrive(QUEUE, source=own, id=rejected["two"]) == 1
    assert await services.queues.redrive(QUEUE, source=own) == 2
    assert [message.body for message in await services.queues.peek(own)] == ["something else"]
    back = await services.queues.peek(QUEUE)
    assert {message.body for message in back} == {"one", "two", "three"}
    assert {message.properties["dead_letter_queue"] for message in back} == {own}
    assert not [message for message in back if "origin_queue" in message.properties]


async def test_a_lost_lease_counts_once(services: Services, store: Store) -> None:
    app = make_app(retries=3)
    await services.queues.put(QUEUE, "an order")
    slow = await receive(store)
    await store.queue(QUEUE).release(slow)  # as when its lease runs out
    quick = await receive(store)
    assert await services.queues.check_before_delivery(quick, app) is None
    for late in (services.queues.accepted(slow), services.queues.failed(slow, app, FAILURE)):
        with pytest.raises(LeaseLost):
            await late
    assert await places(store) == {QUEUE: 1}
    await services.queues.accepted(quick)
    assert await places(store) == {}


# -- time to live, dead letters -------------------------------------------------------------------


def later_queues(store: Store, by: timedelta) -> QueueService:
    """The service as it is some time from now."""
    hosts = HostStatusService(store)
    clock: Callable[[], datetime] = lambda: datetime.now(UTC) + by  # noqa: E731
    return QueueService(
        store,
        hosts,
        AccessService(store, hosts, AppRegistry(store, hosts)),
        EventService(store),
        clock,
    )


async def test_an_expired_message_is_a_dead_letter_not_delivered(
    services: Services, store: Store
) -> None:
    app = make_app(retries=0)
    identity = await services.queues.put(QUEUE, "an offer", ttl=60)
    message = await receive(store)
    assert await services.queues.check_before_delivery(message, app) is None
    later = later_queues(store, timedelta(minutes=2))
    verdict = await later.check_before_delivery(message, app)
    assert verdict is not None
    assert (verdict.action, verdict.queue) == (Disposition.DEAD_LETTERED, dead_letter_queue(QUEUE))
    assert await places(store) == {dead_letter_queue(QUEUE): 1}
    [entry] = await services.queues.history(identity)
    assert "expired" in entry.event
    # Brought back on purpose, it is delivered all the same.
    assert await services.queues.redrive(dead_letter_queue(QUEUE)) == 1
    assert await later.check_before_delivery(await receive(store), app) is None


async def test_a_message_that_expires_in_retry_does_not_come_back(
    services: Services, store: Store
) -> None:
    identity = await services.queues.put(QUEUE, "an offer", ttl=60)
    for _ in range(2):
        await services.queues.failed(await receive(store), make_app(retries=1), FAILURE)
    assert await later_queues(store, timedelta(minutes=2)).start_due_retries(QUEUE) == 0
    assert await places(store) == {dead_letter_queue(QUEUE): 1}
    history = await services.queues.history(identity)
    assert [entry.attempt for entry in history] == [1, 2, 0], "it ended before its next cycle"


async def test_a_message_that_is_taken_only_to_expire_was_not_tried(
    services: Services, store: Store
) -> None:
    app = make_app(retries=1)
    identity = await services.queues.put(QUEUE, "an offer", ttl=60)
    for _ in range(2):  # two of two attempts, each ended by the end of its lease
        await store.queue(QUEUE).release(await receive(store))
    later = later_queues(store, timedelta(minutes=2))
    verdict = await later.check_before_delivery(await receive(store), app)
    assert verdict is not None
    assert verdict.action is Disposition.DEAD_LETTERED
    history = await services.queues.history(identity)
    assert [(entry.attempt, entry.error) for entry in history] == [(2, UNANSWERED), (2, "")]


async def test_a_rejected_message_goes_to_the_senders_dead_letters(
    services: Services, store: Store
) -> None:
    app = make_app(OnPoison.REJECT, retries=0, cycles=0)
    await services.queues.put(QUEUE, "an order", properties={"dead_letter_queue": "sender/dead"})
    verdict = await services.queues.failed(await receive(store), app, FAILURE)
    assert verdict.queue == "sender/dead"
    [message] = await services.queues.peek("sender/dead")
    assert "dead_letter_queue" not in message.properties  # so that it cannot go round in circles
    # Nonsense that somebody put without asking, and the queue itself, are not followed.
    for wanted in ("\n", QUEUE, retry_queue(QUEUE)):
        await store.queue(QUEUE).put("x", properties={"dead_letter_queue": wanted})
        verdict = await services.queues.failed(await receive(store), app, FAILURE)
        assert verdict.queue == dead_letter_queue(QUEUE)


async def test_what_fails_in_a_poison_queue_never_comes_back_to_one(
    services: Services, store: Store
) -> None:
    identity = await services.queues.put(QUEUE, "an order")
    await ImitatedHost(store, make_app(retries=0, cycles=0)).run()
    poison = App(
        f"/{poison_queue(QUEUE)}",
        "o:p",
        receive_retry_count=0,
        max_retry_cycles=1,
        retry_cycle_delay=timedelta(0),
    )
    queue = poison_queue(QUEUE)
    verdict = await services.queues.failed(await receive(store, queue), poison, FAILURE)
    assert (verdict.action, verdict.queue) == (Disposition.RETRY, retry_queue(queue))
    assert await services.queues.start_due_retries(retry_queue(queue)) == 1
    verdict = await services.queues.failed(await receive(store, queue), poison, FAILURE)
    assert (verdict.action, verdict.queue) == (Disposition.DEAD_LETTERED, dead_letter_queue(QUEUE))
    assert await places(store) == {dead_letter_queue(QUEUE): 1}
    history = await services.queues.history(identity)
    assert [(e.round, e.cycle, e.attempt) for e in history if not e.event] == [
        (0, 0, 1),
        (1, 0, 1),
        (1, 1, 1),
    ]


async def test_a_full_message_can_still_be_moved_to_poison(
    services: Services, store: Store
) -> None:
    await store.queue(QUEUE).put("x" * 48_000)
    await ImitatedHost(store, make_app()).run()
    assert await places(store) == {poison_queue(QUEUE): 1}
    assert await services.queues.redrive(QUEUE) == 1


async def test_anything_that_a_handler_raises_can_be_recorded(
    services: Services, store: Store
) -> None:
    identity = await services.queues.put(QUEUE, "an order")
    error = "NUL \0, half a pair \ud800, " + "very long " * 50_000
    failure = AttemptFailure(error, "한" * 100_000, exit_status=-9, process="p" * 1000)
    await services.queues.failed(await receive(store), make_app(), failure)
    [entry] = await services.queues.history(identity)
    assert entry.exit_status == -9
    assert entry.error.endswith("very long ")
    assert len(entry.traceback) <= 20_000


async def test_invented_counters_do_no_harm(services: Services, store: Store) -> None:
    made_up = {"postroom-id": "a/b\n", "cycle": "-1", "round": "x", "expires_at": "tomorrow"}
    await store.queue(QUEUE).put("x", properties=made_up)
    host = ImitatedHost(store, make_app())
    assert (await host.run()).action is Disposition.POISONED
    assert host.attempts == 4


# -- redrive --------------------------------------------------------------------------------------


async def poisoned(services: Services, store: Store, count: int) -> list[str]:
    ids = []
    for number in range(count):
        ids.append(await services.queues.put(QUEUE, f"order {number}"))
        await services.queues.failed(
            await receive(store), make_app(), AttemptFailure(f"no {number}", poison=True)
        )
    return ids


async def test_redrive_returns_one_message_and_resets_its_attempts(
    services: Services, store: Store
) -> None:
    ids = await poisoned(services, store, 3)
    [*_, last] = await services.queues.peek(poison_queue(QUEUE), 10)
    assert await services.queues.redrive(QUEUE, id=last.id) == 1
    assert await places(store) == {QUEUE: 1, poison_queue(QUEUE): 2}
    host = ImitatedHost(store, make_app())
    await host.run()
    assert host.attempts == 4
    history = await services.queues.history(ids[2])
    assert [entry.error for entry in history if not entry.event] == [
        "no 2",
        *["ValueError: no"] * 4,
    ]
    with pytest.raises(NoSuch, match=r"in shop/orders;poison \(or it is in progress"):
        await services.queues.redrive(QUEUE, id="12345")


async def test_redrive_returns_all_messages(services: Services, store: Store) -> None:
    await poisoned(services, store, 40)
    seen: list[int] = []
    assert await services.queues.redrive(poison_queue(QUEUE), progress=seen.append) == 40
    assert seen == list(range(1, 41))
    assert await places(store) == {QUEUE: 40}
    assert await services.queues.redrive(QUEUE) == 0


async def test_redrive_at_a_rate_takes_its_time(services: Services, store: Store) -> None:
    await poisoned(services, store, 4)
    began = asyncio.get_running_loop().time()
    assert await services.queues.redrive(QUEUE, rate=10) == 4
    assert asyncio.get_running_loop().time() - began > 0.25
    with pytest.raises(Invalid, match="rate"):
        await services.queues.redrive(QUEUE, rate=0)
    with pytest.raises(Invalid, match="automatically"):
        await services.queues.redrive(retry_queue(QUEUE))


async def test_redrive_resumes_a_stopped_queue(services: Services, store: Store) -> None:
    await services.queues.fault(QUEUE, "a reason")
    assert await services.queues.faulted() == {QUEUE: "a reason"}
    assert await services.queues.redrive(QUEUE) == 0
    assert not await services.queues.is_faulted(QUEUE)


async def test_an_interrupted_redrive_loses_nothing(services: Services, store: Store) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        await poisoned(services, store, 3)
        if await dies(Services(Fated(store, fate)).queues.redrive(QUEUE)):
            await fate.end_leases(store)
            assert sum((await places(store)).values()) == 3
            await services.queues.redrive(QUEUE)
        assert await places(store) == {QUEUE: 3}
        await services.queues.purge(QUEUE)

    assert await cut_after_each_write(attempt) == 7


async def test_one_message_is_deleted_for_good(services: Services, store: Store) -> None:
    [first, second] = await poisoned(services, store, 2)
    await services.queues.delete_message(poison_queue(QUEUE), first)
    assert await services.queues.history(first) == []
    assert await services.queues.history(second) != []
    assert await places(store) == {poison_queue(QUEUE): 1}
    with pytest.raises(NoSuch):
        await services.queues.delete_message(poison_queue(QUEUE), first)


# -- sending --------------------------------------------------------------------------------------


async def test_what_cannot_be_put_is_refused(services: Services, store: Store) -> None:
    for field, call in {
        "properties": services.queues.put(QUEUE, "x", properties={"cycle": "7"}),
        "dead_letter_queue": services.queues.put(QUEUE, "x", properties={"dead_letter_queue": ""}),
        "ttl": services.queues.put(QUEUE, "x", ttl=0),
        "queue": services.queues.put("x" * 250, "x"),
    }.items():
        with pytest.raises(Invalid) as refused:
            await call
        assert refused.value.field == field
    assert await store.queues() == []


async def test_rights_are_checked(services: Services, store: Store) -> None:
    await services.queues.put(QUEUE, "x", principal="key:7")
    for right in ("send", "peek", "manage"):
        await services.access.set_rule("key:7", right, "/Shop", "deny")
    refused = {
        "send": services.queues.put(QUEUE, "x", principal="key:7"),
        "peek": services.queues.peek(QUEUE, principal="key:7"),
        "manage": services.queues.redrive(poison_queue(QUEUE), principal="key:7"),
    }
    for right, call in refused.items():
        with pytest.raises(NotAllowed, match=f"key:7 needs the right {right} on shop/orders"):
            await call
    for other in (
        services.queues.purge(QUEUE, principal="key:7"),
        services.queues.fault(QUEUE, "x", principal="key:7"),
        services.queues.clear_fault(QUEUE, principal="key:7"),
        services.queues.delete_message(QUEUE, "1", principal="key:7"),
    ):
        with pytest.raises(NotAllowed):
            await other
    assert len(await services.queues.peek(QUEUE, principal="key:8")) == 1
    await services.queues.put("shopping", "x", principal="key:7")


# -- the overview ---------------------------------------------------------------------------------


async def test_all_queues_at_a_glance(services: Services, store: Store) -> None:
    await services.apps.add(App("/shop", "o:p"))
    await services.hosts.report("here-1", "here", [])
    await services.hosts.ring_bells("news")
    await services.queues.put("lonely", "x")
    await poisoned(services, store, 2)
    await services.queues.put(QUEUE, "an order")
    await services.queues.put(retry_queue(QUEUE), "an order", delay=60)
    await services.queues.fault("faulty", "a reason")
    await services.store.queue("mail/schedule").put("x")

    found = {queue.name: queue for queue in await services.queue_overview.overview()}

    assert list(found) == ["faulty", "lonely", "mail/schedule", QUEUE]
    orders = found[QUEUE]
    assert (orders.length, orders.retry, orders.poison, orders.dead_letter) == (1, 1, 2, 0)
    assert (orders.app, orders.state) == ("/shop", "no host")
    assert orders.oldest is not None
    assert (found["lonely"].app, found["lonely"].state) == (None, "no application")
    assert (found["faulty"].state, found["faulty"].faulted) == ("faulted", "a reason")
    assert found["mail/schedule"].state == "internal"
