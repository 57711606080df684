"""How fast a message is being sent."""

from __future__ import annotations

from collections import deque

from postroom.domain.messages.messages import Message, MessageStatus


class SpeedMeter:
    """Emails per second over the last `window` seconds, without pauses."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._done: deque[tuple[float, int]] = deque()
        self._resumptions = 0

    def note(self, message: Message, done: int, now: float) -> None:
        """Record how many emails were done at this moment."""
        if message.status is MessageStatus.PAUSED or message.resumptions != self._resumptions:
            self._done.clear()
        self._resumptions = message.resumptions
        self._done.append((now, done))
        while len(self._done) > 2 and self._done[1][0] <= now - self._window:
            self._done.popleft()

    @property
    def per_second(self) -> float | None:
        """The speed; None while it is unknown."""
        if len(self._done) < 2:
            return None
        (first_at, first), (last_at, last) = self._done[0], self._done[-1]
        return max(0.0, (last - first) / (last_at - first_at)) if last_at > first_at else None
