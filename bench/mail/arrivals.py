"""When mail arrives at a mail server, seen from outside: from the bytes that its process reads.

So it costs the server nothing, and works for every client.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_LOOK_SECONDS = 0.005
_NOISE = 100  # bytes that a connection without a mail may read


@dataclass
class Arrivals:
    """Times by `time.perf_counter`."""

    bytes_before: int = 0
    bytes_read: int = 0
    first: float = 0.0
    last: float = 0.0

    @property
    def seconds(self) -> float:
        """The seconds from the first email to the last one."""
        return self.last - self.first

    def quiet_for(self) -> float:
        """Return for how many seconds nothing has arrived since the first email."""
        return time.perf_counter() - self.last if self.first else 0.0


@contextmanager
def watched(pid: int) -> Iterator[Arrivals]:
    """Watch what the process reads, until the end of the block."""
    arrivals = Arrivals(bytes_before=_bytes_read(pid))
    stopping = threading.Event()

    def look() -> None:
        while not stopping.wait(_LOOK_SECONDS):
            read = _bytes_read(pid) - arrivals.bytes_before
            if read > arrivals.bytes_read and read > _NOISE:
                now = time.perf_counter()
                arrivals.first = arrivals.first or now
                arrivals.last = now
                arrivals.bytes_read = read

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield arrivals
    finally:
        stopping.set()
        thread.join()


def _bytes_read(pid: int) -> int:
    [line] = [
        each
        for each in Path(f"/proc/{pid}/io").read_text().splitlines()
        if each.startswith("rchar:")
    ]
    return int(line.split()[1])
