"""Lines of a text for `csv.reader`, in constant memory for any content.

A file may have one line of 200 MB, or a quote that is never closed. `csv.reader` would read all of
it into memory; here a record longer than `LONGEST_RECORD` ends with `RecordTooLong`.
"""

from __future__ import annotations

import csv
import threading
from collections.abc import Iterator
from typing import Final, TextIO

from postroom.errors import PostroomError

LONGEST_RECORD: Final = 128 * 1024  # characters: the largest cell that `csv` accepts by default


class RecordTooLong(PostroomError, csv.Error):
    """A record is longer than `LONGEST_RECORD`. Reading can continue with the next line."""

    def __init__(self) -> None:
        super().__init__(f"longer than {LONGEST_RECORD:,} characters")


class RecordLines:
    """Lines of a text, counted. Iterate again after an error to continue with the next line.

    `number` counts the lines that were read. The consumer sets `used` to it after each record, so
    that the beginning of the next record is known. After `stop` is set, there are no more lines.
    """

    def __init__(self, text: TextIO, stop: threading.Event, *, already_read: int) -> None:
        self._text = text
        self._stop = stop
        self.number = self.used = already_read

    def __iter__(self) -> Iterator[str]:
        readline, is_stopped = self._text.readline, self._stop.is_set
        used, size = self.used, 0
        while not is_stopped() and (line := readline(LONGEST_RECORD + 1)):
            self.number += 1
            if used != self.used:
                used, size = self.used, 0
            size += len(line)
            if size > LONGEST_RECORD:
                self._skip_rest_of(line)
                raise RecordTooLong
            yield line

    def _skip_rest_of(self, line: str) -> None:
        while line and line[-1] not in "\r\n" and not self._stop.is_set():
            line = self._text.readline(LONGEST_RECORD)
