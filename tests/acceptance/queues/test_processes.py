"""Processes that are replaced, killed, suspended and cut off from the store."""

import asyncio
import os
import random
import re
import signal
from collections import Counter
from pathlib import Path

import pytest

from postroom.domain.queues.apps import COMMAND_LINE
from postroom.storage import open_store
from postroom.wiring import Services
from tests.acceptance.hosting import KILLED_LEASE, Hosting, children_of, is_alive
from tests.contract.conftest import ON_ONE_ENGINE, StoreAddress
from tests.services.process import default_signals
from tests.services.stores.postgres import PostgresServer, running_postgres
from tests.services.waiting import BUSY

KILLS = 20


@ON_ONE_ENGINE
async def test_processes_are_replaced_under_load_and_every_message_is_handled_once(
    hosting: Hosting,
) -> None:
    app = await hosting.add("/shop", recycle_messages=10, max_processes=2)
    await hosting.start()
    bodies = [str(number) for number in range(300)]
    for start in range(0, 300, 50):
        await hosting.put("shop/orders", *bodies[start : start + 50])
    await hosting.until(lambda: len(hosting.ended()) >= 100, "a third is done")
    changed = hosting.app("/shop", handler="handlers:two", recycle_messages=10, max_processes=2)
    assert changed.revision != app.revision
    await hosting.services.apps.sync(COMMAND_LINE, [changed])
    await hosting.put("shop/orders", "after the change")
    await hosting.until_empty("shop/orders")
    assert hosting.times_handled() == dict.fromkeys([*bodies, "after the change"], 1)
    assert len({each.pid for each in hosting.begun()}) >= 3

    async def the_new_handler_is_used() -> bool:
        probe = f"probe {len(hosting.begun())}"
        await hosting.put("shop/orders", probe)
        await hosting.until_ended(probe)
        return hosting.ended(probe)[0].handler == "two"

    await hosting.until(the_new_handler_is_used, "the host knows of the change")
    await hosting.until_gone(*{each.pid for each in hosting.begun() if each.handler == "one"})
    await hosting.put("shop/orders", "at last")
    await hosting.until_ended("at last")
    assert hosting.ended("at last")[0].handler == "two"


@ON_ONE_ENGINE
async def test_a_process_that_exceeds_the_drain_limit_is_killed_without_counting_an_attempt(
    hosting: Hosting,
) -> None:
    values = {"max_processes": 1, "drain_timeout": "300ms", "receive_retry_count": 1}
    await hosting.add("/shop", **values)
    await hosting.start()
    [identity] = await hosting.put("shop/orders", "await:open")
    await hosting.until_begun(1)
    await hosting.services.apps.sync(
        COMMAND_LINE, [hosting.app("/shop", handler="handlers:two", **values)]
    )
    await hosting.until_begun(2)
    hosting.touch("open")
    await hosting.until_ended("await:open")
    first, second = hosting.begun()
    assert (first.handler, first.attempt) == ("one", 1)
    assert (second.handler, second.attempt) == ("two", 1), "the host could not wait, that is all"
    assert not is_alive(first.pid)
    assert "killed 0.3 s after it was told to stop" in hosting.logs()
    await hosting.until_empty("shop/orders")

    async def is_forgotten() -> bool:
        return not await hosting.services.queues.history(identity)

    await hosting.until(is_forgotten, "it is done, so nothing is kept")


@ON_ONE_ENGINE
async def test_a_host_that_stops_at_its_drain_limit_gives_back_without_an_attempt(
    hosting: Hosting,
) -> None:
    await hosting.add("/shop", max_processes=1, drain_timeout="300ms")
    host = await hosting.start()
    await hosting.put("shop/orders", "await:never")
    await hosting.until_begun(1)
    assert await hosting.stop(host) == 0
    assert "killed 0.3 s after it was told to stop" in hosting.logs()
    assert not is_alive(hosting.begun()[0].pid)
    # Ready at once, not when a lease has run out.
    [message] = await hosting.store.queue("shop/orders").peek(1)
    assert message.dequeue_count == 0


@ON_ONE_ENGINE
async def test_a_process_is_replaced_while_the_old_one_still_takes_messages(
    hosting: Hosting,
) -> None:
    """Also if no process has to be kept: with `min_processes = 0`, nobody waits for the new one."""
    (hosting.folder / "slow.py").write_text(
        "import time, pathlib, handlers\n"
        "first = not pathlib.Path('loaded').exists()\n"
        "pathlib.Path('loaded').touch()\n"
        "for _ in range(60000):\n"
        "    if first or pathlib.Path('open').exists():\n"
        "        break\n"
        "    time.sleep(0.01)\n"
        "process = handlers.one\n"
    )
    app = hosting.app("/shop", handler="slow:process", min_processes=0, max_processes=1)
    await hosting.services.apps.add(app)
    await hosting.start()
    await hosting.put("shop/orders", "before")
    await hosting.until_ended("before")
    await hosting.services.apps.restart("/shop")
    await hosting.until_status(
        "/shop", lambda status: len(status.processes) == 2, "the new one is being started"
    )
    await hosting.put("shop/orders", "meanwhile")
    await hosting.until_ended("meanwhile")
    hosting.touch("open")
    [old] = {each.pid for each in hosting.begun()}
    await hosting.until_gone(old)
    await hosting.put("shop/orders", "after")
    await hosting.until_ended("after")
    assert len({each.pid for each in hosting.begun()}) == 2


