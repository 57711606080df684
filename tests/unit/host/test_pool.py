"""The processes of one application, with a clock that is set and a launcher without processes."""

import asyncio
from datetime import UTC, datetime, timedelta

from postroom.domain.queues.apps import App
from postroom.host.processes.pool import ProcessPool
from postroom.host.processes.process_states import HandedMessage, ProcessState
from postroom.host.processes.scaling import CRASHES, START_SECONDS, BreakerState, Demand
from postroom.host.wire import Accepted, Broken, Busy, Deliver, Failed, Leaving, Returned
from postroom.storage import QueueMessage
from tests.unit.host.fakes import FakeWorker, deliver, make_pool, ready

APP = App(
    "/shop",
    handler="m:f",
    max_processes=2,
    idle_timeout=timedelta(seconds=60),
    drain_timeout=timedelta(seconds=10),
)


async def settled() -> None:
    """Let tasks run that have been started."""
    for _ in range(3):
        await asyncio.sleep(0)


def message(body: str) -> HandedMessage:
    return HandedMessage(QueueMessage(body, "q", body, {}, 1, datetime.now(UTC), "r"), 15.0)


def give(pool: ProcessPool, *bodies: str) -> list[HandedMessage]:
    given = [message(body) for body in bodies]
    for body, handed in zip(bodies, given, strict=True):
        assert pool.hand_over(deliver(body), handed), f"no room for {body}"
    return given


async def test_a_message_starts_one_process_and_there_is_room_once_it_is_ready() -> None:
    pool, launcher, owner, _ = make_pool(APP)
    pool.scale(Demand(ready=1))
    pool.scale(Demand(ready=1))
    await settled()
    [worker] = launcher.workers
    assert pool.room() == 0
    assert not pool.hand_over(deliver("too soon"), message("too soon"))
    ready(worker)
    assert pool.room() == 1
    [handed] = give(pool, "a")
    assert pool.room() == 0
    worker.accept_all()
    assert owner.said == [("accepted", handed)]
    assert (pool.starts, pool.crashes) == (1, 0)


async def test_an_idle_process_is_stopped_and_a_busy_one_is_not() -> None:
    pool, launcher, _, clock = make_pool(APP)
    pool.scale(Demand(ready=2))
    await settled()
    idle, busy = map(ready, launcher.workers)
    give(pool, "a")
    [working] = [worker for worker in (idle, busy) if worker.heard]
    [waiting] = [worker for worker in (idle, busy) if not worker.heard]
    clock.now += 59
    pool.tick()
    assert not waiting.is_draining()
    assert pool.next_due() == 1.0
    clock.now += 1
    pool.tick()
    assert waiting.is_draining()
    assert not working.is_draining()
    waiting.die(0)
    assert len(pool.processes) == 1
    assert pool.crashes == 0
    clock.now += 1000
    pool.tick()
    assert not working.is_draining()


async def test_as_many_stay_as_the_least_number_says() -> None:
    app = App("/shop", handler="m:f", min_processes=1, idle_timeout=timedelta(seconds=1))
    pool, launcher, _, clock = make_pool(app)
    pool.scale(Demand())
    await settled()
    [worker] = launcher.workers
    ready(worker)
    clock.now += 1000
    pool.tick()
    assert not worker.is_draining()


async def test_the_process_that_worked_last_is_preferred_so_that_others_become_idle() -> None:
    pool, launcher, _, clock = make_pool(APP)
    pool.scale(Demand(ready=2))
    await settled()
    workers = list(map(ready, launcher.workers))
    give(pool, "a", "b")
    workers[1].accept_all()
    clock.now += 1
    workers[0].accept_all()
    for _ in range(5):
        clock.now += 1
        give(pool, "more")
        assert not workers[1].heard
        clock.now += 1  # not quick, so nothing waits in line
        workers[0].accept_all()


