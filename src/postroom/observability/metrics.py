"""The metrics for Prometheus: one table, used by every part, shown at `/metrics`.

The processes of one machine (web, scheduler, host, senders) write into files of a shared folder,
and the web server adds them up (`prometheus_client`'s multi-process mode). Each process takes a
slot, a number in the names of its files, and a later process takes the slot over with its counts:
there are as many files as there were processes at once. Without such a folder, counts stay in the
process. What can be read from the store, such as the depth of queues, is not counted here but read
on request.
"""

from __future__ import annotations

import fcntl
import functools
import itertools
import logging
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postroom.folders import create_private, make_writable

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.mmap_dict import MmapedDict

log = logging.getLogger(__name__)

_SHARED = "PROMETHEUS_MULTIPROC_DIR"
_RETRY_SECONDS = 60.0
_FILE_BYTES = 65_536  # of a new file of counts
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Measure:
    """One metric."""

    def __init__(self, name: str, help: str, labels: tuple[str, ...] = ()) -> None:
        self.name = name
        self.help = help
        self.labels = labels


class _Counted(Measure, ABC):
    """A metric that a process adds to. The library is loaded on first use, which spares commands
    that measure nothing."""

    def __init__(self, name: str, help: str, labels: tuple[str, ...] = ()) -> None:
        super().__init__(name, help, labels)
        self._metric: Any = None
        self._children: dict[tuple[str, ...], Any] = {}
        self._retry_at = 0.0  # after the data folder was full

    def _child(self, values: tuple[str, ...]) -> Any:
        child = self._children.get(values)
        if child is not None:
            return child
        if time.monotonic() < self._retry_at:
            return _NOT_MEASURED
        try:
            if self._metric is None:
                _name_files_by_slot()
                self._metric = self._make()
            child = self._metric.labels(*values) if self.labels else self._metric
        except OSError as exc:  # work continues without being measured
            log.warning("%s is not measured for now: %s", self.name, exc.strerror)
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            return _NOT_MEASURED
        self._children[values] = child
        return child

    @abstractmethod
    def _make(self) -> Any:
        """Create the library's metric."""


class _NotMeasured:
    """A stand-in for a metric without a file."""

    def inc(self, amount: float) -> None: ...

    def observe(self, seconds: float) -> None: ...


_NOT_MEASURED = _NotMeasured()


class Count(_Counted):
    """A counter: it only grows."""

    def add(self, amount: float = 1, *labels: str) -> None:
        self._child(labels).inc(amount)

    def _make(self) -> Any:
        from prometheus_client import Counter

        return Counter(self.name, self.help, self.labels)