@ON_ONE_ENGINE
async def test_a_handler_that_takes_too_long_has_failed_and_its_process_is_replaced(
    hosting: Hosting,
) -> None:
    await hosting.add(
        "/shop",
        max_processes=1,
        handler_timeout="500ms",
        receive_retry_count=1,
        max_retry_cycles=0,
    )
    await hosting.start()
    [identity] = await hosting.put("shop/orders", "await:never")
    await hosting.until_length("shop/orders;poison", 1)
    first, second = hosting.begun()
    assert first.pid != second.pid
    await hosting.until_gone(first.pid, second.pid)
    errors = [each for each in await hosting.services.queues.history(identity) if each.error]
    assert ["longer than handler_timeout" in each.error for each in errors] == [True, True]
    assert {each.exit_status for each in errors} == {-signal.SIGKILL}
    await hosting.put("shop/orders", "quick")
    await hosting.until_ended("quick")


async def test_a_host_that_is_asked_to_stop_finishes_what_it_began_and_gives_back_the_rest(
    hosting: Hosting,
) -> None:
    await hosting.add("/shop", max_processes=1)
    host = await hosting.start()
    put = await hosting.put("shop/orders", *[f"{number}" for number in range(50)])
    # All of these wait: whichever comes first, the other 32 are not begun.
    put += await hosting.put("shop/orders", *["await:open"] * 33)
    await hosting.until_begun(1, "await:open")
    host.send_signal(signal.SIGTERM)
    queue = hosting.store.queue("shop/orders")

    async def is_given_back() -> bool:
        return len(await queue.peek(32)) == 32

    # The process has prefetched most of them, and would handle them within milliseconds.
    await hosting.until(is_given_back, "the process gives back what it has not begun")
    hosting.touch("open")
    assert await asyncio.to_thread(host.wait, 60 * BUSY) == 0
    assert len(hosting.ended("await:open")) == 1
    left = await queue.peek(32)
    assert len(left) == 32
    assert {message.dequeue_count for message in left} == {0}
    assert not await hosting.services.hosts.live()
    await hosting.start()
    await hosting.until_empty("shop/orders")
    assert Counter(each.id for each in hosting.ended()) == dict.fromkeys(put, 1)


@ON_ONE_ENGINE
async def test_a_closed_terminal_lets_a_host_finish_what_it_began(hosting: Hosting) -> None:
    """The shell sends SIGHUP to every process of the job, so to the zygote as well."""
    await hosting.add("/shop", max_processes=1)
    with default_signals():
        host = await hosting.start()
    await hosting.put("shop/orders", "await:open")
    await hosting.until_begun(1)
    for pid in (*children_of(host.pid), host.pid):
        os.kill(pid, signal.SIGHUP)
    hosting.touch("open")
    assert await asyncio.to_thread(host.wait, 60 * BUSY) == 0
    assert "the zygote has died" not in hosting.logs()
    assert [each.attempt for each in hosting.ended("await:open")] == [1]
    assert await hosting.copies("shop/orders") == 0


@ON_ONE_ENGINE
async def test_a_second_sigterm_ends_the_host_and_all_that_it_started_at_once(
    hosting: Hosting,
) -> None:
    await hosting.add("/shop", max_processes=1, drain_timeout="10m")
    host = await hosting.start()
    await hosting.put("shop/orders", "await:never")
    await hosting.until_begun(1)
    host.send_signal(signal.SIGTERM)
    for _ in range(100):
        await asyncio.sleep(0.6)  # two signals within half a second are one request
        if host.poll() is not None:
            break
        host.send_signal(signal.SIGTERM)
    assert host.poll() == 128 + signal.SIGTERM
    await hosting.until_gone(hosting.begun()[0].pid)


