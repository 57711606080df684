"""The host: starts applications when messages arrive in their queues, and stops idle ones.

A handler need not import anything from here. It may raise `Poison` (no further attempts) or
`RetryLater` (not before some seconds have passed). This module imports nothing else, so that
handlers are quick to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from postroom.errors import PostroomError


class Delivery(msgspec.Struct, frozen=True):
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
    """Raised by a handler: a failed attempt; the next one is made in `seconds` at the earliest."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(reason or f"retry in {seconds:g} s")
        self.seconds = seconds
