"""Attempts, retry cycles, and what becomes of messages that nobody can handle."""

import asyncio
import random
from collections import Counter

import pytest

from postroom.domain.queues.queue_names import SUFFIXES
from postroom.services.events import Severity
from postroom.storage import QueueMessage
from tests.acceptance.hosting import KILLED_LEASE, Hosting
from tests.contract.conftest import ON_ONE_ENGINE
from tests.services.waiting import BUSY

ORDERS = "shop/orders"


async def waiting_in(hosting: Hosting, queue: str) -> list[QueueMessage]:
    return await hosting.store.queue(queue).peek(32)


@pytest.mark.parametrize(
    ("engine", "how"),
    [("sqlite", "fail"), ("sqlite", "exit"), ("sqlite", "kill"), ("postgres", "fail")],
    indirect=["engine"],
)
async def test_attempts_end_after_all_retries_of_all_cycles_however_they_fail(
    hosting: Hosting, how: str
) -> None:
    await hosting.add("/shop", retry_cycle_delay="50ms", max_processes=1)
    await hosting.add(
        "/once", receive_retry_count=0, max_retry_cycles=0, max_processes=1, on_poison="move"
    )
    await hosting.start()
    [identity] = await hosting.put(ORDERS, how)
    await hosting.put("once", how)
    await hosting.until_length(f"{ORDERS};poison", 1)
    await hosting.until_length("once;poison", 1)
    attempts = [each.attempt for each in hosting.begun() if each.queue == ORDERS]
    assert attempts == list(range(1, 19))
    assert len([each for each in hosting.begun() if each.queue == "once"]) == 1
    assert await hosting.copies(ORDERS) == await hosting.copies("once") == 1

    history = [entry for entry in await hosting.services.queues.history(identity) if entry.error]
    assert [(entry.cycle, entry.attempt) for entry in history] == [
        (cycle, attempt) for cycle in range(3) for attempt in range(1, 7)
    ]
    pids = {each.pid for each in hosting.begun() if each.queue == ORDERS}
    assert all(any(str(pid) in entry.process for pid in pids) for entry in history)
    expected = {"fail": None, "exit": 3, "kill": -9}[how]
    assert {entry.exit_status for entry in history} == {expected}
    if how == "fail":
        assert all("ValueError: told to fail" in entry.error for entry in history)
        assert all("handlers.py" in entry.traceback for entry in history)


async def test_attempts_are_counted_across_the_death_of_hosts(hosting: Hosting) -> None:
    hosting.settings["host_lease"] = KILLED_LEASE
    await hosting.add("/shop", receive_retry_count=3, max_retry_cycles=0, max_processes=1)
    await hosting.put(ORDERS, "await:never")
    for attempt in range(1, 5):
        host = await hosting.start()
        await hosting.until_begun(attempt)
        hosting.kill(host)
    await hosting.start()
    await hosting.until_length(f"{ORDERS};poison", 1)
    assert [each.attempt for each in hosting.begun()] == [1, 2, 3, 4]
    [message] = await waiting_in(hosting, f"{ORDERS};poison")
    history = await hosting.services.queues.history(message.id)
    assert len([entry for entry in history if entry.error]) == 4
    assert max(entry.attempt for entry in history) == 4, "not attempt 5 of 4"


@ON_ONE_ENGINE
async def test_messages_come_back_from_retry_each_at_its_time_to_a_stopped_application(
    hosting: Hosting,
) -> None:
    await hosting.add(
        "/shop",
        receive_retry_count=0,
        max_retry_cycles=1,
        retry_cycle_delay="2s",
        idle_timeout="10ms",
    )
    await hosting.start()
    await hosting.put(ORDERS, "fail-first:a")
    await hosting.until_begun(1, "fail-first:a")
    await asyncio.sleep(0.7)
    await hosting.put(ORDERS, "fail-first:b")
    await hosting.until_begun(1, "fail-first:b")
    await hosting.until_status("/shop", lambda app: not app.processes, "stopped")

    await hosting.until_ended("fail-first:a", "fail-first:b")
    for body in ("fail-first:a", "fail-first:b"):
        first, second = hosting.begun(body)
        assert second.attempt == 2
        assert second.at - first.at >= 2.0
    await hosting.until_empty(ORDERS, f"{ORDERS};retry")


