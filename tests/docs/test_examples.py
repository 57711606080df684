"""The shell examples of README and tutorial work: they are run as they stand there, in order."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.examples import Example, examples_of
from tests.services.postroom import PROGRAM
from tests.services.process import ServiceProcess
from tests.services.waiting import LOOPBACK, free_ports

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/tutorial.md")

_STARTS = re.compile(r"(\S*/)?postroom up|make run")
# Installation has a separate test: tests/acceptance/operations/test_wheel.py.
_INSTALLS = re.compile(r"(\S*/)?pip install\b|python3 -m venv\b")
_LOOKS = {"ls", "trace", "events", "show", "check"}
_PATIENCE = 60.0


@dataclass
class Reader:
    """Types the commands of a page, in a new folder."""

    folder: Path
    port: int
    running: ServiceProcess | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{PROGRAM.parent}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "HOME": str(self.folder),
            "POSTROOM_PORT": str(self.port),
        }

    def types(self, example: Example) -> None:
        command = " ".join(example.words)
        if _STARTS.match(command):
            self._start(command)
        elif example.words[0] == "make":
            assert re.search(rf"^{example.words[1]}:.*## ", _makefile(), re.MULTILINE), command
        elif not _INSTALLS.match(command):
            self._run(example)

    def _start(self, command: str) -> None:
        """In the background, once: a page may show several ways."""
        if command == "make run":
            assert re.search(
                r"^run: .*\n\t@\$\(BIN\)/postroom up \$\(ARGS\)$", _makefile(), re.MULTILINE
            )
            command = "postroom up"
        if self.running is None:
            given = [f"{name}={value}" for name, value in self.environment.items()]
            started = ["env", "-i", *given, str(PROGRAM), *command.split()[1:]]
            self.running = ServiceProcess("postroom up", started, self.folder, self._answers)
            self.running.start()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}/readyz", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _run(self, example: Example) -> None:
        """What only looks may have to look again: others are at work meanwhile."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            done = subprocess.run(
                ["bash", "-c", example.command],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=90,
            )
            assert done.returncode == 0, f"{example.command}: {done.stderr}"
            if example.is_printed_in(done.stdout + done.stderr):
                return
            only_looks = _LOOKS.intersection(example.words)
            if not only_looks or time.monotonic() > deadline:
                pytest.fail(f"{example.command} printed\n{done.stdout}{done.stderr}")
            time.sleep(0.2)


def _makefile() -> str:
    return (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", PAGES)
def test_examples_do_what_the_page_shows(name: str, tmp_path: Path) -> None:
    reader = Reader(tmp_path, free_ports(1)[0])
    examples = examples_of(ROOT / name)
    assert len(examples) > 5
    try:
        for example in examples:
            reader.types(example)
    finally:
        if reader.running is not None:
            reader.running.stop()


def test_an_example_is_compared_line_by_line_in_order() -> None:
    example = Example("postroom x", ("state … since", "ann … verified"))
    assert example.is_printed_in("state   since\n---\nann   is   verified\n")
    assert not example.is_printed_in("ann is verified\nstate since\n")
    assert not example.is_printed_in("state since\nbob verified\n")
