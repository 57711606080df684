"""Programs as handlers: real ones, as small as they can be."""

import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from postroom.host import Delivery
from postroom.host.worker.commands import LONGEST_REASON, CommandFailed, run, variables

NOW = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)


def message(body: str = "body", **properties: str) -> Delivery:
    return Delivery(body, "7", "shop/orders", 2, NOW, properties)


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def why(*command: str, body: str = "body") -> str:
    with pytest.raises(CommandFailed) as raised:
        await run(message(body), command)
    return str(raised.value)


def test_a_program_finds_everything_in_its_environment() -> None:
    found = variables(message(**{"Colour of it": "red", "nul": "a\0b"}))
    assert found == {
        "POSTROOM_ID": "7",
        "POSTROOM_QUEUE": "shop/orders",
        "POSTROOM_ATTEMPT": "2",
        "POSTROOM_ENQUEUED_AT": "2026-11-15T10:00:00+00:00",
        "POSTROOM_PROPERTY_COLOUR_OF_IT": "red",
    }


async def test_exit_0_accepts_whether_the_input_is_read_or_not(tmp_path: Path) -> None:
    read, unread, body = tmp_path / "read", tmp_path / "unread", "x" * 48_000
    await run(message(body), ["sh", "-c", f"cat > {read}"])
    assert read.read_text() == body
    await run(message(body), ["touch", str(unread)])
    assert unread.exists()


async def test_other_endings_fail_with_what_the_program_said_last() -> None:
    assert await why("sh", "-c", "echo no such order >&2; exit 3") == (
        "exit status 3: no such order"
    )
    assert await why("sh", "-c", "kill -9 $$") == "killed by SIGKILL"
    long = await why("sh", "-c", "yes wrong | head -c 100000 >&2; echo the end >&2; exit 1")
    assert long.endswith("the end")
    assert len(long) <= LONGEST_REASON + 20


async def test_a_missing_program_fails_in_one_line() -> None:
    assert await why("./no-such-program") == (
        "./no-such-program cannot be started: No such file or directory"
    )


async def test_a_result_does_not_wait_for_what_a_program_leaves_running(tmp_path: Path) -> None:
    await run(message(), ["sh", "-c", f"sleep 600 & echo $! > {tmp_path / 'pid'}; exit 0"])
    left = int((tmp_path / "pid").read_text())
    assert runs(left)
    os.kill(left, signal.SIGKILL)


async def test_no_shell_sees_arguments_or_messages(tmp_path: Path) -> None:
    trap = tmp_path / "made"
    for hostile in (f"$(touch {trap})", f"; touch {trap}", f"`touch {trap}`", f"| touch {trap}"):
        await run(message(hostile, note=hostile), ["true", hostile])
        assert "cannot be started" in await why(f"true {hostile}", body=hostile)
    assert not trap.exists()