@ON_ONE_ENGINE
async def test_each_disposition_does_what_it_says_and_a_fault_stops_one_queue_only(
    hosting: Hosting,
) -> None:
    once = {"receive_retry_count": 0, "max_retry_cycles": 0, "max_processes": 1}
    for disposition in ("move", "reject", "drop", "fault"):
        await hosting.add(f"/{disposition}", on_poison=disposition, **once)
    await hosting.start()
    dropped = (await hosting.put("drop/q", "fail"))[0]
    await hosting.put("move/q", "fail")
    await hosting.put("reject/q", "fail")
    await hosting.store.queue("reject/q").put(
        "fail-until:fixed", properties={"dead_letter_queue": "senders/own"}
    )
    await hosting.put("fault/q", "fail-until:fixed", "next")
    await hosting.put("fault/other", "unharmed")

    await hosting.until_length("move/q;poison", 1)
    await hosting.until_length("reject/q;dead-letter", 1)
    await hosting.until_length("senders/own", 1)
    await hosting.until_empty("drop/q", "reject/q", "move/q", "fault/other")
    assert await hosting.copies("drop/q") == 0
    assert "dropped" in [e.event for e in await hosting.services.queues.history(dropped)]
    await hosting.until_status("/fault", lambda app: "fault/q is faulted" in app.reason, "faulted")
    assert hosting.ended("unharmed")
    await hosting.put("fault/other", "still unharmed")
    await hosting.until_ended("still unharmed")
    assert await hosting.copies("fault/q") == 2 - len(hosting.ended("next"))

    hosting.touch("fixed")
    await hosting.services.queues.clear_fault("fault/q")
    await hosting.until_ended("fail-until:fixed", "next")
    await hosting.until_empty("fault/q")

    assert await hosting.services.queues.redrive("reject/q", source="senders/own") == 1
    await hosting.until_empty("senders/own", "reject/q")
    assert [each.queue for each in hosting.ended("fail-until:fixed")] == ["fault/q", "reject/q"]


@ON_ONE_ENGINE
async def test_a_handler_may_give_up_at_once_or_ask_for_time(hosting: Hosting) -> None:
    """Also on the last attempt of a cycle, where the message waits in `;retry`."""
    await hosting.add("/shop", max_processes=1)
    await hosting.add("/last", receive_retry_count=0, retry_cycle_delay="10ms", max_processes=1)
    await hosting.start()
    await hosting.put(ORDERS, "poison", "later-first:1.5")
    await hosting.put("last", "later-first:1.6")
    await hosting.until_length(f"{ORDERS};poison", 1)
    await hosting.until_ended("later-first:1.5", "later-first:1.6")
    assert len(hosting.begun("poison")) == 1
    for wanted in (1.5, 1.6):
        first, second = hosting.begun(f"later-first:{wanted}")
        assert second.at - first.at >= wanted
        assert second.attempt == 2


@ON_ONE_ENGINE
async def test_what_is_too_old_is_not_delivered(hosting: Hosting) -> None:
    await hosting.add("/shop", max_processes=1)
    await hosting.services.queues.put(ORDERS, "too old", ttl=0.01)
    await hosting.services.queues.put(ORDERS, "not yet", ttl=3600)
    await asyncio.sleep(0.02)
    await hosting.start()
    await hosting.until_length(f"{ORDERS};dead-letter", 1)
    await hosting.until_ended("not yet")
    assert not hosting.begun("too old")


@ON_ONE_ENGINE
async def test_a_time_to_live_ends_in_a_queue_without_an_application(hosting: Hosting) -> None:
    await hosting.add("/shop", max_processes=1)
    await hosting.start()
    await hosting.services.apps.pause("/shop")
    await hosting.services.queues.put("nobody/takes", "too old", ttl=0.5)
    await hosting.services.queues.put(ORDERS, "too old", ttl=0.5)
    await hosting.until_length("nobody/takes;dead-letter", 1, within=20 * BUSY)
    await hosting.until_length(f"{ORDERS};dead-letter", 1, within=20 * BUSY)
    assert not hosting.begun()


