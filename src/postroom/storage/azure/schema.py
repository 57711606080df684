"""Which version of this layout an account holds, and how an older one becomes today's.

The version is a blob in the system container. Tables, queues and containers are not listed here:
they are made by their first write.
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
"""What leads from version 1 to 2, from 2 to 3, and so on. Two processes may do a step at once, and
one may die in it: each step must do no harm when it is done again."""

VERSION: Final = 1 + len(_UPGRADES)


async def prepare(connection: Connection) -> None:
    """Write the version into a new account; upgrade an older layout; refuse a newer one."""
    found = await _read(connection)
    while found is None:
        await _write(connection, VERSION, None)
        found = await _read(connection)
    version, etag = found
    if version > VERSION:
        raise SchemaTooNew(
            f"the store at {connection.location} has schema version {version};"
            f" this Postroom knows versions up to {VERSION}"
        )
    while version < VERSION:
        await _UPGRADES[version - 1](connection)
        await _write(connection, version + 1, etag)
        found = await _read(connection)
        if found is None:
            raise StoreDamaged(f"the schema version at {connection.location} has vanished")
        version, etag = found


async def read_version(connection: Connection) -> int:
    found = await _read(connection)
    if found is None:
        raise StoreDamaged(f"there is no schema version at {connection.location}")
    return found[0]


async def _read(connection: Connection) -> tuple[int, str] | None:
    """The version and its ETag, or None in an account that has no store yet."""
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
    """Write the version unless somebody else has been quicker: then theirs counts."""
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
