"""How a long-running command is stopped by a signal.

| signal          | the first time | again           |
|-----------------|----------------|-----------------|
| SIGTERM, SIGINT | finish and end | end immediately |
| SIGHUP          | finish and end | ignored         |

SIGHUP comes when the terminal of a command is closed. `nohup` makes a command ignore it.

To handle another signal, add it to `STOP_SIGNALS`, and to `INSISTING` if its repetition ends the
process immediately.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import asyncio
    from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that ask a command to finish its work and end."""

INSISTING = frozenset({signal.SIGTERM, signal.SIGINT})
"""Signals that end the process immediately if it is already stopping."""

# A wrapper often forwards a Ctrl-C that the terminal has sent to us as well: one request, not two.
_SAME_REQUEST_SECONDS = 0.5


def stop_signals() -> list[signal.Signals]:
    """Return the `STOP_SIGNALS` that this process should follow."""
    is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [each for each in STOP_SIGNALS if not (is_nohup and each is signal.SIGHUP)]


class StopRequests:
    """Turns signals into `stopping`, and a repeated signal into the end of the process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
        self._loop = loop
        self._stopping = stopping
        self._first_at: float | None = None

    def listen(self) -> None:
        for number in stop_signals():
            self._loop.add_signal_handler(number, self._requested)

    def _requested(self) -> None:
        if self._first_at is not None:
            return
        self._first_at = time.monotonic()
        self._stopping.set()
        if sys.stderr.isatty():
            click.echo(" Stopping. Press Ctrl-C again to stop immediately.", err=True)
        for number in INSISTING:
            # Not through the event loop, which may be what no longer responds.
            self._loop.remove_signal_handler(number)
            signal.signal(number, self._repeated)

    def _repeated(self, number: int, frame: FrameType | None) -> None:
        if self._first_at is None or time.monotonic() - self._first_at < _SAME_REQUEST_SECONDS:
            return
        end_at_once(number)


def end_at_once(number: int) -> None:
    """End this process as if the signal had killed it, without any clean-up.

    That is safe at any time: unfinished work is done again, as after `kill -9`. Processes that the
    host has started end with it.
    """
    os.write(sys.stderr.fileno(), b"Stopped immediately: unfinished work will be repeated.\n")
    os._exit(128 + number)