@ON_ONE_ENGINE
async def test_a_message_that_is_given_up_leaves_an_event(hosting: Hosting) -> None:
    await hosting.add("/shop", max_processes=1)
    await hosting.start()
    await hosting.put(ORDERS, "poison")
    await hosting.until_length(f"{ORDERS};poison", 1)

    async def texts() -> list[str]:
        events = (await hosting.services.events.slice(least=Severity.WARNING)).events
        return [event.text for event in events if event.subject == f"queue:{ORDERS}"]

    async def is_recorded() -> bool:
        return bool(await texts())

    await hosting.until(is_recorded, "there is an event")
    [text] = await texts()
    assert f"failed for good and was moved to {ORDERS};poison" in text


@ON_ONE_ENGINE
async def test_a_poison_queue_may_have_an_application_and_there_is_no_loop(
    hosting: Hosting,
) -> None:
    once = {"receive_retry_count": 0, "max_retry_cycles": 0, "max_processes": 1}
    await hosting.add("/", handler="handlers:one", **once)
    await hosting.start()
    await hosting.put(ORDERS, "fail")
    await hosting.until_length(f"{ORDERS};poison", 1)
    await hosting.add(f"/{ORDERS};poison", handler="handlers:two", **once)
    await hosting.until_length(f"{ORDERS};dead-letter", 1)
    assert [(each.handler, each.queue) for each in hosting.begun()] == [
        ("one", ORDERS),
        ("two", f"{ORDERS};poison"),
    ]
    assert await hosting.copies(ORDERS) == 1


@ON_ONE_ENGINE
async def test_redriven_messages_start_over_and_keep_their_history(hosting: Hosting) -> None:
    await hosting.add(
        "/shop", receive_retry_count=1, max_retry_cycles=0, max_processes=1, on_poison="move"
    )
    await hosting.start()
    bodies = [f"fail-until:{name}" for name in "abcd"]
    await hosting.put(ORDERS, *bodies)
    await hosting.until_length(f"{ORDERS};poison", 4)
    poisoned = {m.body: m.id for m in await waiting_in(hosting, f"{ORDERS};poison")}

    one = poisoned["fail-until:a"]
    assert await hosting.services.queues.redrive(ORDERS, id=one) == 1
    await hosting.until_length(f"{ORDERS};poison", 4)  # it failed again
    await hosting.until_begun(4, bodies[0])
    assert [each.attempt for each in hosting.begun(bodies[0])] == [1, 2, 1, 2]
    history = await hosting.services.queues.history(one)
    assert len([entry for entry in history if entry.error]) == 4
    await hosting.until_length(f"{ORDERS};poison", 4)

    for name in "abcd":
        hosting.touch(name)
    assert await hosting.services.queues.redrive(ORDERS, rate=50) == 4
    await hosting.until_ended(*bodies)
    await hosting.until_empty(ORDERS, f"{ORDERS};poison")
    assert {each.attempt for each in hosting.ended()} == {1}
    assert {each.id for each in hosting.ended()} == set(poisoned.values())


async def test_a_host_killed_in_the_middle_of_moves_leaves_one_copy_of_each(
    hosting: Hosting,
) -> None:
    await hosting.add(
        "/shop",
        receive_retry_count=1,
        max_retry_cycles=1,
        retry_cycle_delay="10ms",
        max_processes=2,
    )
    hosting.settings["host_lease"] = KILLED_LEASE
    count = 60
    await hosting.put(ORDERS, *["fail"] * count)
    for _ in range(5):
        host = await hosting.start()
        await hosting.until_begun(len(hosting.begun()) + random.randint(1, 20))
        hosting.kill(host)
        assert await hosting.copies(ORDERS) == count
    await hosting.start()
    await hosting.until_length(f"{ORDERS};poison", count)
    assert await hosting.copies(ORDERS) == count
    lengths = await hosting.lengths([ORDERS, *(ORDERS + suffix for suffix in SUFFIXES)])
    assert lengths == [0, 0, count, 0]
    attempts = Counter(each.id for each in hosting.begun())
    assert max(attempts.values()) <= 4
