"""How processes end that a terminal, or too little memory, takes down."""

import fcntl
import os
import pty
import resource
import signal
import subprocess
import termios
from pathlib import Path

import pytest

from postroom.wiring import Services
from tests.acceptance.harness import POSTROOM, Postroom, SumChecker, address_of, fill, schedule
from tests.services.recording_smtp import RecordingSmtp, Rule

COUNT = 1_000


@pytest.mark.timeout(90)
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_closed_terminal_loses_nothing_and_doubles_nothing(
    postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    server.script(Rule("end", wait=0.005))
    await fill(services, COUNT)
    message = await schedule(services)
    checker = SumChecker(services, message)
    postroom.start("scheduler")
    master, slave = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    sender = subprocess.Popen(  # noqa: ASYNC220
        [POSTROOM, "sender"],
        cwd=postroom.folder,
        env={**os.environ, **postroom.environment()},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=take_terminal,
    )
    postroom.processes.append(sender)
    os.close(slave)
    await checker.until(lambda _, counts: counts.done >= 200, seconds=30, why="no progress")
    os.close(master)
    assert sender.wait(20) == 0
    postroom.start("sender")
    _, counts = await checker.until_done(30)
    assert server.copies() == {address_of(number): 1 for number in range(COUNT)}
    assert counts.possible_duplicates == 0


def test_too_little_memory_is_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [POSTROOM, "up", "--port", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (150_000_000, 150_000_000)),
    )
    assert done.returncode in (1, -signal.SIGKILL)
    assert done.stderr.startswith("postroom: not enough memory: raise the limit")
    assert len(done.stderr.splitlines()) == 1
