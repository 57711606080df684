"""The host on Azure Storage (Azurite), small: an emulator is slow, what must hold is the same."""

import pytest

from tests.acceptance.hosting import Hosting

ORDERS = "shop/orders"
POISON = f"{ORDERS};poison"


@pytest.fixture
def engine() -> str:
    return "azure"


async def test_a_message_starts_a_process_fails_to_the_end_and_is_redriven(
    hosting: Hosting,
) -> None:
    """Nothing runs; a good and a bad message arrive; the bad one comes back once it is fixed."""
    hosting.settings["host_lease"] = "60s"  # a busy machine must not lose one
    await hosting.add(
        "/shop",
        receive_retry_count=1,
        max_retry_cycles=1,
        retry_cycle_delay="1s",
        max_processes=1,
        idle_timeout="100ms",
    )
    host = await hosting.start()
    assert not any(status.starts for status in await hosting.status("/shop"))

    bad = "fail-until:fixed"
    _, identity = await hosting.put(ORDERS, "good", bad)
    await hosting.until_ended("good")
    await hosting.until_length(POISON, 1)
    assert [each.attempt for each in hosting.begun(bad)] == [1, 2, 3, 4]
    history = await hosting.services.queues.history(identity)
    assert [(each.cycle, each.attempt) for each in history if each.error] == [
        (0, 1),
        (0, 2),
        (1, 1),
        (1, 2),
    ]
    assert all("told to fail" in each.error for each in history if each.error)
    assert history[-1].event == f"moved to {POISON}"
    await hosting.until_status("/shop", lambda app: not app.processes, "stopped when idle")

    hosting.touch("fixed")
    assert await hosting.services.queues.redrive(ORDERS) == 1
    await hosting.until_ended(bad)
    [handled] = hosting.ended(bad)
    assert (handled.attempt, handled.id) == (1, identity)
    await hosting.until_empty(ORDERS, POISON)
    assert await hosting.copies(ORDERS) == 0

    async def is_forgotten() -> bool:
        return not await hosting.services.queues.history(identity)

    await hosting.until(is_forgotten, "it is done, so nothing is kept")
    assert await hosting.stop(host) == 0


async def test_messages_of_a_killed_host_are_handled_by_the_next_one(
    hosting: Hosting,
) -> None:
    hosting.settings["host_lease"] = "3s"
    await hosting.add("/shop", max_processes=1)
    first = await hosting.start()
    await hosting.put(ORDERS, "await-first:never")
    await hosting.until_begun(1)
    hosting.kill(first)
    await hosting.until_gone(hosting.begun()[0].pid)

    await hosting.start()
    await hosting.until_ended("await-first:never")
    assert [each.attempt > 1 for each in hosting.begun()] == [False, True]
    await hosting.until_empty(ORDERS)
