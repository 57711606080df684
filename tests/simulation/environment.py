"""What a run replaces around the product: the clock, what must be hard to guess, and the log."""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.simulation.loop import SimulationLoop, current_process

EPOCH = datetime(2030, 1, 7, 12, tzinfo=UTC)


class SimulatedClock:
    """The clock of the machine on which the current process runs."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop
        self.offsets: dict[str, float] = {}

    def now(self) -> datetime:
        offset = self.offsets.get(current_process().machine, 0.0) if self.offsets else 0.0
        return EPOCH + timedelta(seconds=self._loop.time() + offset)

    def monotonic(self) -> float:
        return self._loop.time() + 1000.0

    def since_boot(self) -> float:
        return self._loop.time() + 1000.0


@contextmanager
def predictable(choices: Random) -> Iterator[None]:
    """Let whatever must be hard to guess follow from the seed."""
    replacements: tuple[tuple[Any, str, Any], ...] = (
        (secrets, "token_bytes", lambda count=32: choices.randbytes(count)),
        (secrets, "token_hex", lambda count=32: choices.randbytes(count).hex()),
        (secrets, "token_urlsafe", lambda count=32: choices.randbytes(count).hex()),
        (secrets, "randbelow", choices.randrange),
        (uuid, "uuid4", lambda: uuid.UUID(bytes=choices.randbytes(16), version=4)),
    )
    with replaced(replacements):
        yield


@contextmanager
def replaced(replacements: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Give names of modules other values, for each run: `mock.patch` would take much longer."""
    before = [getattr(module, name) for module, name, _ in replacements]
    for module, name, value in replacements:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(replacements, before, strict=True):
            setattr(module, name, value)


class _Log(logging.Handler):
    def __init__(
        self, tell: Callable[[str], None], unexpected: Callable[[str, BaseException | None], None]
    ) -> None:
        super().__init__()
        self._tell = tell
        self._unexpected = unexpected

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{current_process()}: {record.levelname.lower()}: {record.getMessage()}"
        self._tell(text)
        if record.exc_info:
            self._unexpected(text, record.exc_info[1])


@contextmanager
def logged(
    tell: Callable[[str], None],
    unexpected: Callable[[str, BaseException | None], None],
    *,
    is_traced: bool,
) -> Iterator[None]:
    """Add the product's log to the trace. An exception that it logs was not expected."""
    log = logging.getLogger("postroom")
    handler = _Log(tell, unexpected)
    level = logging.INFO if is_traced else logging.ERROR
    if log.level != level:  # it takes long, and stays as it is for the next run
        log.setLevel(level)
    propagate, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate
