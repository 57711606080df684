"""Call a web server with wrk, and measure what the calls cost."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.web.servers import Server
from tests.services.waiting import LOOPBACK

SECONDS = 5
CONNECTIONS = 32
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Turn:
    """The result of one run of wrk against one server."""

    calls: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.calls / self.seconds

    @property
    def cpu_microseconds(self) -> float:
        return self.cpu_seconds / self.calls * 1e6


def call(server: Server, path: str, script: str, environment: Mapping[str, str]) -> Turn:
    """Let wrk call a server for some seconds, as a script of this folder says."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise SystemExit("wrk is missing: apt-get install wrk")
    before = _cpu_seconds(server.pid)
    done = subprocess.run(
        [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "--timeout", "30s",
         "-s", Path(__file__).with_name(script), f"http://{LOOPBACK}:{server.port}{path}"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    used = _cpu_seconds(server.pid) - before
    result = done.stdout.rpartition("RESULT ")[2].split()
    calls, microseconds, refused, broken = map(int, result)
    if refused or broken:
        raise RuntimeError(f"of {calls} calls {refused} were refused, and {broken} broke off")
    return Turn(calls, microseconds / 1e6, used)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
