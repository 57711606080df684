"""What handlers have recorded, read while they run."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

_PATIENCE = 120.0


@dataclass(frozen=True)
class Line:
    """One message. Times are in seconds, by one clock for all processes."""

    put: float
    ran: float
    pid: int

    @property
    def latency(self) -> float:
        return self.ran - self.put


class Lines:
    """Follows the file of one worker."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0
        self._rest = b""
        self.found: list[Line] = []

    def read(self) -> int:
        """Read new lines; return how many there are in all."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._position)
                data = file.read()
            self._position += len(data)
            *whole, self._rest = (self._rest + data).split(b"\n")
            for line in whole:
                put, ran, pid = map(int, line.split())
                self.found.append(Line(put / 1e9, ran / 1e9, pid))
        return len(self.found)

    async def wait_for(self, count: int) -> None:
        """Wait until this many messages were handled, without blocking the event loop."""
        deadline = time.monotonic() + _PATIENCE
        while self.read() < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.found)} of {count} messages after {_PATIENCE} s")
            await asyncio.sleep(0.001)


def stamp() -> str:
    """Return the body of a message: when it was put."""
    return str(time.monotonic_ns())


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
