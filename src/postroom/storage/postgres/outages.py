"""A server that is away: one line in the log when it begins, and one at its end."""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)


class Outages:
    """Is told of every call that was answered, and of those that could get no connection."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._answered_at = time.monotonic()
        self._is_away = False

    def answered(self) -> None:
        now = time.monotonic()
        if self._is_away:
            self._is_away = False
            lasted = now - self._answered_at
            log.warning("PostgreSQL at %s is there again, after %.0f s", self._location, lasted)
        self._answered_at = now

    def no_connection(self, waited: float) -> None:
        """After so many seconds. If others were answered meanwhile, the server is only busy."""
        if not self._is_away and time.monotonic() - self._answered_at >= waited:
            self._is_away = True
            log.error("PostgreSQL at %s cannot be reached: trying on", self._location)


def quieten_the_pool() -> None:
    """It tells of every attempt to connect, hundreds a second while the server is away. Who set a
    level on purpose keeps it."""
    logger = logging.getLogger("psycopg.pool")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)
