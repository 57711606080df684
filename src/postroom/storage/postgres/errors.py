"""Translates errors of the driver into those of the contract, and decides which to retry."""

from __future__ import annotations

import logging
import re
import time

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout

from postroom.storage.errors import (
    AccessDenied,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreUnavailable,
)

# For a refused connection, libpq has no SQLSTATE, only the server's text.
_REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|pg_hba\.conf rejects"
    r"|role .* does not exist|not permitted to log in|permission denied"
)
_STARTING = re.compile(r"the database system is (starting up|not yet accepting|in recovery)")

# The server rolled the statement back for a temporary reason.
_TRANSIENT = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.OutOfMemory,
)
# The server is shutting down, starting, or has no connection left for us.
_UNAVAILABLE = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.IdleSessionTimeout,
    errors.IdleInTransactionSessionTimeout,
)
log = logging.getLogger(__name__)


def is_lost_connection(exc: psycopg.Error) -> bool:
    """Return whether the outcome of the statement is unknown."""
    if isinstance(exc, PoolTimeout):
        return False  # nothing was sent
    if isinstance(exc, _UNAVAILABLE):
        return True
    if isinstance(exc, psycopg.InterfaceError):
        return True  # used after it broke
    state = exc.sqlstate
    return isinstance(exc, psycopg.OperationalError) and (state is None or state.startswith("08"))


def is_worth_retrying(exc: psycopg.Error) -> bool:
    return isinstance(exc, (PoolTimeout, *_TRANSIENT)) or is_lost_connection(exc)


def is_starting_server(exc: psycopg.Error) -> bool:
    """Return whether the server refused a connection because it is starting."""
    return bool(_STARTING.search(str(exc)))


def translate(exc: psycopg.Error, location: str) -> StoreError:
    """Return the error of the contract, with a text for the user."""
    text = _one_line(exc)
    match exc:
        case errors.DiskFull():
            return StoreFull(f"no space left on the PostgreSQL server {location}: {text}")
        case errors.InsufficientPrivilege() | errors.ReadOnlySqlTransaction():
            return AccessDenied(f"PostgreSQL at {location} refuses: {text}")
        case errors.InvalidAuthorizationSpecification() | errors.InvalidPassword():
            return AccessDenied(f"PostgreSQL at {location} refuses: {text}")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return StoreDamaged(f"the database {location} is damaged: {text}")
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return StoreDamaged(f"the schema 'postroom' in {location} is incomplete: {text}")
    if exc.sqlstate is None and _was_refused(exc):
        return AccessDenied(f"PostgreSQL at {location} refuses: {text}")
    if is_worth_retrying(exc):
        return StoreUnavailable(f"PostgreSQL at {location} cannot be reached: {text}")
    return StoreUnavailable(f"PostgreSQL at {location}: {text}")


def _was_refused(exc: psycopg.Error) -> bool:
    if _REFUSED.search(str(exc)):
        return True
    # In any language: the server asked for a password that we do not have.
    return exc.pgconn is not None and exc.pgconn.needs_password


def _one_line(exc: psycopg.Error) -> str:
    """Return the server's message, without the statement and the hints."""
    return exc.diag.message_primary or " ".join(str(exc).split()) or type(exc).__name__


class Outages:
    """Logs when the server goes away, and when it is back: one line each."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._answered_at = time.monotonic()
        self._is_away = False

    def answered(self) -> None:
        now = time.monotonic()
        if self._is_away:
            self._is_away = False
            lasted = now - self._answered_at
            log.warning("PostgreSQL at %s is available again, after %.0f s", self._location, lasted)
        self._answered_at = now

    def no_connection(self, waited: float) -> None:
        """Record a call that waited for a connection and got none. If another call was answered
        in the meantime, the server is only busy."""
        if not self._is_away and time.monotonic() - self._answered_at >= waited:
            self._is_away = True
            log.error("PostgreSQL at %s cannot be reached: retrying", self._location)


def quieten_pool() -> None:
    """Silence the pool, which logs hundreds of attempts per second while the server is down, unless
    a level was set explicitly."""
    logger = logging.getLogger("psycopg.pool")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)
