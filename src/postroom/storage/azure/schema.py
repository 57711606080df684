"""The version of the schema in an account, and upgrades from older versions.

The version is a blob in the system container. Tables, queues and containers are created by their
first write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from azure.core import MatchConditions

from postroom.storage.azure.blobs import SYSTEM_CONTAINER
from postroom.storage.azure.connection import Connection
from postroom.storage.azure.errors import Refused
from postroom.storage.errors import SchemaTooNew, StoreDamaged

_BLOB: Final = "schema-version"

_UPGRADES: Final[list[Callable[[Connection], Awaitable[None]]]] = []
"""The upgrades from version 1 to 2, from 2 to 3, and so on. Two processes may run one at the same
time, and one may die in it, so each must be repeatable."""

VERSION: Final = 1 + len(_UPGRADES)


async def prepare(connection: Connection) -> None:
    """Write the version into a new account, upgrade an older schema, refuse a newer one."""
    found = await _read(connection)
    while found is None:
        await _write(connection, VERSION, None)
        found = await _read(connection)
    version, etag = found
    if version > VERSION:
        raise SchemaTooNew(
            f"the store at {connection.location} has schema version {version};"
            f" this version of Postroom supports up to {VERSION}: upgrade Postroom"
        )
    while version < VERSION:
        await _UPGRADES[version - 1](connection)
        await _write(connection, version + 1, etag)
        found = await _read(connection)
        if found is None:
            raise StoreDamaged(f"the schema version at {connection.location} has disappeared")
        version, etag = found


async def read_version(connection: Connection) -> int:
    found = await _read(connection)
    if found is None:
        raise StoreDamaged(f"there is no schema version at {connection.location}")
    return found[0]


async def _read(connection: Connection) -> tuple[int, str] | None:
    """Return the version and its ETag, or None if the account has no store yet."""
    blob = connection.blobs.get_blob_client(SYSTEM_CONTAINER, _BLOB)

    async def read() -> tuple[bytes, str]:
        download: Any = await blob.download_blob()
        return await download.readall(), str(download.properties.etag)

    try:
        text, etag = await connection.run(read, repeatable=True)
    except Refused as refused:
        if refused.nothing_there:
            return None
        raise
    if not text.isdigit() or int(text) < 1:
        raise StoreDamaged(f"the schema version at {connection.location} is not a number")
    return int(text), etag


async def _write(connection: Connection, version: int, etag: str | None) -> None:
    """Write the version, unless another process was quicker."""
    blob = connection.blobs.get_blob_client(SYSTEM_CONTAINER, _BLOB)
    container = connection.blobs.get_container_client(SYSTEM_CONTAINER)
    condition: dict[str, Any] = (
        {"match_condition": MatchConditions.IfMissing}
        if etag is None
        else {"match_condition": MatchConditions.IfNotModified, "etag": etag}
    )
    try:
        await connection.run(
            lambda: blob.upload_blob(str(version).encode(), overwrite=True, **condition),
            repeatable=True,
            make=lambda: connection.create(container.create_container),
        )
    except Refused as refused:
        if refused.status not in (409, 412):
            raise
