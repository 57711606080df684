"""Logs what handlers and programs print, with the application's name and a limit."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress

from postroom.observability.logs import about

log = logging.getLogger(__name__)

LONGEST_PER_MESSAGE = 64 * 1024
"""Bytes that are logged per message; further ones are only counted."""

_LONGEST_LINE = 8 * 1024
_PIECE = 64 * 1024  # what a pipe holds on Linux
_LAST_READS = 16  # what a worker left running may still write


class WorkerOutput:
    """The standard output and error of one worker."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pid = 0
        self._rest = b""
        self._allowed = LONGEST_PER_MESSAGE
        self._not_logged = 0
        self._loop = asyncio.get_running_loop()
        self._ours, self.end = os.pipe()
        os.set_blocking(self._ours, False)
        self._loop.add_reader(self._ours, self._read)

    def launched(self, pid: int) -> None:
        """Close our copy of the worker's end."""
        self._pid = pid
        self.close_end()

    def close_end(self) -> None:
        if self.end >= 0:
            os.close(self.end)
            self.end = -1

    def next_message(self) -> None:
        """Start the limit of the next message."""
        self._log_omitted()
        self._allowed = LONGEST_PER_MESSAGE

    def close(self) -> None:
        """Log what is left after the worker has ended."""
        self.close_end()
        if self._ours < 0:
            return
        for _ in range(_LAST_READS):
            if not self._read():
                break
        self._stop()
        self._write(self._rest)
        self._log_omitted()

    def _stop(self) -> None:
        if self._ours >= 0:
            self._loop.remove_reader(self._ours)
            os.close(self._ours)
            self._ours = -1

    def _read(self) -> bool:
        """Read once; return whether there was something."""
        piece = b""
        with suppress(BlockingIOError):
            piece = os.read(self._ours, _PIECE)
            if not piece:
                self._stop()  # all writers have closed it
        taken = piece[: max(0, self._allowed)]
        self._allowed -= len(taken)
        self._not_logged += len(piece) - len(taken)
        *lines, self._rest = (self._rest + taken).split(b"\n")
        for line in lines:
            self._write(line)
        if len(self._rest) > _LONGEST_LINE or len(taken) < len(piece):
            self._write(self._rest)
            self._rest = b""
        return bool(piece)

    def _write(self, line: bytes) -> None:
        if line.strip():
            text = line.decode(errors="backslashreplace").rstrip()
            with about(app=self._path, process=self._pid):
                log.info("%s", text)

    def _log_omitted(self) -> None:
        if self._not_logged:
            with about(app=self._path, process=self._pid):
                log.warning("%s more bytes were printed and not logged", f"{self._not_logged:,}")
            self._not_logged = 0