class Durations(_Counted):
    """A histogram of durations, in seconds."""

    def observe(self, seconds: float, *labels: str) -> None:
        self._child(labels).observe(seconds)

    @contextmanager
    def timed(self, *labels: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.observe(time.perf_counter() - start, *labels)

    def _make(self) -> Any:
        from prometheus_client import Histogram

        return Histogram(self.name, self.help, self.labels, buckets=_SECONDS)


class Gauge(Measure):
    """A gauge, read from the store on request."""


EMAILS = Count("postroom_emails_total", "Emails by outcome.", ("outcome",))
PAGE_SECONDS = Durations(
    "postroom_page_seconds", "From taking a page of up to 100 emails to its outcomes being stored."
)
STORE_SECONDS = Durations(
    "postroom_store_seconds", "Operations of the store, by kind.", ("operation",)
)
STORE_ERRORS = Count("postroom_store_errors_total", "Operations that failed.", ("error",))
WEB_SECONDS = Durations("postroom_web_seconds", "Requests, by status.", ("method", "status"))
HANDLED = Count(
    "postroom_handled_total", "Queue messages handled by applications.", ("app", "outcome")
)
QUEUE_LENGTH = Gauge("postroom_queue_messages", "Messages in a queue.", ("queue",))
QUEUE_AGE = Gauge(
    "postroom_queue_oldest_seconds", "How long the oldest message has been waiting.", ("queue",)
)
PROCESSES = Gauge("postroom_processes", "Processes of applications.", ("app", "state"))
MESSAGES = Gauge("postroom_open_messages", "Unfinished messages, by status.", ("status",))

MEASURES: tuple[Measure, ...] = (
    EMAILS,
    PAGE_SECONDS,
    STORE_SECONDS,
    STORE_ERRORS,
    WEB_SECONDS,
    HANDLED,
    QUEUE_LENGTH,
    QUEUE_AGE,
    PROCESSES,
    MESSAGES,
)


def share_metrics(folder: Path) -> None:
    """Share counts with the other processes of this machine that use this folder. Call it before
    anything is measured."""
    make_writable(folder)
    os.environ[_SHARED] = str(folder.absolute())


class _Slot:
    """The number of this process among those that share a folder; a fork takes another.

    The process holds it with a lock for as long as it lives. Process ids would not do: containers
    that share a folder have the same ones, and every process that ever ran would leave its files.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        os.register_at_fork(after_in_child=self._leave)

    def __call__(self) -> int:
        if self._number is None:
            self._number = next(filter(self._take, itertools.count()))
        return self._number

    def _leave(self) -> None:
        self._number = None

    def _take(self, number: int) -> bool:
        lock = os.open(Path(os.environ[_SHARED]) / f"{number}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        return True  # the file stays open, and so locked, until the process ends


def _counts_file_type() -> type[MmapedDict]:
    from prometheus_client.mmap_dict import MmapedDict

    class CountsFile(MmapedDict):
        """A file of counts that only this user can read, with its disk space reserved: otherwise
        writing to the mapped file on a full disk would kill the process (SIGBUS). `OSError`."""

        def __init__(self, filename: str, read_mode: bool = False) -> None:
            self.path = Path(filename)
            if not read_mode:
                create_private(self.path)
                _reserve(self.path, "")
            super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]

        def read_value(self, key: str) -> tuple[float, float]:
            """Return a value and its time; every key is read once before it is written."""
            _reserve(self.path, key)
            found: tuple[float, float] = super().read_value(key)  # type: ignore[no-untyped-call]
            return found

    return CountsFile


def _reserve(path: Path, key: str) -> None:
    """Reserve disk space in a file of counts for another key; the library doubles a full file."""
    with path.open("r+b") as file:
        used = int.from_bytes(file.read(4), sys.byteorder)
        size = os.fstat(file.fileno()).st_size
        # A key takes its length, its text with up to 8 bytes of padding, and two numbers.
        is_full = used + len(key.encode()) + 28 > size
        os.posix_fallocate(file.fileno(), 0, max(_FILE_BYTES, size * 2 if is_full else size))


@functools.cache
def _name_files_by_slot() -> None:
    from prometheus_client import values

    if os.environ.get(_SHARED):
        values.MmapedDict = _counts_file_type()  # type: ignore[attr-defined]
        values.ValueClass = values.MultiProcessValue(_Slot())  # type: ignore[no-untyped-call]


def collect(levels: dict[Gauge, dict[tuple[str, ...], float]]) -> bytes:
    """Return all metrics in Prometheus's text format: counts, and these levels."""
    from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

    registry = REGISTRY
    if os.environ.get(_SHARED):
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry) + generate_latest(_levels(levels))


def _levels(levels: dict[Gauge, dict[tuple[str, ...], float]]) -> CollectorRegistry:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

    class Now:
        def collect(self) -> Iterator[GaugeMetricFamily]:
            for level, values in levels.items():
                family = GaugeMetricFamily(level.name, level.help, labels=level.labels)
                for labels, value in sorted(values.items()):
                    family.add_metric(labels, value)
                yield family

    registry = CollectorRegistry()
    registry.register(Now())
    return registry
