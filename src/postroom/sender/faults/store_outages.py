"""Store outages as a sender sees them, and how its pages wait for their end.

While a page cannot be recorded, the sender takes no more work, because it could not record that
either. Results wait in memory and in the journal, however long it takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from postroom import clock
from postroom.storage import StoreOutage

log = logging.getLogger(__name__)
T = TypeVar("T")

_RETRY_SECONDS = 1.0
_REMIND_SECONDS = 30.0


class StoreOutages:
    """Store outages as one sender sees them."""

    def __init__(self, stopping: asyncio.Event | None = None) -> None:
        """`stopping` is set when the sender has to stop."""
        self._stopping = stopping or asyncio.Event()
        self._steady_since = clock.monotonic()
        self._logged_at = 0.0
        self._waiting = 0
        self._is_out = False
        self.reason = ""
        """Why the last attempt to use the store failed."""

    @property
    def is_out(self) -> bool:
        """Whether the last attempt to use the store failed, or pages still wait for it."""
        return self._is_out or self._waiting > 0

    @property
    def is_holding_pages(self) -> bool:
        """Whether pages wait for the store."""
        return self._waiting > 0

    @property
    def steady_for(self) -> float:
        """Seconds since this process started, or since the end of the last outage."""
        return 0.0 if self.is_out else clock.monotonic() - self._steady_since

    def failed(self, error: StoreOutage, what: str) -> None:
        """Note an outage that delays `what`; log it once every half minute."""
        self._is_out = True
        self.reason = str(error)
        if clock.monotonic() - self._logged_at >= _REMIND_SECONDS:
            self._logged_at = clock.monotonic()
            log.warning("%s until the store can be used: %s", what, error)

    def worked(self) -> None:
        """Note that the store was used."""
        if self._is_out:
            self._is_out = False
            self._steady_since = clock.monotonic()
            self._logged_at = 0.0
            log.warning("the store can be used again")

    async def until_done(self, call: Callable[[], Awaitable[T]], what: Callable[[], str]) -> T:
        """Call until the store can be used; raise `StoreOutage` if the sender has to stop first.
        `what` describes the waiting work for the log."""
        is_waiting = False
        try:
            while True:
                try:
                    result = await call()
                except StoreOutage as exc:
                    if self._stopping.is_set():
                        raise
                    self.failed(exc, what())
                    self._waiting += not is_waiting
                    is_waiting = True
                    await asyncio.sleep(_RETRY_SECONDS)
                else:
                    if is_waiting and self._waiting == 1:  # the last one that waited
                        self.worked()
                    return result
        finally:
            self._waiting -= is_waiting
