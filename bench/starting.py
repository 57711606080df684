"""How soon `postroom up` serves its first page (with and without the demo's data), and what it
costs when idle."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from bench import processes
from bench.effort import Effort
from bench.figures import Figure
from tests.services.waiting import free_ports

POSTROOM = Path(sys.executable).with_name("postroom")
_STARTS = 5
_IDLE_SECONDS = 20.0


def figures(effort: Effort) -> list[Figure]:
    starts = []
    idle = (0.0, 0.0)
    count = effort.size(_STARTS, effort.turns)
    for number in range(count):
        with tempfile.TemporaryDirectory(prefix="postroom-bench-") as folder:
            idle_after = number == count - 1
            seconds, found = _start(Path(folder), idle=idle_after)
            starts.append(seconds)
            idle = found or idle
    demos = []
    for _ in range(count):
        with tempfile.TemporaryDirectory(prefix="postroom-bench-") as folder:
            demos.append(_start(Path(folder), "--demo", idle=False)[0])
    bare = min(_bare_python() for _ in range(count))
    return [
        Figure(
            "`postroom up` until the first page is served",
            statistics.median(starts),
            "s",
            baseline=bare,
            baseline_is="Python that imports FastAPI",
            target=2.0,
            target_on="value",
            target_is="at most",
        ),
        Figure(
            "`postroom up --demo` until the first page is served",
            statistics.median(demos),
            "s",
            baseline=statistics.median(starts),
            baseline_is="with an empty store",
            target=3.0,
            target_on="value",
            target_is="at most",
        ),
        Figure(
            "`postroom up` while nothing happens",
            idle[0],
            "% of a core",
            target=2.0,
            target_on="value",
            target_is="at most",
        ),
        Figure(
            "memory of all processes",
            idle[1],
            "MB",
            target=250.0,
            target_on="value",
            target_is="at most",
        ),
    ]


def _start(folder: Path, *options: str, idle: bool) -> tuple[float, tuple[float, float] | None]:
    [port] = free_ports(1)
    begin = time.perf_counter()
    process = subprocess.Popen(
        [POSTROOM, "up", "--port", str(port), *options],
        cwd=folder,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "POSTROOM_DATA": "data"},
    )
    try:
        while time.perf_counter() - begin < 60:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/login", timeout=5):
                    break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.005)
        seconds = time.perf_counter() - begin
        return seconds, _idle(process.pid) if idle else None
    finally:
        process.terminate()
        process.wait(60)


def _idle(pid: int) -> tuple[float, float]:
    """Return the percentage of a core and the megabytes that a process and its descendants use."""
    time.sleep(5)  # after the work that it does once at its start
    before, start = processes.ticks(pid), time.perf_counter()
    time.sleep(_IDLE_SECONDS)
    used = (processes.ticks(pid) - before) / os.sysconf("SC_CLK_TCK")
    share = 100 * used / (time.perf_counter() - start)
    return share, sum(map(_memory, processes.family(pid))) / 1e6


def _memory(pid: int) -> int:
    """Return the bytes of a process. What forked processes share counts once (PSS)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _bare_python() -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import fastapi, uvicorn, jinja2"], check=True)
    return time.perf_counter() - begin
