"""How processes end that a terminal, or a limit of the system, takes down."""

import fcntl
import os
import pty
import resource
import subprocess
import termios
from pathlib import Path

import pytest

from postroom.wiring import Services
from tests.acceptance.harness import POSTROOM, Postroom, SumChecker, address_of, fill, schedule
from tests.contract.conftest import ON_ONE_ENGINE
from tests.services.mail.recording_smtp import RecordingSmtp, Rule
from tests.services.process import default_signals
from tests.services.waiting import BUSY

COUNT = 1_000


@pytest.mark.timeout(90)
@ON_ONE_ENGINE
async def test_a_closed_terminal_loses_and_duplicates_nothing(
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

    with default_signals():
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
    assert sender.wait(60 * BUSY) == 0
    postroom.start("sender")
    _, counts = await checker.until_done(30)
    assert server.copies() == {address_of(number): 1 for number in range(COUNT)}
    assert counts.possible_duplicates == 0


@pytest.mark.parametrize(
    ("kind", "limit", "sentence"),
    [
        (resource.RLIMIT_AS, 150_000_000, "not enough memory: raise the limit (ulimit -v"),
        (resource.RLIMIT_NOFILE, 8, "not enough open files: raise the limit (ulimit -n"),
        (resource.RLIMIT_NOFILE, 24, "not enough open files: raise the limit (ulimit -n"),
    ],
)
def test_a_limit_that_is_too_low_is_reported_in_one_sentence(
    tmp_path: Path, kind: int, limit: int, sentence: str
) -> None:
    done = subprocess.run(
        [POSTROOM, "up", "--port", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60 * BUSY,
        preexec_fn=lambda: resource.setrlimit(kind, (limit, limit)),
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"postroom: {sentence}")
    assert len(done.stderr.splitlines()) == 1
