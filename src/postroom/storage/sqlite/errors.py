"""Translates SQLite's errors into those of the contract."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from postroom.storage.errors import (
    AccessDenied,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreUnavailable,
)

# With RLIMIT_FSIZE or a quota, SQLite reports IOERR instead of FULL.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# A file or disk that becomes read-only while it is open.
_READ_ONLY = {errno.EROFS, errno.EPERM, errno.EACCES}


@contextmanager
def translated(path: Path, connection: apsw.Connection | None = None) -> Iterator[None]:
    """Translate the errors that SQLite raises inside."""
    try:
        yield
    except apsw.Error as exc:
        raise translate(exc, path, connection) from exc


def translate(exc: apsw.Error, path: Path, connection: apsw.Connection | None) -> StoreError:
    """Return the error of the contract, with a text for the user."""
    system_errno = connection.system_errno if connection is not None else 0
    match exc:
        case apsw.FullError():
            return StoreFull(f"no space left for {path}")
        case apsw.IOError() if system_errno in _NO_ROOM:
            return StoreFull(f"no space left for {path}")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return AccessDenied(
                f"{path} cannot be written: check the permissions of the file and its folder"
            )
        case apsw.IOError() if system_errno in _READ_ONLY:
            reason = os.strerror(system_errno).lower()
            return AccessDenied(
                f"{path} cannot be written ({reason}): check its disk and permissions"
            )
        case apsw.CantOpenError():
            return AccessDenied(
                f"{path} cannot be opened: check that its folder exists and may be written"
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreDamaged(
                f"{path} is damaged or not an SQLite file ({exc}): restore it from a backup"
            )
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailable(
                f"{path} is locked by another program: close that program and try again"
            )
        case _:
            return StoreUnavailable(f"{path}: {exc}")


def is_missing_table(exc: apsw.Error) -> bool:
    """Return whether a read found no table, because nothing was written to it yet.

    SQLite reports a change of the schema if other tables are being created at the same moment.
    """
    is_kind = isinstance(exc, apsw.SQLError | apsw.SchemaChangeError)
    return is_kind and str(exc).startswith("no such table")