async def test_a_process_that_exceeds_the_drain_limit_is_killed() -> None:
    pool, launcher, owner, clock = make_pool(APP)
    pool.scale(Demand(ready=1))
    await settled()
    worker = ready(launcher.workers[0])
    [handed] = give(pool, "endless")
    pool.end()
    assert worker.is_draining()
    clock.now += 9
    pool.tick()
    assert not launcher.killed
    clock.now += 1
    pool.tick()
    assert launcher.killed == [worker.pid]
    worker.die(-9)
    assert owner.said == [("returned", handed)], "the host could not wait: that is no attempt"
    assert pool.crashes == 0, "it was us"
    assert pool.breaker.state(clock.now) is BreakerState.CLOSED


async def test_a_process_that_takes_too_long_is_killed_and_that_is_not_a_crash() -> None:
    app = App(
        "/shop", handler="m:f", max_processes=1, concurrency=2, handler_timeout=timedelta(seconds=5)
    )
    pool, launcher, owner, clock = make_pool(app)
    pool.scale(Demand(ready=1))
    await settled()
    worker = ready(launcher.workers[0])
    clock.now += 1000
    pool.tick()
    assert not launcher.killed, "it has nothing in hand"
    [endless] = give(pool, "endless")
    clock.now += 3
    [beside] = give(pool, "beside")
    assert pool.next_due() == 2.0
    clock.now += 1
    pool.tick()
    assert not launcher.killed
    clock.now += 1
    pool.tick()
    assert launcher.killed == [worker.pid]
    clock.now += 1
    worker.die(-9)
    assert owner.said == [
        ("died: killed: a message took longer than handler_timeout allows", endless),
        ("returned", beside),
    ]
    assert (pool.processes, pool.crashes) == ([], 0)
    assert pool.breaker.state(clock.now) is BreakerState.CLOSED


async def test_the_new_process_is_ready_before_the_old_one_drains() -> None:
    app = App("/shop", handler="m:f", max_processes=1, recycle_messages=2)
    pool, launcher, _, clock = make_pool(app)
    pool.scale(Demand(ready=1))
    await settled()
    old = ready(launcher.workers[0])
    for body in "ab":
        clock.now += 1
        give(pool, body)
        clock.now += 1
        old.accept_all()
    give(pool, "c")
    pool.tick()
    pool.tick()
    await settled()
    assert len(launcher.workers) == 2
    assert not old.is_draining()
    pool.scale(Demand(ready=10))
    await settled()
    assert len(launcher.workers) == 2, "one replacement, and no more"
    new = ready(launcher.workers[1])
    assert old.is_draining()
    give(pool, "d")
    assert new.heard
    old.accept_all()
    old.die(0)
    assert [process.pid for process in pool.processes] == [new.pid]


async def test_a_process_that_dies_while_it_is_replaced_needs_no_other_successor() -> None:
    app = App("/shop", handler="m:f", max_processes=1, recycle_messages=1)
    pool, launcher, _, clock = make_pool(app)
    pool.scale(Demand(ready=1))
    await settled()
    old = ready(launcher.workers[0])
    give(pool, "a")
    clock.now += 1
    old.accept_all()
    give(pool, "b")
    pool.tick()
    await settled()
    old.die(-9)
    pool.scale(Demand(ready=5))
    await settled()
    assert len(launcher.workers) == 2
    assert [process.pid for process in pool.processes] == [launcher.workers[1].pid]


async def test_a_process_that_never_becomes_ready_is_killed() -> None:
    pool, launcher, _, clock = make_pool(APP)
    pool.scale(Demand(ready=1))
    await settled()
    [worker] = launcher.workers
    clock.now += START_SECONDS - 1
    pool.tick()
    assert not launcher.killed
    assert pool.next_due() == 1.0
    clock.now += 1
    pool.tick()
    assert launcher.killed == [worker.pid]
    worker.die(-9)
    assert pool.breaker.reason == "not ready 60 s after its start"


async def test_an_idle_process_is_replaced_before_it_stops_and_keeps_its_idle_time() -> None:
    pool, launcher, _, clock = make_pool(APP)
    pool.scale(Demand(ready=1))
    await settled()
    old = ready(launcher.workers[0])
    clock.now += 50
    pool.app = App("/shop", handler="m:g", max_processes=2, idle_timeout=timedelta(seconds=60))
    pool.tick()
    await settled()
    assert not old.is_draining(), "the next message would have to wait"
    new = ready(launcher.workers[1])
    assert old.is_draining()
    assert new.spec.handler == "m:g"
    old.die(0)
    clock.now += 10
    pool.tick()
    assert new.is_draining(), "nothing has been done for a minute"


