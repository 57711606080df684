"""Named leases: Azure's own leases of blobs, one blob per name.

The fencing number is in the blob's metadata. Only the holder of the lease can raise it, and does so
before the lease is returned.
"""

from __future__ import annotations

import math
import uuid
from typing import Final

from azure.core import MatchConditions
from azure.storage.blob.aio import BlobClient, BlobLeaseClient

from postroom.storage.azure.blobs import SYSTEM_CONTAINER
from postroom.storage.azure.connection import Connection
from postroom.storage.azure.encoding import azure_name, metadata_of
from postroom.storage.azure.errors import Refused
from postroom.storage.contract.store import Lease
from postroom.storage.errors import LeaseLost

SHORTEST_SECONDS: Final = 15
_FOLDER: Final = "leases/"
_FENCING: Final = "fencing"


async def acquire(connection: Connection, name: str, seconds: float) -> Lease | None:
    blob = _blob(connection, name)
    length = max(SHORTEST_SECONDS, math.ceil(seconds))
    token = str(uuid.uuid4())
    try:
        await _take(connection, blob, name, token, length)
        fencing = await _raise_fencing(connection, blob, name, token)
    except Refused as refused:
        if refused.status in (409, 412):  # held by another, who may have taken it just now
            return None
        raise
    return Lease(name, fencing, float(length), token)


async def renew(connection: Connection, lease: Lease) -> None:
    client = BlobLeaseClient(_blob(connection, lease.name), lease.token)
    try:
        await connection.run(client.renew, repeatable=True)
    except Refused as refused:
        raise _lost(lease, refused) from refused


async def release(connection: Connection, lease: Lease) -> None:
    client = BlobLeaseClient(_blob(connection, lease.name), lease.token)
    try:
        await connection.run(client.release)
    except Refused as refused:
        raise _lost(lease, refused) from refused


async def _take(
    connection: Connection, blob: BlobClient, name: str, token: str, seconds: int
) -> None:
    # We choose the token, so acquiring the lease again after a lost response is harmless.
    client = BlobLeaseClient(blob, token)
    for _ in range(2):
        try:
            await connection.run(lambda: client.acquire(seconds), repeatable=True)
        except Refused as refused:
            if not refused.nothing_there:
                raise
            await _make(connection, blob, name)
        else:
            return
    await connection.run(lambda: client.acquire(seconds), repeatable=True)


async def _make(connection: Connection, blob: BlobClient, name: str) -> None:
    container = connection.blobs.get_container_client(SYSTEM_CONTAINER)
    metadata = {**metadata_of(name), _FENCING: "0"}
    try:
        await connection.run(
            lambda: blob.upload_blob(
                b"", metadata=metadata, overwrite=True, match_condition=MatchConditions.IfMissing
            ),
            repeatable=True,
            make=lambda: connection.create(container.create_container),
        )
    except Refused as refused:
        # Another candidate has created it, and may hold it by now.
        if refused.status not in (409, 412):
            raise


async def _raise_fencing(connection: Connection, blob: BlobClient, name: str, token: str) -> int:
    found = await connection.run(blob.get_blob_properties, repeatable=True)
    fencing = int((found.metadata or {}).get(_FENCING, "0")) + 1
    metadata = {**metadata_of(name), _FENCING: str(fencing)}
    await connection.run(lambda: blob.set_blob_metadata(metadata, lease=token), repeatable=True)
    return fencing


def _blob(connection: Connection, name: str) -> BlobClient:
    return connection.blobs.get_blob_client(SYSTEM_CONTAINER, _FOLDER + azure_name(name))


def _lost(lease: Lease, refused: Refused) -> Exception:
    if refused.nothing_there or refused.status in (400, 409, 412):
        return LeaseLost(f"the lease {lease.name!r} now has another holder")
    return refused
