"""Postroom as a user starts it: a process, its output and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("postroom")

# A process counts as its own what its parent had when it was started. So a small one starts it.
_MEASURE = """
import os, resource, sys
child = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(child)
"""


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
        done = subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.folder,
            env={**self.environment, **given},
            input=stdin,
            capture_output=True,
            timeout=90,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

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
        """Start a command and go on; whoever starts it ends it."""
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
            timeout=90,
        )
        assert done.returncode in ((0, 1) if fails else (0,)), done.stderr
        return int(done.stdout.splitlines()[-1]) * 1024
