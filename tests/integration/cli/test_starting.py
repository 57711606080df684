"""The parts as they are started: a mistake is one line before anything is announced."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from postroom.cli.main import PARTS
from postroom.folders import FolderError, make_private, make_writable
from tests.services.postroom import CommandLine
from tests.services.process import default_signals
from tests.services.waiting import accepts_connections, free_ports, wait_until


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, {"POSTROOM_PORT": str(free_ports(1)[0])})


@pytest.mark.parametrize("part", ["up", "host"])
@pytest.mark.parametrize(
    ("apps", "error"),
    [
        (
            '[[apps]]\npath="/a"\ncommand=["true"]\n[[apps]]\npath="/A"\ncommand=["true"]\n',
            "line 5",
        ),
        (
            '[[apps]]\npath="/a"\ncommand=["true"]\non_poison="burn"\n',
            "line 4: on_poison: must be",
        ),
        ('[[apps]]\npath="/a"\nhandler="nomod:fn"\n', "line 3: handler: 'nomod:fn' cannot be"),
        ('[[apps]]\npath="/mail/send"\ncommand=["true"]\n', "'/mail/send' already exists"),
    ],
    ids=["same-path", "disposition", "handler", "taken"],
)
def test_a_mistake_in_the_applications_is_one_line(
    part: str, apps: str, error: str, cli: CommandLine
) -> None:
    (cli.folder / "postroom.toml").write_text(apps)
    assert error in cli.fails(part)


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_data_folder_that_is_a_file_is_one_line(part: str, cli: CommandLine) -> None:
    (cli.folder / "occupied").write_text("a file, no folder")
    assert cli.fails(part, "--data", "occupied") == (
        "the data folder occupied cannot be written: a file is in its place"
    )


def test_an_error_of_parts_that_run_side_by_side_is_one_line(cli: CommandLine) -> None:
    (cli.folder / "data").mkdir()
    (cli.folder / "data" / "journals").write_text("a file, no folder")
    assert cli.fails("sender", "--data", "data") == (
        "the folder data/journals cannot be written: a file is in its place"
    )


def test_a_folder_without_write_permission_is_reported() -> None:
    """Root may write everywhere, so the process that tries gives up its rights first."""
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from postroom.folders import FolderError, make_writable\n"
        "if os.getuid() == 0: os.setgid(65534), os.setuid(65534)\n"
        "try: make_writable(Path(sys.argv[1]), 'the data folder')\n"
        "except FolderError as error: print(error)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        command = [sys.executable, "-c", program, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        Path(folder).chmod(0o755)
    assert done.stdout == (
        f"the data folder {folder} cannot be written: check its permissions and the disk\n"
    ), done.stderr


def test_a_read_only_file_system_is_reported() -> None:
    with pytest.raises(FolderError, match="the data folder /proc/mails cannot be written: "):
        make_writable(Path("/proc/mails"), "the data folder")


def test_folders_that_are_created_are_for_their_owner_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private(tmp_path / "a" / "b")
    modes = [stat.S_IMODE((tmp_path / each).stat().st_mode) for each in (".", "a", "a/b")]
    assert modes == [0o755, 0o700, 0o700]


def test_the_data_folder_is_for_its_owner_alone(cli: CommandLine) -> None:
    cli.ok("list", "ls")
    assert stat.S_IMODE((cli.folder / "postroom-data").stat().st_mode) == 0o700


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_stopped_during_its_start_ends_normally(
    number: signal.Signals, cli: CommandLine
) -> None:
    """As soon as the interpreter runs our code, long before a part is up."""
    starting = cli.start("up")
    try:
        caught = Path(f"/proc/{starting.pid}/status")
        wait_until(
            lambda: _catches(caught.read_text(), signal.SIGTERM),
            seconds=60,
            what="a handler of signals",
        )
        starting.send_signal(number)
        assert starting.wait(60) == 0
    finally:
        starting.kill()
        starting.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["Ctrl-C", "closed"])
def test_what_a_terminal_sends_while_the_host_comes_up_is_not_an_error(
    tmp_path: Path, number: signal.Signals
) -> None:
    """It reaches every process of the terminal, also one that is still loading its modules."""
    postroom = Path(sys.executable).with_name("postroom")
    with default_signals():
        process = subprocess.Popen(
            [postroom, "up", "--port", str(free_ports(1)[0])],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: bool(children.read_text()), seconds=60, what="a child")
        os.killpg(process.pid, number)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, b"Traceback" in output) == (0, False), output


@pytest.mark.parametrize("blocking", [False, True], ids=["waiting", "blocking the event loop"])
def test_a_second_signal_ends_a_command_that_does_not_stop(blocking: bool) -> None:
    program = (
        "import asyncio, time\n"
        "from postroom.cli.support import running\n"
        "async def work(stopping):\n"
        "    print('started', flush=True)\n"
        "    await stopping.wait()\n"
        "    print('stopping', flush=True)\n"
        f"    {'time.sleep(60)' if blocking else 'await asyncio.sleep(60)'}\n"
        "with asyncio.Runner(loop_factory=running.quick_loop) as runner:\n"
        "    runner.run(running._until_stopped(work))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)  # the same request, forwarded by a wrapper
        assert process.stdout.readline() == "stopping\n"
        assert process.poll() is None
        time.sleep(0.6)  # the least time between two requests, which the kernel cannot shorten
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 128 + signal.SIGINT
        assert process.stderr is not None
        assert "Stopped immediately" in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def test_a_command_under_nohup_outlives_its_terminal() -> None:
    program = (
        "import asyncio\n"
        "from postroom.cli.support import running\n"
        "async def work(stopping):\n"
        "    print('started', flush=True)\n"
        "    await stopping.wait()\n"
        "asyncio.run(running._until_stopped(work))\n"
    )
    process = subprocess.Popen(
        ["nohup", sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert not _catches(status, signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def _catches(status: str, number: int) -> bool:
    [line] = [each for each in status.splitlines() if each.startswith("SigCgt:")]
    return bool(int(line.split()[1], 16) & 1 << (number - 1))


def test_only_known_errors_are_one_line(tmp_path: Path) -> None:
    def ended(raising: str) -> subprocess.CompletedProcess[str]:
        look = (
            "import sys, postroom.cli.main as m\n"
            "from postroom.errors import PostroomError\n"
            f"def fail(**_): raise {raising}\n"
            "m.postroom = fail\n"
            "sys.argv = ['postroom']\n"
            "m.main()\n"
        )
        command = [sys.executable, "-c", look]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    inner = "ExceptionGroup('i', [PostroomError('first\\nline')])"
    ours = ended(f"ExceptionGroup('o', [{inner}, PostroomError('second')])")
    assert (ours.returncode, ours.stderr) == (1, "postroom: first line\n")
    theirs = ended("ExceptionGroup('o', [PostroomError('first'), KeyError('x')])")
    assert "Traceback" in theirs.stderr
    for raising in ("OSError(24, 'x')", "ExceptionGroup('o', [OSError(24, 'x')])"):
        shortage = ended(raising)
        assert shortage.returncode == 1
        assert shortage.stderr.startswith("postroom: not enough open files: raise the limit")
        assert len(shortage.stderr.splitlines()) == 1


@pytest.mark.parametrize(("log_format", "is_printed"), [("console", True), ("json", False)])
@pytest.mark.parametrize("part", ["up", "web"])
def test_the_link_for_the_first_administrator_is_never_in_a_log_for_programs(
    part: str, log_format: str, is_printed: bool, tmp_path: Path
) -> None:
    port = free_ports(1)[0]
    environment = {"POSTROOM_LOG_FORMAT": log_format, "POSTROOM_PORT": str(port)}
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("postroom"), part],
            cwd=tmp_path,
            env={**os.environ, **environment},
            stdout=file,
            stderr=file,
        )
    try:
        wait_until(lambda: accepts_connections(port), seconds=60, what="the pages")
        wait_until(
            lambda: "/setup?token=" in output.read_text() or "user add" in output.read_text(),
            seconds=60,
            what="the first step",
        )
    finally:
        process.terminate()
        assert process.wait(60) == 0
    assert ("token" in output.read_text()) is is_printed
    assert ("postroom user add" in output.read_text()) is not is_printed
