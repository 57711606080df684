"""The store in one Azure Storage account."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from postroom.storage.azure import blobs, leases, queues, schema
from postroom.storage.azure.blobs import AzureContainer
from postroom.storage.azure.connection import PATIENCE_SECONDS, Connection
from postroom.storage.azure.queues import FIRST_PAUSE, LONGEST_PAUSE, AzureQueue, PollingPace
from postroom.storage.azure.storage_account import account_of
from postroom.storage.azure.tables import AzureTable
from postroom.storage.checked import CheckedStore
from postroom.storage.contract.blobs import Container
from postroom.storage.contract.queues import Queue, QueueInfo
from postroom.storage.contract.store import Lease, StoreInfo
from postroom.storage.contract.tables import Table
from postroom.storage.errors import InvalidName, InvalidStoreUrl
from postroom.storage.names import check_table_name

_SLOWEST_POLL = 300.0


async def connect(url: str, connection_string: str = "") -> AzureStore:
    """Open the account of the connection string (`azure://`) or of the URL (`azure://ACCOUNT`).

    `?poll=SECONDS` is the longest pause between two polls of an empty queue.
    """
    url, longest_pause = without_poll(url)
    account = account_of(url, connection_string)
    _quieten_sdk()
    connection = Connection(account)
    try:
        await schema.prepare(connection)
    except BaseException:
        await connection.close()
        raise
    connection.patience = PATIENCE_SECONDS
    return AzureStore(connection, PollingPace(longest_pause))


def without_poll(url: str) -> tuple[str, float]:
    """Return the URL without `?poll=…`, and the longest pause between two polls of a queue."""
    rest, separator, query = url.partition("?")
    if not separator:
        return url, LONGEST_PAUSE
    found = re.fullmatch(r"poll=(\d{1,4}(?:\.\d{1,3})?)", query)
    if found is None or not FIRST_PAUSE <= float(found[1]) <= _SLOWEST_POLL:
        raise InvalidStoreUrl(
            f"only poll={FIRST_PAUSE:g} to {_SLOWEST_POLL:g} may follow azure://…?:"
            " the longest pause between two polls of an empty queue, in seconds"
        )
    return rest, float(found[1])


class AzureStore(CheckedStore):
    def __init__(self, connection: Connection, pace: PollingPace) -> None:
        self._connection = connection
        self._pace = pace

    @property
    def requests(self) -> Mapping[str, int]:
        """The number of requests to each service (`table`, `queue`, `blob`) so far."""
        return self._connection.requests

    def table(self, name: str) -> Table:
        return AzureTable(name, self._connection)

    def queue(self, name: str) -> Queue:
        return AzureQueue(name, self._connection, self._pace)

    def container(self, name: str) -> Container:
        return AzureContainer(name, self._connection)

    async def tables(self) -> list[str]:
        async def read() -> list[str]:
            listed: Any = self._connection.tables.list_tables()
            return [str(found.name) async for found in listed]

        return sorted(filter(_is_ours, await self._connection.run(read, repeatable=True)))

    async def queues(self) -> list[QueueInfo]:
        return await queues.read_infos(self._connection, self._pace)

    async def containers(self) -> list[str]:
        return await blobs.list_names(self._connection)

    async def _wait_for_messages(
        self, names: frozenset[str] | None, excluding: frozenset[str], timeout: float
    ) -> frozenset[str]:
        return await queues.wait_for_messages(
            self._connection, self._pace, names, excluding, timeout
        )

    async def _acquire_lease(self, name: str, seconds: float) -> Lease | None:
        return await leases.acquire(self._connection, name, seconds)

    async def renew_lease(self, lease: Lease) -> None:
        await leases.renew(self._connection, lease)

    async def release_lease(self, lease: Lease) -> None:
        await leases.release(self._connection, lease)

    async def info(self) -> StoreInfo:
        version = await schema.read_version(self._connection)
        service = f"Azure Storage (API {self._connection.blobs.api_version})"
        return StoreInfo(service, self._connection.location, version)

    async def close(self) -> None:
        await self._connection.close()


def _is_ours(table: str) -> bool:
    """Return whether a table of this name can be ours: not `$MetricsHourPrimary`."""
    try:
        check_table_name(table)
    except InvalidName:
        return False
    return True


def _quieten_sdk() -> None:
    """Silence the SDK, which logs each request as INFO and expected responses as warnings, unless a
    level was set explicitly."""
    for name, level in (("azure", logging.WARNING), ("azure.storage", logging.ERROR)):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)
