"""The contract of an open store: its tables, queues and containers, writes in order, and leases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Self, TypeAlias

import msgspec

from postroom.storage.contract.blobs import Container
from postroom.storage.contract.queues import MessageToPut, Queue, QueueInfo, QueueMessage
from postroom.storage.contract.tables import Operation, Table


class Lease(msgspec.Struct, frozen=True):
    """The exclusive right to a name for `seconds`, from when it was acquired or renewed.

    `fencing` is larger than that of every earlier lease of this name, so a holder that was
    suspended and returns late can be recognised. `seconds` may be more than requested (on Azure, at
    least 15).
    """

    name: str
    fencing: int
    seconds: float
    token: str


class StoreInfo(msgspec.Struct, frozen=True):
    """A description for people: engine and its version, location (without secrets), schema
    version."""

    engine: str
    location: str
    schema_version: int


class Batch(msgspec.Struct, frozen=True):
    """A step of `Store.write_in_order` that does the same as `Table.apply`."""

    table: str
    operations: Sequence[Operation]


class Finish(msgspec.Struct, frozen=True):
    """A step of `Store.write_in_order` that does the same as `Queue.delete` for each of these
    messages of one queue."""

    messages: Sequence[QueueMessage]


class Put(msgspec.Struct, frozen=True):
    """A step of `Store.write_in_order` that does the same as `Queue.put_many`."""

    queue: str
    messages: Sequence[MessageToPut]


Step: TypeAlias = Batch | Finish | Put


class Server(msgspec.Struct, frozen=True):
    """A database server. `history` changes when a standby is promoted, `started_at` whenever the
    server starts. Both are empty if unknown."""

    history: str = ""
    started_at: str = ""


class Store(ABC):
    """An open store. `async with` closes it."""

    @abstractmethod
    def table(self, name: str) -> Table:
        """Return the table of this name: 3 to 63 lower-case letters and digits."""

    @abstractmethod
    def queue(self, name: str) -> Queue:
        """Return the queue of this name: a path of up to 255 printable characters."""

    @abstractmethod
    def container(self, name: str) -> Container:
        """Return the container of this name: 3 to 63 lower-case letters, digits, single hyphens."""

    @abstractmethod
    async def tables(self) -> list[str]:
        """Return the names of all tables, sorted."""

    @abstractmethod
    async def queues(self) -> list[QueueInfo]:
        """Return all queues, sorted by name."""

    @abstractmethod
    async def containers(self) -> list[str]:
        """Return the names of all containers, sorted."""

    async def write_in_order(self, steps: Sequence[Step]) -> None:
        """Do one step after the other. The first one that fails raises its error: earlier steps are
        done, later ones are not.

        If the process dies, the steps up to one of them have been done. Where possible, an engine
        does all of them in one transaction.
        """
        for step in steps:
            match step:
                case Batch(table, operations):
                    await self.table(table).apply(operations)
                case Finish(messages):
                    for message in messages:
                        await self.queue(message.queue).delete(message)
                case Put(queue, messages):
                    await self.queue(queue).put_many(messages)

    @abstractmethod
    async def wait_for_messages(
        self,
        queues: Collection[str] | None = None,
        *,
        excluding: Collection[str] = (),
        timeout: float,
    ) -> frozenset[str]:
        """Wait until at least one of these queues has a ready message; return those that have one,
        or nothing after `timeout` seconds.

        None stands for all queues, including those that are created while waiting. Queues in
        `excluding` are ignored. Otherwise as `Queue.wait`.
        """

    @abstractmethod
    async def acquire_lease(self, name: str, *, seconds: float) -> Lease | None:
        """Acquire a lease for 1 to 60 seconds; return None while there is another holder.

        A holder that dies is replaced once its lease has expired.
        """

    @abstractmethod
    async def renew_lease(self, lease: Lease) -> None:
        """Extend the lease to `lease.seconds` from now. `LeaseLost` if it was released, or expired
        and went to another holder."""

    @abstractmethod
    async def release_lease(self, lease: Lease) -> None:
        """Release the lease immediately. `LeaseLost` as for `renew_lease`."""

    @property
    def server(self) -> Server:
        """The server of the newest connection; always the same for an engine without a server."""
        return Server()

    @abstractmethod
    async def info(self) -> StoreInfo:
        """Return what the URL leads to. Fails if it cannot be reached."""

    @abstractmethod
    async def close(self) -> None:
        """Finish running calls and close the store. Later calls raise `StoreClosed`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
