"""Handlers and programs that do what they should not: the host answers for each, and goes on."""

import os
import pwd
import re
import signal
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from tests.acceptance.hosting import SECRET_KEY, Hosting, children_of
from tests.services.waiting import BUSY

ONCE = {"receive_retry_count": 0, "max_retry_cycles": 0, "max_processes": 1}


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    """What handlers do has nothing to do with the engine."""
    return str(request.param)


async def errors_of(hosting: Hosting, queue: str, *bodies: str) -> list[str]:
    """Put messages, and return how each of them has failed for good."""
    identities = await hosting.put(queue, *bodies)
    await hosting.until_length(f"{queue};poison", len(bodies))
    histories = [await hosting.services.queues.history(each) for each in identities]
    return [entry.error for history in histories for entry in history if entry.error]


async def test_an_error_that_cannot_be_encoded_is_a_failed_attempt(hosting: Hosting) -> None:
    await hosting.add("/text", handler="handlers:wrong_text", **ONCE)
    await hosting.start()
    [error] = await errors_of(hosting, "text", r'"Bob \ud83d"')
    assert error == r"ValueError: bad name Bob \ud83d"


async def test_a_process_that_cannot_answer_dies_and_its_message_is_counted(
    hosting: Hosting,
) -> None:
    await hosting.add("/mute", handler="handlers:cannot_answer", **ONCE)
    await hosting.start()
    [error] = await errors_of(hosting, "mute", "a")
    assert error == "the process ended: exit status 70"
    await hosting.until_gone(hosting.begun()[0].pid)


async def test_handlers_of_a_wrong_kind_fail_the_message_and_not_the_process(
    hosting: Hosting,
) -> None:
    await hosting.add("/signature", handler="handlers:wrong_signature", **ONCE)
    await hosting.add("/plain", handler="handlers:makes_generator", **ONCE)
    await hosting.add("/async", handler="handlers:makes_async_generator", **ONCE)
    await hosting.start()
    [wrong] = await errors_of(hosting, "signature", "a")
    assert "takes 0 positional arguments but 1 was given" in wrong
    for queue in ("plain", "async"):
        [error] = await errors_of(hosting, queue, "a")
        assert "returned a generator, which has not run" in error
    for path in ("/signature", "/plain", "/async"):
        await hosting.until_status(
            path, lambda app: sum(each.handled for each in app.processes) == 1, "it has failed one"
        )
        [status] = await hosting.status(path)
        assert status.crashes == 0


async def test_a_generator_is_refused_when_it_is_loaded_and_takes_no_message(
    hosting: Hosting,
) -> None:
    await hosting.add("/yields", handler="handlers:yields", **ONCE)
    await hosting.start()
    await hosting.put("yields", "a")
    await hosting.until_status(
        "/yields", lambda app: "is a generator function" in app.reason, "the breaker says why"
    )
    [message] = await hosting.store.queue("yields").peek(1)
    assert message.dequeue_count == 0, "it is not lost, and no attempt is wasted"


async def test_a_process_without_a_connection_is_ended_and_its_message_counted(
    hosting: Hosting,
) -> None:
    hosting.settings["host_lease"] = "10m"  # so that no lease runs out meanwhile
    await hosting.add("/closes", handler="handlers:closes_everything", **ONCE)
    await hosting.start()
    [error] = await errors_of(hosting, "closes", "a")
    # It notices and ends itself, or else the host ends it.
    assert error in (
        "the process ended: exit status 70",
        "the process ended: it lost its connection to the host",
    )
    await hosting.until_gone(hosting.begun()[0].pid)


async def test_a_message_that_crashes_its_process_does_not_hold_up_the_others(
    hosting: Hosting,
) -> None:
    hosting.breaker_pause = 600.0
    await hosting.add("/shop", max_processes=1, receive_retry_count=5, max_retry_cycles=0)
    await hosting.start()
    await hosting.put("shop/orders", "kill", *map(str, range(50)))
    await hosting.until_length("shop/orders;poison", 1)
    await hosting.until_ended(*map(str, range(50)))
    assert [each.attempt for each in hosting.begun("kill")] == [1, 2, 3, 4, 5, 6]
    alone = {each.pid for each in hosting.begun("kill")[1:]}
    assert len(alone) == 5
    assert not alone & {each.pid for each in hosting.begun() if each.body != "kill"}
    assert {each.attempt for each in hosting.ended()} == {1}, "nobody else was harmed"


