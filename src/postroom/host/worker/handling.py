"""What a handler gets, and what it may raise."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from postroom.errors import PostroomError


class Message(msgspec.Struct, frozen=True):
    """A queue message as a handler sees it.

    `id` is the same in every attempt and queue. `attempt` starts at 1 and continues over retry
    cycles.
    """

    body: str
    id: str
    queue: str
    attempt: int
    enqueued_at: datetime
    properties: Mapping[str, str]


class Poison(PostroomError):
    """Raised by a handler: no further attempts, `on_poison` applies now."""


class RetryLater(PostroomError):
    """Raised by a handler: a failed attempt; the next one not before `seconds` from now."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(reason or f"retry in {seconds:g} s")
        self.seconds = seconds
