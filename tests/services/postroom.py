"""Postroom as a user starts it: a process, its output and its exit status."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

PROGRAM = Path(sys.executable).with_name("postroom")
_FORKING = Path(__file__).with_name("forking_commands.py")
_SECONDS = 180.0  # that a command may take

# A process counts as its own what its parent had when it was started. So a small one starts it.
_MEASURE = """
import os, resource, sys
child = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(child)
"""


class ForkingCommands:
    """A process that runs one command after the other, each as a separate process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", _FORKING],
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # so that `select` sees all that has not been read
        )

    def run(
        self, arguments: tuple[str, ...], folder: Path, environment: dict[str, str], stdin: bytes
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory(prefix="postroom-command-") as made:
            files = {name: Path(made) / name for name in ("in", "out", "err")}
            for file in files.values():
                file.write_bytes(stdin if file.name == "in" else b"")
            request = {"arguments": arguments, "folder": str(folder), "environment": environment}
            names = {name: str(file) for name, file in files.items()}
            self._write(json.dumps({**request, **names}))
            child = int(self._reply())
            status = int(self._reply(child))
            printed, errors = files["out"].read_bytes(), files["err"].read_bytes()
        return subprocess.CompletedProcess(
            [PROGRAM, *arguments], status, printed.decode(), errors.decode()
        )

    def _write(self, line: str) -> None:
        requests: IO[bytes] | None = self._process.stdin
        assert requests is not None
        requests.write(line.encode() + b"\n")

    def _reply(self, child: int = 0) -> bytes:
        """Wait for a line; a command that takes too long is killed."""
        replies: IO[bytes] | None = self._process.stdout
        assert replies is not None
        ready, _, _ = select.select([replies], [], [], _SECONDS)
        if ready:
            return replies.readline()
        if child:
            os.kill(child, signal.SIGKILL)
            replies.readline()
        raise TimeoutError(f"a command takes longer than {_SECONDS:g} s")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


@cache
def forking_commands() -> ForkingCommands:
    """Return the process that runs the commands of this test run; it ends with the run."""
    made = ForkingCommands()
    atexit.register(made.close)
    return made


@dataclass(frozen=True)
class CommandLine:
    """Runs commands in a folder, with a small environment of their own."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", **self.settings}

    def run(
        self, *arguments: str, stdin: bytes = b"", **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end. Settings are given in lower case, as in `store="sqlite:///…"`."""
        given = {f"POSTROOM_{name.upper()}": value for name, value in settings.items()}
        return forking_commands().run(arguments, self.folder, {**self.environment, **given}, stdin)

    def ok(self, *arguments: str, stdin: bytes = b"", **settings: str) -> str:
        """What a command prints that must succeed."""
        done = self.run(*arguments, stdin=stdin, **settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str, **settings: str) -> Any:
        """The same, with `--json`, read."""
        return json.loads(self.ok(*arguments, "--json", stdin=b"", **settings))

    def fails(self, *arguments: str, stdin: bytes = b"", **settings: str) -> str:
        """The one line by which a command says that it failed, and why."""
        done = self.run(*arguments, stdin=stdin, **settings)
        assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
        [line] = done.stderr.splitlines()
        assert line.startswith("postroom: "), line
        return line.removeprefix("postroom: ")

    def misused(self, *arguments: str, **settings: str) -> str:
        """What click says about wrong use."""
        done = self.run(*arguments, stdin=b"", **settings)
        assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
        assert "Usage: postroom" in done.stderr
        return done.stderr

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command without waiting for it; the caller ends it."""
        return subprocess.Popen(
            [PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def peak_memory(self, *arguments: str, fails: bool = False) -> int:
        """The most memory that a command had, in bytes; it must end well, or may fail."""
        done = subprocess.run(
            [sys.executable, "-S", "-c", _MEASURE, PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        assert done.returncode in ((0, 1) if fails else (0,)), done.stderr
        return int(done.stdout.splitlines()[-1]) * 1024
