"""SQLite's errors as the store's own."""

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

# With RLIMIT_FSIZE or a quota SQLite sees a failed write (IOERR) where a full disk gives FULL.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# A file or disk that becomes read-only while it is open.
_READ_ONLY = {errno.EROFS, errno.EPERM, errno.EACCES}


@contextmanager
def translated(path: Path, connection: apsw.Connection | None = None) -> Iterator[None]:
    """Turn whatever SQLite raises inside into one of the store's errors."""
    try:
        yield
    except apsw.Error as exc:
        raise translate(exc, path, connection) from exc


def translate(exc: apsw.Error, path: Path, connection: apsw.Connection | None) -> StoreError:
    """The error that says what it means for the user."""
    system_errno = connection.system_errno if connection is not None else 0
    match exc:
        case apsw.FullError():
            return StoreFull(f"no room left for {path}")
        case apsw.IOError() if system_errno in _NO_ROOM:
            return StoreFull(f"no room left for {path}")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return AccessDenied(f"{path} cannot be written: check the rights of file and folder")
        case apsw.IOError() if system_errno in _READ_ONLY:
            reason = os.strerror(system_errno).lower()
            return AccessDenied(f"{path} cannot be written ({reason}): check its disk and rights")
        case apsw.CantOpenError():
            return AccessDenied(
                f"{path} cannot be opened: check that its folder exists and may be written"
            )
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreDamaged(
                f"{path} is damaged or no SQLite file ({exc}); restore it from a backup"
            )
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailable(f"{path} was locked by another process for too long")
        case _:
            return StoreUnavailable(f"{path}: {exc}")


def is_missing_table(exc: apsw.Error) -> bool:
    """Tables are made by the first write: a read that comes before it finds nothing.

    SQLite calls it a change of the schema if other tables are being made at the same moment.
    """
    is_kind = isinstance(exc, apsw.SQLError | apsw.SchemaChangeError)
    return is_kind and str(exc).startswith("no such table")