async def test_an_idle_process_just_stops_if_another_one_can_take_the_next_message() -> None:
    app = App("/shop", handler="m:f", max_processes=2, recycle_messages=1)
    pool, launcher, _, _ = make_pool(app)
    pool.scale(Demand(ready=2))
    await settled()
    one, two = map(ready, launcher.workers)
    give(pool, "a")
    [worked] = [worker for worker in (one, two) if worker.heard]
    worked.accept_all()
    pool.tick()
    await settled()
    assert worked.is_draining()
    assert len(launcher.workers) == 2


async def test_a_message_in_quarantine_has_a_separate_process_and_harms_no_other_message() -> None:
    pool, launcher, owner, clock = make_pool(APP)
    pool.scale(Demand(ready=1))
    await settled()
    healthy = ready(launcher.workers[0])
    for number in range(CRASHES + 1):
        assert pool.can_isolate()
        suspect = message("suspect")
        pool.isolate(deliver("suspect"), suspect)
        assert not pool.can_isolate(), "one at a time"
        await settled()
        alone = ready(launcher.workers[number + 1])
        assert [type(each) for each in alone.heard] == [Deliver]
        assert pool.room() == 1, "the others have their process still"
        alone.die(-11)
        assert owner.said[-1] == ("died: killed by SIGSEGV", suspect)
    assert pool.breaker.state(clock.now) is BreakerState.CLOSED
    [handed] = give(pool, "fine")
    healthy.accept_all()
    assert owner.said[-1] == ("accepted", handed)

    harmless = message("harmless")
    pool.isolate(deliver("harmless"), harmless)
    await settled()
    alone = ready(launcher.workers[-1])
    alone.answer(Accepted(1))
    assert owner.said[-1] == ("accepted", harmless)
    assert alone.is_draining(), "it is for no other message"
    alone.die(0)
    assert len(pool.processes) == 1


async def test_a_message_whose_own_process_cannot_start_is_given_back() -> None:
    pool, launcher, owner, clock = make_pool(APP)
    launcher.refuses = True
    suspect = message("suspect")
    pool.isolate(deliver("suspect"), suspect)
    await settled()
    assert owner.said == [("returned", suspect)]
    assert not pool.processes
    launcher.refuses = False
    clock.now += 10
    pool.isolate(deliver("suspect"), suspect)
    await settled()
    launcher.workers[0].answer(Broken("m:f cannot be imported", ""))
    launcher.workers[0].die(0)
    assert owner.said == [("returned", suspect)] * 2


async def test_a_process_that_closed_its_connection_is_ended_as_a_crash() -> None:
    pool, launcher, owner, _ = make_pool(APP)
    pool.scale(Demand(ready=1))
    await settled()
    worker = ready(launcher.workers[0])
    [handed] = give(pool, "a")
    worker.lose()
    assert launcher.killed == [worker.pid]
    worker.die(-9)
    assert owner.said == [("died: it lost its connection to the host", handed)]
    assert pool.crashes == 1
    pool.scale(Demand(ready=1))
    await settled()
    drained = ready(launcher.workers[1])
    pool.end()
    drained.lose()
    assert launcher.killed == [worker.pid], "it was told to stop, and has its time for that"


async def test_a_launch_that_fails_in_any_way_leaves_no_process() -> None:
    pool, launcher, _, clock = make_pool(APP)
    launcher.error = OSError(24, "Too many open files")
    pool.scale(Demand(ready=1))
    await settled()
    assert not pool.processes
    launcher.error = None
    clock.now += 2
    pool.scale(Demand(ready=1))
    await settled()
    assert len(launcher.workers) == 1


async def test_messages_that_had_begun_when_a_process_died_failed_and_the_others_did_not() -> None:
    pool, launcher, owner, clock = make_pool(APP)
    pool.scale(Demand(ready=1))
    await settled()
    worker = ready(launcher.workers[0])
    give(pool, "quick")
    clock.now += 0.001
    worker.accept_all()
    owner.said.clear()
    begun, waiting = give(pool, "begun", "waiting")
    worker.die(-9)
    assert owner.said == [("died: killed by SIGKILL", begun), ("returned", waiting)]
    assert pool.crashes == 1


