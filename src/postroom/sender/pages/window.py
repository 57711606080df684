"""How many pages a sender takes: as many as have emails for about two seconds.

More would be in the way: who leaves a list while a page is in hand may still get its message, and
no other sender can take it. Fewer would leave the transport without work. What counts are emails:
a page that waits for the answer to its last one keeps nobody from sending others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from postroom.domain.messages.pages import PAGE_SIZE

_SECONDS = 2.0
_SHORTEST = 0.001  # below, a clock tells little


class Window:
    def __init__(
        self, at_once: int, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """For a transport that can have so many emails under way at once."""
        self._fewest = min(most, 1 + math.ceil(at_once / PAGE_SIZE))
        self._most = most
        self._clock = clock
        self._since = 0.0
        self._sent_before = 0.0
        self._rests = True

    def room(self, pages: int, unsent: int, sent: int) -> int:
        """How many pages may be taken, while so many are in hand, with emails that are still to be
        sent. `sent` were since the sender began."""
        now = self._clock()
        if self._rests:
            self._since, self._sent_before, self._rests = now, sent, False
        seconds = max(_SHORTEST, now - self._since)
        newly = sent - self._sent_before
        wanted = math.ceil(newly / seconds * _SECONDS / PAGE_SIZE)
        if seconds > _SECONDS:  # what was before counts less and less
            self._since, self._sent_before = now - seconds / 2, sent - newly / 2
        wanted = max(self._fewest, min(self._most, wanted))
        return min(wanted - math.ceil(unsent / PAGE_SIZE), self._most - pages)

    def rest(self) -> None:
        """There is no work: until there is, time tells nothing of the speed."""
        self._rests = True
