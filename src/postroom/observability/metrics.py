"""What is measured, for Prometheus: one table, used by every part, shown at `/metrics`.

The processes of one machine (web, scheduler, host, senders) write into files of a shared folder;
whoever is asked adds them up (`prometheus_client`'s multi-process mode). Each process has a seat, a
number in the names of its files, and leaves it with its counts to a later one: there are as many
files as there were processes at once. Without such a folder everything is kept in the process
itself. What can be read from the store, such as the depth of queues, is not counted here but read
when somebody asks.
"""

from __future__ import annotations

import fcntl
import functools
import itertools
import logging
import os
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
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Measure:
    """One metric."""

    def __init__(self, name: str, help: str, labels: tuple[str, ...] = ()) -> None:
        self.name = name
        self.help = help
        self.labels = labels


class _Counted(Measure, ABC):
    """A metric that a process adds to. The library is loaded by the first use: a command that
    measures nothing is spared that."""

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
                _name_files_by_seat()
                self._metric = self._make()
            child = self._metric.labels(*values) if self.labels else self._metric
        except OSError as exc:  # nothing fails because it cannot be measured
            log.warning("%s is not measured for now: %s", self.name, exc.strerror)
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            return _NOT_MEASURED
        self._children[values] = child
        return child

    @abstractmethod
    def _make(self) -> Any:
        """The library's own object."""


class _NotMeasured:
    """Stands in for a metric that has no file."""

    def inc(self, amount: float) -> None: ...

    def observe(self, seconds: float) -> None: ...


_NOT_MEASURED = _NotMeasured()


class Count(_Counted):
    """Only grows."""

    def add(self, amount: float = 1, *labels: str) -> None:
        self._child(labels).inc(amount)

    def _make(self) -> Any:
        from prometheus_client import Counter

        return Counter(self.name, self.help, self.labels)


class Durations(_Counted):
    """How long something took, in seconds."""

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


class Level(Measure):
    """How much of something there is: read from the store when somebody asks."""


EMAILS = Count("postroom_emails_total", "Emails by what became of them.", ("outcome",))
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
QUEUE_LENGTH = Level("postroom_queue_messages", "Messages in a queue.", ("queue",))
QUEUE_AGE = Level(
    "postroom_queue_oldest_seconds", "How long the next message has been waiting.", ("queue",)
)
PROCESSES = Level("postroom_processes", "Processes of applications.", ("app", "state"))
MESSAGES = Level("postroom_open_messages", "Messages that are not done, by status.", ("status",))

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
    """Add up with the other processes of this machine that use this folder.

    To be called before anything is measured.
    """
    make_writable(folder)
    os.environ[_SHARED] = str(folder.absolute())


class _Seat:
    """The number of this process among those that share a folder; a fork takes another.

    A lock holds it for as long as the process lives. The number that the system gives to a process
    would not do: containers that share a folder have the same ones, and every process that ever ran
    would leave its files behind.
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
        return True  # open, and so locked, until the process ends


def _counts_file_type() -> type[MmapedDict]:
    from prometheus_client.mmap_dict import _INITIAL_MMAP_SIZE, MmapedDict

    class CountsFile(MmapedDict):
        """A file of counts that is created for this user alone, with its room reserved: memory
        whose disk is full would end the process when it is written (SIGBUS). `OSError`."""

        def __init__(self, filename: str, read_mode: bool = False) -> None:
            if not read_mode:
                create_private(Path(filename))
                with Path(filename).open("r+b") as file:
                    size = max(os.fstat(file.fileno()).st_size, _INITIAL_MMAP_SIZE)
                    os.posix_fallocate(file.fileno(), 0, size)
            super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]

        def _init_value(self, key: str) -> None:
            # A key takes its length, its text with up to 8 bytes of padding, and two numbers.
            if self._used + len(key.encode()) + 28 > self._capacity:
                os.posix_fallocate(self._f.fileno(), 0, self._capacity * 2)
            super()._init_value(key)  # type: ignore[no-untyped-call]

    return CountsFile


@functools.cache
def _name_files_by_seat() -> None:
    from prometheus_client import values

    if os.environ.get(_SHARED):
        values.MmapedDict = _counts_file_type()  # type: ignore[attr-defined]
        values.ValueClass = values.MultiProcessValue(_Seat())  # type: ignore[no-untyped-call]


def collect(levels: dict[Level, dict[tuple[str, ...], float]]) -> bytes:
    """Everything in Prometheus's text format: what was counted, and the levels as they are now."""
    from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

    registry = REGISTRY
    if os.environ.get(_SHARED):
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry) + generate_latest(_levels(levels))


def _levels(levels: dict[Level, dict[tuple[str, ...], float]]) -> CollectorRegistry:
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
