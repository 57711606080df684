"""How many pages a sender has in hand: as many as it sends in about two seconds.

More would be in the way: who leaves a list while a page is in hand may still get its message, and
no other sender can take it. Fewer would leave connections without work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from postroom.domain.pages import PAGE_SIZE

_SECONDS = 2.0  # longer than a call of an HTTP API takes: there, more calls at once are more emails
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
        self._under_way = 0  # emails that are with the transport
        self._sent = 0.0  # emails that were, since `_since`, without a moment's rest
        self._since = 0.0

    @contextmanager
    def sending(self, emails: int) -> Iterator[None]:
        """While emails of a page are with the transport."""
        if not self._under_way:
            self._since, self._sent = self._clock(), 0.0
        self._under_way += emails
        try:
            yield
        finally:
            self._under_way -= emails
            self._sent += emails
            self._adapt()

    def _adapt(self) -> None:
        now = self._clock()
        seconds = max(_SHORTEST, now - self._since)
        pages = math.ceil(self._sent / seconds * _SECONDS / PAGE_SIZE)
        if seconds > _SECONDS:  # what was before counts less and less
            self._since, self._sent = now - seconds / 2, self._sent / 2
        before, self.pages = self.pages, max(self._fewest, min(self._most, pages))
        if self.pages > before:
            self._grown()