@pytest.mark.timeout(180)
async def test_a_host_that_is_killed_20_times_loses_nothing_and_leaves_no_process_behind(
    hosting: Hosting,
) -> None:
    hosting.settings["host_lease"] = KILLED_LEASE
    await hosting.add("/shop", handler="handlers:alone", max_processes=3, receive_retry_count=100)
    bodies = [f"sleep:{number % 10 / 200}" for number in range(400)]
    identities = await hosting.put("shop/orders", *bodies)
    for _ in range(KILLS):
        host = await hosting.start()
        await asyncio.sleep(random.uniform(0.0, 0.3))
        hosting.kill(host)
        await hosting.until_gone(*{each.pid for each in hosting.begun()})
    await hosting.start()
    await hosting.until_empty("shop/orders")
    assert {each.id for each in hosting.ended()} == set(identities)
    assert not hosting.handled("two owners")


@ON_ONE_ENGINE
async def test_processes_of_a_killed_host_are_not_shown_for_long(hosting: Hosting) -> None:
    await hosting.add("/shop", min_processes=1)
    host = await hosting.start()

    async def summary() -> str:
        return (await hosting.services.apps.state("/shop")).summary

    async def runs() -> bool:
        return await summary() == "1 running"

    async def is_gone() -> bool:
        return await summary() == "no host"

    await hosting.until(runs, "it runs")
    hosting.kill(host)
    await hosting.until(is_gone, "it is not shown any more", seconds=30 * BUSY)
    assert (await hosting.services.apps.state("/shop")).hosts == ()


@ON_ONE_ENGINE
async def test_nothing_that_a_program_started_outlives_the_host(hosting: Hosting) -> None:
    host = await hosting.start()
    pids = await hosting.run_program_with_children()
    hosting.kill(host)
    await hosting.until_gone(*pids)
    assert [pid for pid in pids if is_alive(pid)] == []


@ON_ONE_ENGINE
async def test_a_zygote_that_dies_is_replaced(hosting: Hosting) -> None:
    """The host notices it and tries the message again: no lease has to run out."""
    hosting.settings["host_lease"] = "10m"
    await hosting.add("/shop", max_processes=1)
    host = await hosting.start()
    await hosting.put("shop/orders", "await-first:never")
    await hosting.until_begun(1)
    [zygote] = children_of(host.pid)
    os.kill(zygote, signal.SIGKILL)
    await hosting.until_ended("await-first:never")
    assert [each.attempt for each in hosting.begun()] == [1, 2]
    assert host.poll() is None
    assert await hosting.stop(host) == 0


@ON_ONE_ENGINE
async def test_repeated_crashes_pause_one_application_until_it_is_fixed(
    hosting: Hosting,
) -> None:
    hosting.breaker_pause = 1.0
    module = hosting.folder / "broken.py"
    module.write_text("import os\n\ndef process(message):\n    pass\n")
    await hosting.add("/broken", handler="broken:process")
    await hosting.add("/fine")
    await hosting.start()
    module.write_text("raise RuntimeError('half edited')\n")
    await hosting.put("broken/q", "one", "two")
    await hosting.until_status(
        "/broken", lambda app: app.state == "breaker open" and "half edited" in app.reason, "open"
    )
    summary = (await hosting.services.apps.state("/broken")).summary
    assert re.search(
        r"paused after repeated crashes \(.*half edited.*\); next attempt at \d\d:\d\d:\d\d UTC"
        r"|one message is being tried",
        summary,
    ), summary
    await hosting.put("fine/q", "goes on")
    await hosting.until_ended("goes on")
    [message, _] = await hosting.store.queue("broken/q").peek(2)
    assert message.dequeue_count == 0, "no attempt was wasted"
    module.write_text("import handlers\n\nprocess = handlers.two\n")
    await hosting.until_ended("one", "two")
    await hosting.until_status("/broken", lambda app: "breaker" not in app.state, "closed")


@ON_ONE_ENGINE
async def test_new_code_and_settings_are_rolled_out_while_the_host_runs(hosting: Hosting) -> None:
    module = hosting.folder / "code.py"
    module.write_text("import handlers\n\nprocess = handlers.one\n")
    await hosting.add("/shop", handler="code:process", min_processes=1, max_processes=1)
    await hosting.start()
    await hosting.put("shop/orders", "before")
    await hosting.until_ended("before")

    # Python recognises a stale .pyc by the source's size and its time in whole seconds,
    # so an edit within the same second has to change the size.
    module.write_text("import handlers\n\nprocess = handlers.two  # new code\n")
    await hosting.services.apps.restart("/shop")
    await hosting.until_gone(hosting.ended("before")[0].pid)
    await hosting.put("shop/orders", "new code")
    await hosting.until_ended("new code")
    assert hosting.ended("new code")[0].handler == "two"

    await hosting.services.apps.update("/shop", {"handler": "handlers:in_loop"})
    await hosting.until_gone(hosting.ended("new code")[0].pid)
    await hosting.put("shop/orders", "new settings")
    await hosting.until_ended("new settings")
    assert hosting.ended("new settings")[0].handler == "in_loop"


