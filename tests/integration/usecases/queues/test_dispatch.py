"""From a real queue to a process and back, with the process played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from postroom.domain.queues.apps import App
from postroom.host.dispatch import Dispatcher
from postroom.host.runner import HostSettings, RunnerContext
from postroom.host.wire import Accepted, Deliver, Failed
from postroom.storage import Store, open_store
from postroom.wiring import Services
from tests.services.waiting import until
from tests.unit.host.fakes import Clock, FakeLauncher, FakeWorker, ready

APP = App("/shop", handler="m:f", max_processes=2)
LEASE = 1.0


class Bench:
    """One application on a host whose clock stands still: no lease is ever renewed."""

    def __init__(self, store: Store, app: App = APP) -> None:
        self.services = Services(store)
        self.queue = store.queue("shop")
        self.launcher, self.clock = FakeLauncher(), Clock()
        self.faulted: list[str] = []
        around = RunnerContext(
            "this-host",
            store,
            self.services.queues,
            self.services.events,
            self.launcher,
            HostSettings(lease=LEASE),
            lambda: None,
            self.clock,
        )
        self.dispatcher = Dispatcher(app, around, lambda app, queue: self.faulted.append(queue))

    async def worker(self, number: int = 0) -> FakeWorker:
        """The process of this number, ready."""
        await until(lambda: len(self.launcher.workers) > number, "it is started")
        return ready(self.launcher.workers[number])


def delivered(worker: FakeWorker) -> list[Deliver]:
    return [each for each in worker.heard if isinstance(each, Deliver)]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with await open_store(f"sqlite:///{tmp_path}/store.db") as store:
        bench = Bench(store)
        yield bench
        for worker in bench.launcher.workers:
            if any(process.pid == worker.pid for process in bench.dispatcher.pool.processes):
                worker.die(0)
        await bench.dispatcher.end()


async def test_a_message_whose_lease_we_lost_to_ourselves_is_not_handled_twice(
    bench: Bench,
) -> None:
    await bench.queue.put("slow")
    bench.dispatcher.activate("shop")
    worker = await bench.worker()
    await until(lambda: len(delivered(worker)) == 1, "it gets the first")
    await asyncio.sleep(LEASE + 0.1)  # the lease has run out, and nobody renewed it
    await bench.queue.put("next")
    bench.clock.now += 0.2  # so that it looks whether more processes are needed
    bench.dispatcher.activate("shop")
    other = await bench.worker(1)
    await until(lambda: any(each.body == "next" for each in delivered(other)), "it gets the next")
    worker.answer(Accepted(delivered(worker)[0].number))
    for each in delivered(other):
        assert each.body == "next"
        other.answer(Accepted(each.number))
    await until(lambda: not bench.dispatcher._settling, "all is settled")
    assert (await bench.queue.info()).length == 0


async def test_a_queue_is_asked_only_for_what_can_begin(bench: Bench) -> None:
    await bench.queue.put_many([str(number) for number in range(10)])
    bench.dispatcher.activate("shop")
    worker = await bench.worker()
    await until(lambda: len(delivered(worker)) == 1, "it gets the first")
    other = await bench.worker(1)
    await until(lambda: len(delivered(other)) == 1, "the other gets it")
    assert len(await bench.queue.peek(32)) == 8, "the others wait where anybody can take them"


async def test_handlers_that_are_quick_get_several_at_once(bench: Bench) -> None:
    await bench.queue.put_many([str(number) for number in range(100)])
    bench.dispatcher.activate("shop")
    worker = await bench.worker()
    await until(lambda: len(delivered(worker)) == 1, "it gets the first")
    worker.answer(Accepted(1))
    await until(lambda: len(delivered(worker)) > 16, "it prefetches")
    worker.answer(Failed(2, "ValueError: no", "Traceback"))
    worker.die(-9)
    await until(lambda: not bench.dispatcher._settling, "all is settled")
    left = {each.body: each.dequeue_count for each in await bench.queue.peek(32)}
    assert set(left.values()) == {0}, "what had not begun was not an attempt"
    history = await bench.services.queues.history((await bench.queue.peek(1))[0].id)
    assert not history
