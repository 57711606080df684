"""The driver's errors as the store's own, and which of them are worth another attempt."""

from __future__ import annotations

import re

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

# libpq gives no SQLSTATE for a connection that was refused, only the server's text.
_REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|pg_hba\.conf rejects"
    r"|role .* does not exist|not permitted to log in|permission denied"
)
_STARTING = re.compile(r"the database system is (starting up|not yet accepting|in recovery)")

# The statement was rolled back by the server for a reason that passes.
_PASSING = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.OutOfMemory,
)
# The server is going down, coming up, or has no connection left for us.
_AWAY = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.IdleSessionTimeout,
    errors.IdleInTransactionSessionTimeout,
)


def is_lost_connection(exc: psycopg.Error) -> bool:
    """Whether the outcome of what was under way is unknown."""
    if isinstance(exc, PoolTimeout):
        return False  # nothing was sent
    if isinstance(exc, _AWAY):
        return True
    if isinstance(exc, psycopg.InterfaceError):
        return True  # used after it broke
    state = exc.sqlstate
    return isinstance(exc, psycopg.OperationalError) and (state is None or state.startswith("08"))


def is_worth_another_attempt(exc: psycopg.Error) -> bool:
    return isinstance(exc, (PoolTimeout, *_PASSING)) or is_lost_connection(exc)


def is_starting_server(exc: psycopg.Error) -> bool:
    """Whether a connection was refused by a server that will soon accept one."""
    return bool(_STARTING.search(str(exc)))


def translate(exc: psycopg.Error, location: str) -> StoreError:
    """The error that says what it means for the user."""
    text = _one_line(exc)
    match exc:
        case errors.DiskFull():
            return StoreFull(f"no room left on the PostgreSQL server {location}: {text}")
        case errors.InsufficientPrivilege() | errors.ReadOnlySqlTransaction():
            return AccessDenied(f"PostgreSQL at {location} refuses: {text}")
        case errors.InvalidAuthorizationSpecification() | errors.InvalidPassword():
            return AccessDenied(f"PostgreSQL at {location} refuses: {text}")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return StoreDamaged(f"the database {location} is damaged: {text}")
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return StoreDamaged(f"the schema 'postroom' in {location} is not whole: {text}")
    if exc.sqlstate is None and _was_refused(exc):
        return AccessDenied(f"PostgreSQL at {location} refuses: {text}")
    if is_worth_another_attempt(exc):
        return StoreUnavailable(f"PostgreSQL at {location} cannot be reached: {text}")
    return StoreUnavailable(f"PostgreSQL at {location}: {text}")


def _was_refused(exc: psycopg.Error) -> bool:
    if _REFUSED.search(str(exc)):
        return True
    # In the language of the server: it asked for a password that we do not have.
    return exc.pgconn is not None and exc.pgconn.needs_password


def _one_line(exc: psycopg.Error) -> str:
    """The server's own words, without the statement and the hints."""
    return exc.diag.message_primary or " ".join(str(exc).split()) or type(exc).__name__