@ON_ONE_ENGINE
async def test_a_paused_application_finishes_what_it_began_and_its_messages_wait(
    hosting: Hosting,
) -> None:
    await hosting.add("/shop", max_processes=1, min_processes=1)
    await hosting.add("/other")
    await hosting.start()
    await hosting.put("shop/orders", "await:open", "waits")
    await hosting.until_begun(1, "await:open")
    await hosting.services.apps.pause("/shop")
    await hosting.until_status("/shop", lambda app: app.state == "paused", "paused")
    hosting.touch("open")
    await hosting.until_ended("await:open")
    await hosting.until_status("/shop", lambda app: not app.processes, "no process is kept")
    await hosting.put("other", "goes on")
    await hosting.until_ended("goes on")
    [message] = await hosting.store.queue("shop/orders").peek(2)
    assert (message.body, message.dequeue_count) == ("waits", 0)
    assert (await hosting.services.apps.state("/shop")).summary == "paused"

    await hosting.services.apps.resume("/shop")
    await hosting.until_ended("waits")
    await hosting.until_status("/shop", lambda app: app.state == "idle", "it runs again")


@ON_ONE_ENGINE
async def test_a_right_that_is_taken_away_and_granted_again_three_times(
    hosting: Hosting,
) -> None:
    await hosting.add("/shop")
    await hosting.start()
    for number in range(3):
        await hosting.services.access.set_rule("app:/shop", "receive", "/shop", "deny")
        waiting = await put_until_denied(hosting, f"denied {number}")
        await hosting.services.access.set_rule("app:/shop", "receive", "/shop", "allow")
        await hosting.until_ended(waiting)
        await hosting.until_status("/shop", lambda app: not app.reason, "nothing is missing")
        assert hosting.times_handled()[waiting] == 1


async def put_until_denied(hosting: Hosting, body: str) -> str:
    """Put messages until one is not taken any more, for the reason that the state names."""

    async def is_denied() -> bool:
        reasons = [app.reason for app in await hosting.status("/shop")]
        return reasons == ["needs the right receive on shop/orders"]

    for number in range(20):
        latest = f"{body}, {number}"
        await hosting.put("shop/orders", latest)

        async def is_decided(waits_for: str = latest) -> bool:
            return bool(hosting.begun(waits_for)) or await is_denied()

        await hosting.until(is_decided, f"{latest} is taken or not")
        if not hosting.begun(latest):
            return latest
    raise AssertionError("the right is not missed")


# On SQLite, a suspended host may hold the lock on the file.
@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_a_late_result_for_a_lost_lease_is_refused_and_the_message_counts_once(
    hosting: Hosting,
) -> None:
    hosting.settings["host_lease"] = "1s"
    await hosting.add("/shop", max_processes=1)
    slow = await hosting.start()
    await hosting.put("shop/orders", "await-first:open")
    await hosting.until_begun(1)
    slow.send_signal(signal.SIGSTOP)
    await hosting.start()
    await hosting.until(lambda: len(hosting.ended()) == 1, "somebody else has done it")
    await hosting.until_empty("shop/orders")
    hosting.touch("open")
    await hosting.until(lambda: len(hosting.ended()) == 2, "the slow one has ended, too")
    slow.send_signal(signal.SIGCONT)
    await hosting.until(lambda: "its late result is ignored" in hosting.logs(), "refused, logged")
    assert await hosting.copies("shop/orders") == 0
    assert [each.attempt for each in hosting.begun()] == [1, 2]


async def test_work_continues_when_the_store_returns(tmp_path: Path) -> None:
    with running_postgres() as server:
        address = StoreAddress("postgres", server.create_database())
        async with await open_store(address.url) as store:
            hosting = Hosting(address, tmp_path, Services(store))
            try:
                for number in range(2):
                    await survives_an_outage(hosting, server, number)
                assert set(hosting.times_handled()) == {
                    f"{when} {number}"
                    for when in ("before", "await:back", "after")
                    for number in range(2)
                }
            finally:
                hosting.kill_all()


async def survives_an_outage(hosting: Hosting, server: PostgresServer, number: int) -> None:
    if not hosting.processes:
        await hosting.add("/shop", max_processes=2)
        await hosting.start()
    bodies = [f"before {number}", f"await:back {number}", f"after {number}"]
    await hosting.put("shop/orders", *bodies[:2])
    await hosting.until_begun(1, bodies[1])
    await asyncio.to_thread(server.stop, immediate=True)
    hosting.touch(f"back {number}")
    await hosting.until(lambda: bool(hosting.ended(bodies[1])), "done while the store is away")
    await asyncio.to_thread(server.start)
    await hosting.put("shop/orders", bodies[2])
    await hosting.until_ended(*bodies)
    await hosting.until_empty("shop/orders")
    [host] = hosting.processes
    assert host.poll() is None
