"""Every error that a store can raise. No driver's exception leaves this package.

    PostroomError
    └── StoreError
        ├── InvalidRequest (ValueError)      the caller's mistake; nothing was written
        │   ├── InvalidName                  of a table, queue, container, blob, lease, property
        │   ├── InvalidKey                   a partition or row key
        │   ├── InvalidValue                 a property's value, a filter, a limit, a duration
        │   ├── InvalidBatch                 empty, over 100, mixed partitions, a row twice
        │   ├── TooLarge                     an entity, a property, a queue message
        │   └── InvalidStoreUrl              an unknown scheme, a missing part, a missing extra
        ├── Conflict                         the data was not as the caller expected
        │   ├── AlreadyExists
        │   ├── NotFound (LookupError)
        │   └── StaleETag                    it exists, but was changed in the meantime
        ├── LeaseLost                        of a queue message or of a named lease
        ├── StoreOutage                      the store cannot be used now; the caller waits
        │   ├── StoreUnavailable (ConnectionError)  cannot be reached, or gave up after retries
        │   │   └── StoreClosed
        │   ├── StoreMissing (FileNotFoundError)    the file was deleted or replaced
        │   ├── AccessDenied (PermissionError)      wrong password, missing right, read-only file
        │   └── StoreFull (OSError)                 no space on the disk, or over a quota
        └── StoreDamaged                     corrupt, or not a store of ours
            ├── SchemaTooNew                 written by a newer Postroom
            └── EngineTooOld                 a library or server with a known defect

A `Conflict` that comes out of a batch carries the position of the operation that failed. Messages
name hosts, files and keys, and never a password or an account key.
"""

from __future__ import annotations

from postroom.errors import PostroomError


class StoreError(PostroomError):
    """Any failure of the store or of the connection to it."""


class InvalidRequest(StoreError, ValueError):
    """The request can never succeed. It was refused before anything was written."""


class InvalidName(InvalidRequest):
    """A name that not every engine could store."""


class InvalidKey(InvalidRequest):
    """A partition or row key that not every engine could store."""


class InvalidValue(InvalidRequest):
    """A value of a wrong type or outside its range."""


class InvalidBatch(InvalidRequest):
    """A batch that is empty, too long, spans partitions or names a row twice."""


class TooLarge(InvalidRequest):
    """More than every engine can store at once."""


class InvalidStoreUrl(InvalidRequest):
    """A store URL that names no engine, or lacks a part that its engine needs."""


class Conflict(StoreError):
    """The data was not as the operation expected. Nothing in its batch was written.

    `what` names the thing; `operation` is the position in the batch of the operation that failed
    (0 for a single operation).
    """

    def __init__(self, what: str, operation: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.operation = operation


class AlreadyExists(Conflict):
    """Something with this key or name exists already."""

    def __str__(self) -> str:
        return f"{self.what} already exists"


class NotFound(Conflict, LookupError):
    """Nothing with this key or name exists."""

    def __str__(self) -> str:
        return f"{self.what} does not exist"


class StaleETag(Conflict):
    """It exists, but has changed since the given ETag was read."""

    def __str__(self) -> str:
        return f"{self.what} was changed by another caller"


class LeaseLost(StoreError):
    """The lease expired and another holder took over, or what was leased is gone."""


class StoreOutage(StoreError):
    """The store cannot be used now, and may be usable later without any change by the caller.

    Loops that wait for the store catch this class: it makes no difference to them whether the
    server is down, its disk is full or the file has become read-only.
    """


class StoreUnavailable(StoreOutage, ConnectionError):
    """The store did not respond, and retrying did not help."""


class StoreClosed(StoreUnavailable):
    """This process has closed the store."""


class StoreMissing(StoreOutage, FileNotFoundError):
    """The file of a store was deleted or replaced while it was in use, or has disappeared."""


class AccessDenied(StoreOutage, PermissionError):
    """The store refused: wrong credentials, missing rights, or a read-only file."""


class StoreFull(StoreOutage, OSError):
    """There is no space left. Nothing was written."""


class StoreDamaged(StoreError):
    """This is not a store of Postroom, or it is corrupt."""


class SchemaTooNew(StoreDamaged):
    """A newer version of Postroom wrote this store; this version would damage it."""


class EngineTooOld(StoreDamaged):
    """The engine's library or server is too old to be trusted with data."""
