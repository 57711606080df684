"""What the processes of a machine count together."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from postroom.observability import metrics

# Counts as many emails as each line says, forks first where it says so, and answers with what
# everybody has counted.
COUNTER = """
import os, sys
from pathlib import Path
from postroom.observability.metrics import EMAILS, collect, share_metrics

share_metrics(Path(sys.argv[1]))
for line in sys.stdin:
    if line.startswith("fork"):
        if child := os.fork():
            os.waitpid(child, 0)
        else:
            EMAILS.add(int(line.split()[1]), "accepted")
            os._exit(0)
    else:
        EMAILS.add(int(line), "accepted")
    shown = collect({}).decode().splitlines()
    print(next(each for each in shown if each.startswith("postroom_emails_total{")), flush=True)
"""


class Counter:
    """A process that counts."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", COUNTER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def count(self, emails: int | str) -> float:
        """The sum of all processes afterwards."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{emails}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline().split()[-1])

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("*.db"))


def test_processes_at_once_are_added_up_whatever_their_numbers(tmp_path: Path) -> None:
    first, second = Counter(tmp_path), Counter(tmp_path)
    try:
        assert first.count(1) == 1
        assert second.count(2) == 3
        assert first.count("fork 4") == 7
        assert first.count(8) == 15
        assert files(tmp_path) == ["counter_0.db", "counter_1.db", "counter_2.db"]
    finally:
        first.end()
        second.end()


def test_a_process_that_ended_leaves_its_count_and_its_file_to_the_next(tmp_path: Path) -> None:
    for sum_so_far in (5, 10, 15):
        process = Counter(tmp_path)
        try:
            assert process.count(5) == sum_so_far
        finally:
            process.end()
    assert files(tmp_path) == ["counter_0.db"]


def test_a_metric_that_cannot_be_written_is_tried_again_within_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(metrics, "time", SimpleNamespace(monotonic=lambda: now))
    made: list[Recorded] = []

    class Failing(metrics.Count):
        def _make(self) -> Recorded:
            if not made:
                made.append(Recorded())
                raise OSError(errno.ENOSPC, "No space left on device")
            return made[0]

    count = Failing("test_total", "For a test.")
    count.add()
    count.add()
    assert made[0].amounts == []
    now += 60
    count.add(3)
    assert made[0].amounts == [3]


class Recorded:
    def __init__(self) -> None:
        self.amounts: list[float] = []

    def inc(self, amount: float) -> None:
        self.amounts.append(amount)
