"""CPU time and memory of processes and their descendants."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

_QUIET_SECONDS = 0.5
_START_SECONDS = 120.0


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    parents = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(each.name)] = int(_stat(int(each.name))[1])
        except OSError:
            continue
    found = [pid]
    for member in found:
        found += [child for child, parent in parents.items() if parent == member]
    return found


def ticks(pid: int) -> int:
    """Return the CPU time of a process and its descendants, in clock ticks."""
    total = 0
    for member in family(pid):
        fields = _stat(member)
        total += int(fields[11]) + int(fields[12])
    return total


def peak_kilobytes(pid: int) -> int:
    """Return the peak memory of a process, in KiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def wait_until_idle(pids: Iterable[int]) -> None:
    """Wait until processes have started: they have computed, and now wait for work."""
    pids = list(pids)
    deadline = time.monotonic() + _START_SECONDS
    before = [0] * len(pids)
    while time.monotonic() < deadline:
        time.sleep(_QUIET_SECONDS)
        now = [ticks(pid) for pid in pids]
        is_started = all(
            used > 0 and used - past <= 1 for used, past in zip(now, before, strict=True)
        )
        if is_started and all(_stat(pid)[0] == "S" for pid in pids):
            return
        before = now
    raise TimeoutError(f"processes {pids} do not become idle")


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: state, parent …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
