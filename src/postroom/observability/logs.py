"""Logs: one line per event on standard error, for people or as JSON.

Modules log with the standard library (`logging.getLogger(__name__)`); `structlog` formats the
lines. `with about(message=ref, page=7): …` adds these ids to every line that is logged inside, also
by other modules, so that a request, a message or a page can be followed.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

# Loaded on first use: it takes longer than everything else that a short command needs.
if TYPE_CHECKING:
    from structlog.types import EventDict, Processor

CONSOLE = "console"
JSON = "json"

# Operators do not need what these packages log when all is well.
_QUIET = ("httpcore", "httpx2", "uvicorn", "asyncio", "azure")
# Its detectors log that they run, and a traceback when they fail on an email without a sender.
_SILENT = "flufl.bounce"


def set_up_logs(form: str = CONSOLE) -> None:
    """Send the log of this process to standard error."""
    with _without_rich():
        import structlog

    shared: list[Processor] = [
        _with_ids,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_last(form)],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger(_SILENT).setLevel(logging.CRITICAL + 1)


_ids: ContextVar[Mapping[str, str | int]] = ContextVar("ids", default={})  # noqa: B039


class about:  # noqa: N801
    """Add these ids to every line that is logged inside: `with about(request=…):`."""

    def __init__(self, **ids: str | int) -> None:
        self._ids = ids

    def __enter__(self) -> None:
        self._token = _ids.set({**_ids.get(), **self._ids})

    def __exit__(self, *_: object) -> None:
        _ids.reset(self._token)


def _with_ids(logger: object, method: str, line: EventDict) -> EventDict:
    return {**_ids.get(), **line}


@contextmanager
def _without_rich() -> Iterator[None]:
    """Keep structlog from loading Rich, for tracebacks that `_last` does not use: that would take a
    third of the time that a process needs to start."""
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["rich"]


def _last(form: str) -> list[Processor]:
    """Return the last processors. Tracebacks omit the values of variables: one may be a secret."""
    import structlog

    if form == JSON:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            pad_event_to=0,
            exception_formatter=structlog.dev.plain_traceback,
        )
    ]
