"""A service's process: started, stopped for certain, and never outliving the test run."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from tests.services.waiting import wait_until

START_SECONDS = 120.0
STOP_SECONDS = 30.0

# The kernel kills our services when the *thread* that started them ends, not the process. A test
# may restart a service from a short-lived worker thread; this one lives as long as the test run.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="service-starter")


@dataclass(slots=True)
class ServiceProcess:
    """A program in its own process group, which can be started and stopped again and again.

    `is_ready` is called until it returns True; what the program prints goes to `log`.
    """

    name: str
    command: Sequence[str]
    folder: Path
    is_ready: Callable[[], bool]
    user: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "service.log"

    @property
    def pid(self) -> int:
        """Return the id of the running process."""
        if self._process is None:
            raise RuntimeError(f"{self.name} does not run")
        return self._process.pid

    def start(self) -> None:
        """Start the program and return when it answers; raise with its log when it does not."""
        if self._process is not None:
            raise RuntimeError(f"{self.name} runs already")
        self._process = _starter.submit(self._launch).result()
        try:
            wait_until(self._answers_or_ended, seconds=START_SECONDS, what=f"{self.name} answers")
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with status {self._process.returncode}")
        except (RuntimeError, TimeoutError) as error:
            error.add_note(self.log.read_text(errors="replace")[-4000:])
            self.stop(signal.SIGKILL)
            raise

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop the program: asked with the signal `how`, then forced. Harmless when stopped."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_SECONDS)

    def _answers_or_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None or self.is_ready()

    def _launch(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*_dying_with_its_parent(), *self.command],
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **as_user(self.user),
            )


def _dying_with_its_parent() -> list[str]:
    """Return a prefix by which a test run that is killed takes its services with it (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


class RunAs(TypedDict, total=False):
    """The arguments of `subprocess` that say whose process it is."""

    user: int
    group: int
    extra_groups: list[int]


def as_user(name: str | None) -> RunAs:
    """Return the arguments that make `subprocess` run a program as the user `name`."""
    if name is None:
        return {}
    account = pwd.getpwnam(name)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def unprivileged(name: str) -> str | None:
    """Return `name` when we are root, whom many servers refuse to run as; otherwise ourselves."""
    return name if os.geteuid() == 0 else None


@contextmanager
def folder_for(name: str, user: str | None) -> Iterator[Path]:
    """Make a temporary folder that `user` owns, and remove it.

    Not pytest's: the folders above that are closed to other users.
    """
    prefix = f"postroom-{name}-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as made:
        if user is not None:
            shutil.chown(made, user)
        yield Path(made)


@contextmanager
def default_signals() -> Iterator[None]:
    """Start processes that follow SIGHUP and SIGINT, also if the test run itself ignores them.

    `nohup` makes it ignore SIGHUP, and a script that runs it in the background SIGINT.
    """
    before = {each: signal.signal(each, signal.SIG_DFL) for each in (signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