async def test_what_handlers_print_has_their_name_and_a_limit(hosting: Hosting) -> None:
    program = hosting.folder / "program"
    program.write_text("#!/bin/sh\necho to output; echo to error >&2\n")
    program.chmod(0o755)
    await hosting.add("/prints", handler="handlers:prints", max_processes=1)
    await hosting.add("/runs", command=["./program"], max_processes=1)
    await hosting.start()
    await hosting.put("prints", "20000")
    await hosting.until_ended("20000")
    await hosting.put("runs", "a")
    await hosting.until_empty("runs", "prints")
    await hosting.until(
        lambda: "to error" in hosting.logs() and "and not logged" in hosting.logs(), "logged"
    )
    lines = hosting.logs().splitlines()
    for text, app in (("to output", "/runs"), ("to error", "/runs"), ("xxx", "/prints")):
        assert all(f"app={app}" in line for line in lines if text in line)
    assert sum(line.count("x") for line in lines) < 3 * 64 * 1024
    [note] = [line for line in lines if "and not logged" in line]
    found = re.search(r"([\d,]+) more bytes were printed", note)
    assert found is not None
    assert int(found[1].replace(",", "")) > 19_000_000


async def test_handlers_and_programs_see_no_settings_of_postroom(hosting: Hosting) -> None:
    hosting.settings["secret_key"] = SECRET_KEY
    program = hosting.folder / "program"
    program.write_text("#!/bin/sh\nenv > program-environ.part; mv program-environ.part env\n")
    program.chmod(0o755)
    own = {"SHOP_KEY": "its own"}
    await hosting.add("/handler", handler="handlers:shows_environment", environment=own)
    await hosting.add("/program", command=["./program"], environment=own)
    os.environ["OTHER_SECRET"] = "of somebody else"
    try:
        await hosting.start()
    finally:
        del os.environ["OTHER_SECRET"]
    await hosting.put("handler", "a")
    await hosting.put("program", "a")
    await hosting.until_empty("handler", "program")
    [shown] = hosting.ended("a")
    seen = shown.properties
    assert seen["SHOP_KEY"] == "its own"
    assert "PATH" in seen
    assert not [name for name in seen if name.startswith("POSTROOM_") or name == "OTHER_SECRET"]
    started_with = (hosting.folder / "environ").read_bytes()
    assert b"POSTROOM_" not in started_with
    assert b"OTHER_SECRET" not in started_with
    names = {line.partition("=")[0] for line in (hosting.folder / "env").read_text().splitlines()}
    given = {name for name in names if name.startswith("POSTROOM_")}
    assert given == {
        "POSTROOM_ID",
        "POSTROOM_QUEUE",
        "POSTROOM_ATTEMPT",
        "POSTROOM_ENQUEUED_AT",
    }
    assert "SHOP_KEY" in names


async def test_limits_on_memory_time_and_files_hold_for_each_process(hosting: Hosting) -> None:
    await hosting.add(
        "/greedy",
        handler="handlers:greedy",
        memory_limit="200MB",
        cpu_limit="1s",
        open_files=64,
        **ONCE,
    )
    await hosting.start()
    memory, files, cpu = await errors_of(hosting, "greedy", "memory", "files", "cpu")
    assert "MemoryError" in memory
    assert "Too many open files" in files
    assert "more CPU time than cpu_limit allows" in cpu
    await hosting.put("greedy", "modest")
    await hosting.until_ended("modest")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_an_application_may_run_as_another_user(hosting: Hosting) -> None:
    nobody = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)  # noqa: S103 - nobody must be able to write here
        said = Path(name) / "said"
        script = f"echo $$ $(id -u) $HOME > {said}.part; mv {said}.part {said}; sleep 600"
        app = hosting.app("/nobody", command=["/bin/sh", "-c", script], user="nobody")
        await hosting.services.apps.add(msgspec.structs.replace(app, folder=name))
        host = await hosting.start()
        await hosting.put("nobody", "a")
        await hosting.until(said.exists, "it has said who it is")
        pid, *who = said.read_text().split()
        assert who == [str(nobody.pw_uid), nobody.pw_dir]
        hosting.kill(host)
        await hosting.until_gone(int(pid))


async def test_nothing_that_a_program_started_outlives_the_zygote(hosting: Hosting) -> None:
    host = await hosting.start()
    pids = await hosting.run_program_with_children()
    [zygote] = children_of(host.pid)
    os.kill(zygote, signal.SIGKILL)
    await hosting.until_gone(*pids)
    await hosting.until_empty("shop/orders")
    assert await hosting.stop(host) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux")
async def test_a_launch_without_descriptors_leaves_no_process_and_recovers(
    hosting: Hosting,
) -> None:
    import resource

    await hosting.add("/shop", max_processes=1)
    host = await hosting.start()
    _, hard = resource.prlimit(host.pid, resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir(f"/proc/{host.pid}/fd"))) + 1
    resource.prlimit(host.pid, resource.RLIMIT_NOFILE, (used, hard))
    await hosting.put("shop/orders", "a")
    await hosting.until(lambda: "Too many open files" in hosting.logs(), "no process is started")
    await hosting.until_status("/shop", lambda app: not app.processes, "no process is counted")
    resource.prlimit(host.pid, resource.RLIMIT_NOFILE, (hard, hard))
    await hosting.until_ended("a", within=20 * BUSY)
    resource.prlimit(host.pid, resource.RLIMIT_NOFILE, (used, hard))
    assert await hosting.stop(host) == 0
