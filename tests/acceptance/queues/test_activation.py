"""The host starts what a queue needs and stops what nobody needs."""

import asyncio
import random
from datetime import timedelta
from pathlib import Path

from postroom.hosted import own_apps
from tests.acceptance.hosting import Hosting, is_alive, toml
from tests.contract.conftest import ON_ONE_ENGINE
from tests.services.postroom import CommandLine

ORDERS = "msmqWebHost/orderProcessing/service.svc"


@ON_ONE_ENGINE
async def test_a_queue_goes_to_the_longest_path_and_changes_hands_at_once(
    hosting: Hosting,
) -> None:
    await hosting.add("/msmqWeb", handler="handlers:one", max_processes=1)
    await hosting.add("/msmqWebHost", handler="handlers:two", max_processes=1)
    await hosting.start()

    async def who_gets(body: str) -> str:
        await hosting.put(ORDERS, body)
        await hosting.until_ended(body)
        [handled] = hosting.ended(body)
        return handled.handler

    assert await who_gets("before") == "two"
    await hosting.add("/MSMQwebhost/orderProcessing", handler="handlers:in_loop")
    await hosting.until_known("/msmqWeb", "/msmqWebHost", "/MSMQwebhost/orderProcessing")
    assert await who_gets("better") == "in_loop"
    await hosting.services.apps.remove("/msmqWebHost/orderProcessing")
    await hosting.until_known("/msmqWeb", "/msmqWebHost")
    assert await who_gets("handed back") == "two"
    await hosting.services.apps.remove("/msmqWebHost")
    await hosting.put(ORDERS, "nobody's")
    await hosting.put("other", "also nobody's")
    await hosting.add("/", handler="handlers:alone", max_processes=1)
    await hosting.until_ended("nobody's", "also nobody's")
    assert {each.handler for each in hosting.ended("nobody's")} == {"alone"}
    assert set(hosting.times_handled().values()) == {1}


def test_a_host_does_not_start_with_an_invalid_file(tmp_path: Path) -> None:
    (tmp_path / "postroom.toml").write_text(
        toml(path="/a", command=["true"])
        + toml(path="/b", command=["true"], max_processes=1, min_processes=2)
    )
    line = CommandLine(tmp_path).fails("host")
    assert line == (
        "postroom.toml, line 7: max_processes: must be at least min_processes (2), not 1"
    )


@ON_ONE_ENGINE
async def test_a_queue_without_an_application_keeps_its_messages_and_says_so(
    hosting: Hosting,
) -> None:
    await hosting.start()
    await hosting.put("lonely/queue", "first")

    async def state() -> str:
        overview = await hosting.services.queue_overview.overview()
        return next(each.state for each in overview if each.name == "lonely/queue")

    assert "no application" in await state()
    assert await hosting.copies("lonely/queue") == 1
    await hosting.add("/lonely")
    await hosting.until_ended("first")
    await hosting.until_empty("lonely/queue")
    assert "no application" not in await state()


@ON_ONE_ENGINE
async def test_applications_of_the_file_run_plain_and_async_and_any_program(
    hosting: Hosting,
) -> None:
    program = hosting.folder / "program"
    program.write_text(
        "#!/bin/sh\n"
        "cat > said.part\n"
        'echo " $POSTROOM_ID $POSTROOM_QUEUE $POSTROOM_ATTEMPT $POSTROOM_PROPERTY_COLOUR_OF_IT"'
        " >> said.part\n"
        "mv said.part said\n"
    )
    program.chmod(0o755)
    (hosting.folder / "postroom.toml").write_text(
        toml(path="/shop/plain", handler="handlers:one", concurrency=3)
        + toml(path="/shop/loop", handler="handlers:in_loop", concurrency=10)
        + toml(path="/shop/program", command=["./program"])
    )
    host = await hosting.start()
    await hosting.put("shop/plain", *(f"plain {number}" for number in range(9)))
    await hosting.put("shop/loop", *(f"loop {number}" for number in range(30)))
    identity = await hosting.store.queue("shop/program").put(
        "grüße", properties={"colour of-it": "red"}
    )
    await hosting.until_empty("shop/plain", "shop/loop", "shop/program")
    assert (hosting.folder / "said").read_text() == f"grüße {identity} shop/program 1 red\n"
    assert len(hosting.ended()) == 39
    assert set(hosting.times_handled().values()) == {1}
    assert await hosting.stop(host) == 0
    assert not any(is_alive(pid) for pid in {each.pid for each in hosting.begun()})


