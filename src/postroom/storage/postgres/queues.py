"""Queues: one table of messages, received in the order in which they become visible."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from postroom.storage.checked import CheckedQueue, check_message
from postroom.storage.contract.queues import MessageToPut, QueueInfo, QueueMessage, StoredMessage
from postroom.storage.errors import InvalidValue
from postroom.storage.postgres import queue_sql
from postroom.storage.postgres.batches import Writing
from postroom.storage.postgres.connection import (
    Connection,
    changed_by,
    joined,
    rows_of,
)
from postroom.storage.postgres.queue_state import QueueState

_FIRST_ID = "00000000-0000-0000-0000-000000000000"
_PUT_MESSAGES = 1000
_PUT_BYTES = 1_000_000


class _Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message to put, as the statement reads it from JSON."""

    id: str
    body: str
    delay: float = 0.0
    ttl: float | None = None
    properties: dict[str, str] | None = None


class PostgresQueue(CheckedQueue):
    def __init__(self, name: str, state: QueueState) -> None:
        super().__init__(name)
        self._state = state
        self._database = state.database

    async def _put(self, messages: Sequence[MessageToPut]) -> list[str]:
        await self._state.sweep()
        ids = [self._state.ids.next() for _ in messages]
        for values in self._portions(messages, ids):
            await self._database.execute(queue_sql.PUT, values)
            self._state.bell.ring(self.name)
        return ids

    def _portions(
        self, messages: Sequence[MessageToPut], ids: Sequence[str]
    ) -> Iterator[dict[str, object]]:
        for portion in _as_rows(messages, ids):
            yield {
                "queue": self.name,
                "put": portion[0].id,
                "messages": msgspec.json.encode(portion).decode(),
            }

    def putting(self, messages: Sequence[MessageToPut]) -> Writing:
        """Return the work of `put_many`, as one of several steps."""
        for message in messages:
            check_message(message)
        ids = [self._state.ids.next() for _ in messages]
        portions = list(self._portions(messages, ids))

        async def write(connection: Connection, again: bool) -> None:
            for values in portions:
                await changed_by(connection, queue_sql.PUT, values)

        async def is_done(connection: Connection) -> bool:
            return bool(await rows_of(connection, queue_sql.IS_PUT, portions[-1]))

        return Writing(write, is_done, [(queue_sql.PUT, values) for values in portions])

    async def _receive(self, limit: int, lease: float) -> list[QueueMessage]:
        receipt = str(secrets.randbits(63))
        values = {"queue": self.name, "limit": limit, "lease": float(lease), "receipt": receipt}

        async def work(connection: Connection, again: bool) -> list[QueueMessage]:
            rows = await rows_of(connection, queue_sql.CLAIMED, values) if again else []
            while True:
                rows = rows or await self._claim(connection, values)
                left = await self._without_expired(connection, rows, receipt)
                if left or not rows:
                    return [_as_message(self.name, row, receipt) for row in left]
                rows = []

        return await self._database.run(work)

    async def _claim(
        self, connection: Connection, values: dict[str, object]
    ) -> list[tuple[Any, ...]]:
        """Claim from the floor, and if there is nothing, from the very head."""
        head = self._state.head(self.name)
        floor = head.floor()
        while True:
            rows = await rows_of(connection, queue_sql.CLAIM, {**values, "floor": floor})
            rows.sort(key=lambda row: (row[5], row[0]))
            head.found(floor, rows[0][7] if rows else None)
            if rows or floor is None:
                return rows
            floor = None

    async def _without_expired(
        self, connection: Connection, rows: list[tuple[Any, ...]], receipt: str
    ) -> list[tuple[Any, ...]]:
        for row in rows:
            if row[6]:
                await changed_by(connection, queue_sql.DELETE, {"id": row[0], "receipt": receipt})
        return [row for row in rows if not row[6]]

    async def _receive_by_id(self, identity: str, lease: float) -> QueueMessage | None:
        if not _is_id(identity):
            return None
        receipt = str(secrets.randbits(63))
        values = {"queue": self.name, "id": identity, "lease": float(lease), "receipt": receipt}

        async def work(connection: Connection, again: bool) -> QueueMessage | None:
            rows = await rows_of(connection, queue_sql.CLAIMED, values) if again else []
            rows = rows or await rows_of(connection, queue_sql.CLAIM_ONE, values)
            return _as_message(self.name, rows[0], receipt) if rows else None

        return await self._database.run(work)

    async def _renew(self, message: QueueMessage, lease: float) -> QueueMessage:
        async def work(connection: Connection, again: bool) -> None:
            if not await self._change(connection, queue_sql.RENEW, message, lease=float(lease)):
                raise self._lease_lost(message)

        await self._database.run(work)
        return message

    async def _release(self, message: QueueMessage, delay: float, count_attempt: bool) -> None:
        uncounted = 0 if count_attempt else 1

        async def work(connection: Connection, again: bool) -> None:
            changed = await self._change(
                connection, queue_sql.RELEASE, message, delay=float(delay), uncounted=uncounted
            )
            # After a lost reply, it may have been us who released it.
            if not changed and not again:
                raise self._lease_lost(message)

        await self._database.run(work)
        self._state.bell.ring(self.name)

    async def _move(
        self, message: QueueMessage, to: str, delay: float, properties: Mapping[str, str] | None
    ) -> str:
        replaced = None if properties is None else msgspec.json.encode(properties).decode()
        values = {"to": to, "delay": float(delay), "properties": replaced}

        async def work(connection: Connection, again: bool) -> None:
            if await self._change(connection, queue_sql.MOVE, message, **values):
                return
            # After a lost reply: unless it is still here, it was moved.
            if not again or await self._is_here(connection, message, to):
                raise self._lease_lost(message)

        await self._database.run(work)
        self._state.bell.ring(to)
        return message.id

    async def _is_here(self, connection: Connection, message: QueueMessage, to: str) -> bool:
        rows = await rows_of(connection, queue_sql.WHERE, {"id": message.id})
        return to != self.name and rows == [(self.name,)]

    async def _delete(self, message: QueueMessage) -> None:
        await self._database.run(self.finishing([message]).write)

    def finishing(self, messages: Sequence[QueueMessage]) -> Writing:
        """Return the work of `delete` for some messages, as one of several steps."""
        leased = [self._leased(each) for each in messages]

        async def write(connection: Connection, again: bool) -> None:
            for each in leased:
                if await self._change(connection, queue_sql.DELETE, each):
                    continue
                if not again or await rows_of(connection, queue_sql.EXISTS, {"id": each.id}):
                    raise self._lease_lost(each)

        async def is_done(connection: Connection) -> bool:
            for each in leased:
                if await rows_of(connection, queue_sql.EXISTS, {"id": each.id}):
                    return False
            return True

        if not all(_is_id(each.id) and _is_receipt(each.receipt) for each in leased):
            return Writing(write, is_done, None)
        values: dict[str, object] = {
            "ids": joined([each.id for each in leased]),
            "receipts": joined([each.receipt for each in leased]),
            "wanted": len(leased),
        }
        return Writing(write, is_done, [(queue_sql.DEMAND_DELETE, values)])

    async def _peek(self, limit: int) -> list[QueueMessage]:
        rows = await self._database.fetch(queue_sql.PEEK, {"queue": self.name, "limit": limit})
        return [_as_message(self.name, row, "") for row in rows]

    async def _browse(self, limit: int, after: str | None) -> list[StoredMessage]:
        if after is not None and not _is_id(after):
            raise InvalidValue(f"{after!r} is not the id of a queue message")
        values = {"queue": self.name, "limit": limit, "after": after or _FIRST_ID}
        return [
            StoredMessage(_as_message(self.name, row, ""), row[5], row[6])
            for row in await self._database.fetch(queue_sql.BROWSE, values)
        ]

    async def info(self) -> QueueInfo:
        rows = await self._database.fetch(queue_sql.INFO_ONE, {"queue": self.name})
        return QueueInfo(*rows[0]) if rows else QueueInfo(self.name, 0, None)

    async def _wait(self, timeout: float) -> bool:
        return bool(await self._state.wait(frozenset({self.name}), frozenset(), timeout))

    async def purge(self) -> None:
        await self._database.execute(queue_sql.PURGE, {"queue": self.name})

    async def drop(self) -> None:
        values = {"queue": self.name}

        async def work(connection: Connection, again: bool) -> None:
            async with connection.transaction():
                await connection.execute(queue_sql.DROP_LOCK, values)
                await connection.execute(queue_sql.PURGE, values)
                await connection.execute(queue_sql.DROP, values)

        await self._database.run(work)

    async def _change(
        self, connection: Connection, sql: bytes, message: QueueMessage, **values: object
    ) -> bool:
        """Change the message if its receipt is still the latest one."""
        if not _is_id(message.id) or not _is_receipt(message.receipt):
            return False
        values.update(id=message.id, receipt=message.receipt)
        return await changed_by(connection, sql, values) == 1


def _is_receipt(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) < 2**63


def _as_rows(messages: Sequence[MessageToPut], ids: Sequence[str]) -> Iterator[list[_Row]]:
    """Yield the rows in portions that fit into one statement."""
    portion: list[_Row] = []
    size = 0
    for message, number in zip(messages, ids, strict=True):
        properties = dict(message.properties) if message.properties else None
        portion.append(_Row(number, message.body, float(message.delay), message.ttl, properties))
        size += len(message.body)
        if len(portion) == _PUT_MESSAGES or size > _PUT_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _as_message(queue: str, row: tuple[Any, ...], receipt: str) -> QueueMessage:
    """Return a message from the columns id, body, properties, dequeue_count, enqueued_at."""
    number, body, properties, count, enqueued_at = row[:5]
    decoded = {} if properties is None else msgspec.json.decode(properties)
    return QueueMessage(number, queue, body, decoded, count, enqueued_at, receipt)


def _is_id(text: str) -> bool:
    """Return whether this can be the ID of a message; others are not sent to the server."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
