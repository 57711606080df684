"""How many pages a sender takes: enough for about two seconds.

If it took more, people who unsubscribe would still get the message, and other senders could not
help. If it took fewer, the transport would run out of work. Unsent emails count, not pages: a page
that waits for its last reply does not keep others from being sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from postroom import clock
from postroom.domain.messages.pages import PAGE_SIZE

_SECONDS = 2.0
_SHORTEST = 0.001  # below this, the clock is too coarse


class Window:
    def __init__(
        self, concurrency: int, most: int, clock: Callable[[], float] = clock.monotonic
    ) -> None:
        """`concurrency`: how many emails the transport can have in progress."""
        self._fewest = min(most, 1 + math.ceil(concurrency / PAGE_SIZE))
        self._most = most
        self._clock = clock
        self._since = 0.0
        self._sent_before = 0.0
        self._rests = True

    def room(self, pages: int, unsent: int, sent: int) -> int:
        """Return how many pages may be taken, given the active pages, their unsent emails, and the
        emails sent since the sender started."""
        now = self._clock()
        if self._rests:
            self._since, self._sent_before, self._rests = now, sent, False
        seconds = max(_SHORTEST, now - self._since)
        newly = sent - self._sent_before
        wanted = math.ceil(newly / seconds * _SECONDS / PAGE_SIZE)
        if seconds > _SECONDS:  # older measurements count less and less
            self._since, self._sent_before = now - seconds / 2, sent - newly / 2
        wanted = max(self._fewest, min(self._most, wanted))
        return min(wanted - math.ceil(unsent / PAGE_SIZE), self._most - pages)

    def rest(self) -> None:
        """Stop measuring the speed until there is work again."""
        self._rests = True
