"""Why a page is read in one step: what a busy event loop costs a thread that reads row by row."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw
import msgspec

from bench.figures import Figure
from bench.store import mail
from bench.store.raw_sqlite import RawSqlite

_ROW_BY_ROW = "SELECT row, properties FROM entity WHERE partition = ? ORDER BY row"
_AT_ONCE = f"SELECT json_group_array(json_array(row, json(properties))) FROM ({_ROW_BY_ROW})"


def figure(raw: RawSqlite) -> Figure:
    """Read a page of 100 rows while another thread computes."""
    partition = mail.partition(0)
    raw.write_entities(range(1))
    with _busy_thread():
        rows = _milliseconds(lambda: _read_rows(raw.connection, partition))
        once = _milliseconds(lambda: _read_at_once(raw.connection, partition))
    return Figure(
        "pages read in one step while a thread computes",
        1000 / once,
        "pages/s",
        1000 / rows,
        "row by row",
        2,
    )


def _read_rows(connection: apsw.Connection, partition: str) -> int:
    rows = connection.execute(_ROW_BY_ROW, (partition,))
    return len([(row, msgspec.json.decode(properties)) for row, properties in rows])


def _read_at_once(connection: apsw.Connection, partition: str) -> int:
    return len(msgspec.json.decode(connection.execute(_AT_ONCE, (partition,)).get))


def _milliseconds(read: Callable[[], int]) -> float:
    times = []
    for _ in range(15):
        started = time.perf_counter()
        assert read() == mail.PAGE
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


@contextmanager
def _busy_thread() -> Iterator[None]:
    """Run Python code that never waits, like a busy event loop."""
    stopping = threading.Event()

    def compute() -> None:
        while not stopping.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
