"""How many pages a sender has in hand: as many as it sends in about a second.

More would be in the way: who leaves a list while a page is in hand may still get its message, and
no other sender can take it. Fewer would leave connections without work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from postroom.domain.pages import PAGE_SIZE

_SECONDS = 1.0
_SHORTEST = 0.001  # below, a clock tells little


class Window:
    def __init__(
        self,
        fewest: int,
        most: int,
        grown: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`grown` is told when more pages may be taken."""
        self.pages = min(fewest, most)
        self._fewest = self.pages
        self._most = most
        self._grown = grown
        self._clock = clock
        self._emails = 0  # that are with the transport

    @contextmanager
    def sending(self, emails: int) -> Iterator[None]:
        """While a page's emails are with the transport, which sends one page after the other: how
        long that takes tells how many it sends in a second."""
        self._emails += emails
        together, started = self._emails, self._clock()
        try:
            yield
        finally:
            self._emails -= emails
            taken = max(_SHORTEST, self._clock() - started)
            pages = math.ceil(together * _SECONDS / taken / PAGE_SIZE)
            before, self.pages = self.pages, max(self._fewest, min(self._most, pages))
            if self.pages > before:
                self._grown()