@ON_ONE_ENGINE
async def test_a_burst_starts_one_process_if_only_one_is_allowed(hosting: Hosting) -> None:
    await hosting.add("/burst", max_processes=1)
    await hosting.put("burst", *(str(number) for number in range(1000)))
    await hosting.start()
    await hosting.until_empty("burst")
    assert hosting.times_handled() == {str(number): 1 for number in range(1000)}
    assert len({each.pid for each in hosting.begun()}) == 1
    await hosting.until_status("/burst", lambda app: app.starts > 0, "reported")
    [status] = await hosting.status("/burst")
    assert status.starts == 1


async def test_a_burst_starts_as_many_as_are_needed_and_allowed(hosting: Hosting) -> None:
    await hosting.add("/burst", max_processes=4)
    await hosting.start()
    await hosting.put("burst", *["await:open"] * 6)
    await hosting.until(lambda: len(hosting.begun()) == 4, "four work at once")
    await hosting.put("burst", *(f"sleep:{number % 3 / 1000}" for number in range(994)))
    hosting.touch("open")
    await hosting.until_empty("burst")
    handled = hosting.ended()
    assert len(handled) == len({each.id for each in handled}) == 1000
    assert len({each.pid for each in hosting.begun()}) == 4
    await hosting.until_status("/burst", lambda app: app.starts >= 4, "reported")
    [status] = await hosting.status("/burst")
    assert status.starts == 4


async def test_what_arrives_while_a_process_is_about_to_stop_is_always_handled(
    hosting: Hosting,
) -> None:
    for name in "abcd":
        await hosting.add(f"/brief/{name}", idle_timeout="10ms", max_processes=1)
    await hosting.start()

    async def repeat(name: str) -> None:
        for number in range(50):
            body = f"{name}{number}"
            await hosting.put(f"brief/{name}", body)
            await hosting.until_ended(body)
            await asyncio.sleep(random.uniform(0.0, 0.02))

    await asyncio.gather(*map(repeat, "abcd"))
    await hosting.until_empty(*(f"brief/{name}" for name in "abcd"))
    assert hosting.times_handled() == {f"{n}{number}": 1 for n in "abcd" for number in range(50)}
    starts = {each.pid for each in hosting.begun()}
    assert len(starts) > 4, "nobody ever stopped"


@ON_ONE_ENGINE
async def test_a_handler_that_takes_longer_than_the_idle_timeout_is_not_stopped(
    hosting: Hosting,
) -> None:
    hosting.settings["host_lease"] = "3s"
    await hosting.add("/slow", idle_timeout="50ms", receive_retry_count=0, max_retry_cycles=0)
    await hosting.start()
    await hosting.put("slow", "sleep:5")  # also longer than the lease
    await hosting.until_ended("sleep:5")
    await hosting.until_empty("slow")
    assert len(hosting.begun()) == 1
    await hosting.until_status("/slow", lambda app: not app.processes, "stopped when idle")
    assert await hosting.copies("slow") == 0


@ON_ONE_ENGINE
async def test_one_flooded_application_does_not_hold_up_99_others(hosting: Hosting) -> None:
    for number in range(100):
        await hosting.add(f"/app{number:02}", max_processes=2)
    host = await hosting.start()
    await hosting.put("app00", *["await:open"] * 50, *["ok"] * 500)
    await hosting.until(lambda: len(hosting.begun()) >= 2, "the flood has begun")
    await hosting.put("app77", "cold")
    await hosting.until_ended("cold")
    assert not hosting.ended("ok"), "the flood is still going on"
    await hosting.until_status("/app77", lambda app: app.starts == 1, "reported")
    reports = [status for live in await hosting.services.hosts.live() for status in live.apps]
    idle = [status for status in reports if status.path not in ("/app00", "/app77")]
    assert len(idle) == 98 + len(own_apps(timedelta(seconds=1)))
    assert not any(status.processes or status.starts for status in idle)
    hosting.touch("open")
    await hosting.until_empty("app00")
    assert await hosting.stop(host) == 0


async def test_several_hosts_share_the_work(hosting: Hosting) -> None:
    await hosting.add("/shared", max_processes=1)
    hosts = [await hosting.start(), await hosting.start()]
    await hosting.put("shared", *["await:open"] * 2)
    await hosting.until(lambda: len(hosting.begun()) == 2, "each host has one in hand")
    await hosting.put("shared", *["ok"] * 40)
    hosting.touch("open")
    await hosting.until_empty("shared")
    assert len(hosting.ended()) == len({each.id for each in hosting.ended()}) == 42
    assert len({each.pid for each in hosting.begun()}) == 2
    assert [await hosting.stop(host) for host in hosts] == [0, 0]