async def test_messages_that_wait_behind_a_slow_one_are_asked_back() -> None:
    pool, launcher, owner, clock = make_pool(APP)
    pool.scale(Demand(ready=1))
    await settled()
    worker = ready(launcher.workers[0])
    give(pool, "quick")
    clock.now += 0.001
    worker.accept_all()
    _, waiting = give(pool, "slow", "waiting")
    numbers = [each.number for each in worker.heard if hasattr(each, "number")]
    clock.now += 1
    assert pool.room() == 0, "nothing more goes behind the slow one"
    pool.tick()
    assert worker.recalls == 1
    worker.answer(Returned(numbers[1]))
    assert owner.said[-1] == ("returned", waiting)


async def test_a_crash_storm_opens_the_breaker_and_one_message_probes() -> None:
    pool, launcher, _, clock = make_pool(APP, pause=30.0)
    for _ in range(CRASHES):
        pool.scale(Demand(ready=5))
        await settled()
        worker = launcher.workers[-1]
        worker.answer(Broken("m:f cannot be imported: SyntaxError", ""))
        for each in [p for p in pool.processes if p.state is ProcessState.STARTING]:
            by_pid(launcher.workers, each.pid).die(0)
    assert pool.breaker.state(clock.now) is BreakerState.OPEN
    started = len(launcher.workers)
    pool.scale(Demand(ready=5))
    await settled()
    assert len(launcher.workers) == started
    clock.now += 30
    pool.scale(Demand(ready=5))
    await settled()
    assert len(launcher.workers) == started + 1
    probe = ready(launcher.workers[-1])
    assert pool.room() == 1
    give(pool, "probe")
    assert pool.room() == 0
    probe.answer(Failed(1, "ValueError", ""))
    assert pool.breaker.state(clock.now) is BreakerState.CLOSED


def by_pid(workers: list[FakeWorker], pid: int) -> FakeWorker:
    return next(worker for worker in workers if worker.pid == pid)


async def test_a_machine_that_does_not_fork_is_asked_again_later() -> None:
    pool, launcher, _, clock = make_pool(APP)
    launcher.refuses = True
    pool.scale(Demand(ready=1))
    await settled()
    assert pool.processes == []
    launcher.refuses = False
    pool.scale(Demand(ready=1))
    await settled()
    assert launcher.workers == []
    clock.now += 1
    pool.scale(Demand(ready=1))
    await settled()
    assert len(launcher.workers) == 1
    assert pool.crashes == 0, "it is not the application's fault"


async def test_a_process_stopped_from_outside_gets_no_more_messages_and_is_not_a_crash() -> None:
    pool, launcher, owner, _ = make_pool(APP)
    pool.scale(Demand(ready=1))
    await settled()
    worker = ready(launcher.workers[0])
    [handed] = give(pool, "a")
    worker.answer(Leaving())
    assert pool.room() == 0
    worker.answer(Accepted(1))
    worker.die(0)
    assert owner.said == [("accepted", handed)]
    assert pool.crashes == 0


async def test_a_server_is_idle_when_it_says_so() -> None:
    app = App("/mail/send", serve="m:f", idle_timeout=timedelta(seconds=60))
    pool, launcher, _, clock = make_pool(app)
    pool.scale(Demand(ready=1))
    await settled()
    worker = ready(launcher.workers[0])
    worker.answer(Busy(True))
    clock.now += 1000
    pool.tick()
    assert not worker.is_draining()
    worker.answer(Busy(False))
    clock.now += 59
    pool.tick()
    assert not worker.is_draining()
    clock.now += 1
    pool.tick()
    assert worker.is_draining()


async def test_a_process_drained_during_its_start_ends_normally() -> None:
    pool, launcher, _, _ = make_pool(APP)
    pool.scale(Demand(ready=1))
    pool.end()
    await settled()
    [worker] = launcher.workers
    assert worker.is_draining()
    ready(worker)
    worker.die(0)
    assert pool.processes == []
    assert pool.crashes == 0
