"""Queues: one table of messages, received in the order in which they become visible."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import apsw
import msgspec

from postroom.storage.checked import CheckedQueue, check_message
from postroom.storage.contract.queues import MessageToPut, QueueInfo, QueueMessage, StoredMessage
from postroom.storage.errors import InvalidValue
from postroom.storage.sqlite.bell import FileBell, QueueLook
from postroom.storage.sqlite.connection import Readers
from postroom.storage.sqlite.store_clock import StoreClock
from postroom.storage.sqlite.writer import Writer

_CREATE = "INSERT INTO queue (name) VALUES (?) ON CONFLICT DO NOTHING"
_ID = "SELECT id FROM queue WHERE name = ?"
_DROP = "DELETE FROM queue WHERE name = ?"
# Each message as [delay, time to live, body, properties]; all of them in one step (`writer.py`).
_PUT = """
INSERT INTO queue_message (queue, visible_at, enqueued_at, expires_at, body, properties)
SELECT :queue, :now + (value ->> 0), :now, :now + (value ->> 1), value ->> 2, value ->> 3
FROM json_each(:messages)
"""
_READY = """
FROM queue_message
WHERE queue = (SELECT id FROM queue WHERE name = :name) AND visible_at <= :now
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY visible_at, id LIMIT :limit
"""
_CLAIM = f"""
UPDATE queue_message
SET visible_at = :until, receipt = :receipt, dequeue_count = dequeue_count + 1
WHERE id IN (SELECT id {_READY})
"""
_ROWS = """
SELECT json_group_array(json_array(id, body, properties, dequeue_count, enqueued_at))
FROM (SELECT id, body, properties, dequeue_count, enqueued_at {which})
"""
_PEEK = _ROWS.format(which=_READY)
# The index finds the claimed ones by their new time; IDs are in the order of arrival.
_CLAIMED = _ROWS.format(
    which="""
FROM queue_message
WHERE queue = (SELECT id FROM queue WHERE name = :name) AND visible_at = :until
  AND receipt = :receipt
ORDER BY id
"""
)
# One message, wherever in the queue it is.
_CLAIM_ONE = """
UPDATE queue_message
SET visible_at = :until, receipt = :receipt, dequeue_count = dequeue_count + 1
WHERE id = :id AND queue = (SELECT id FROM queue WHERE name = :name) AND visible_at <= :now
  AND (expires_at IS NULL OR expires_at > :now)
"""
_read_rows = msgspec.json.Decoder(list[tuple[int, str, str, int, int]]).decode
_EXPIRE = (
    "DELETE FROM queue_message"
    " WHERE queue = (SELECT id FROM queue WHERE name = :name) AND expires_at <= :now"
    " AND visible_at <= :now"  # one that is leased may still be finished by its receiver
)
# The receipt changes with every receive: only the latest one matches.
_RENEW = "UPDATE queue_message SET visible_at = ? WHERE id = ? AND receipt = ?"
_RELEASE = (
    "UPDATE queue_message SET visible_at = ?, receipt = NULL, dequeue_count = dequeue_count - ?"
    " WHERE id = ? AND receipt = ?"
)
# The row stays where it is: the message is never in two queues, or in none.
_MOVE = """
UPDATE queue_message
SET queue = ?, visible_at = ?, receipt = NULL, dequeue_count = 0,
    properties = coalesce(?, properties)
WHERE id = ? AND receipt = ?
"""
_DELETE = "DELETE FROM queue_message WHERE id = ? AND receipt = ?"
# The same for many, each as [id, receipt], in one step (`writer.py`).
_DELETE_ALL = """
DELETE FROM queue_message WHERE id IN (
    SELECT message.id FROM json_each(?) AS gone CROSS JOIN queue_message AS message
    ON message.id = gone.value ->> 0 AND message.receipt = gone.value ->> 1
)
"""
# In the order of arrival: a message that is changed in the meantime keeps its ID.
_BROWSE = """
SELECT json_group_array(json_array(id, body, properties, dequeue_count, enqueued_at,
                                   visible_at, expires_at))
FROM (SELECT id, body, properties, dequeue_count, enqueued_at, visible_at, expires_at
      FROM queue_message
      WHERE queue = (SELECT id FROM queue WHERE name = :name) AND id > :after
      AND (expires_at IS NULL OR expires_at > :now)
      ORDER BY id LIMIT :limit)
"""
_read_browsed = msgspec.json.Decoder(list[tuple[int, str, str, int, int, int, int | None]]).decode
_PURGE = "DELETE FROM queue_message WHERE queue = (SELECT id FROM queue WHERE name = ?)"
_INFO = """
SELECT name,
  (SELECT count(*) FROM queue_message WHERE queue = queue.id)
  - (SELECT count(*) FROM queue_message WHERE queue = queue.id AND expires_at <= :now),
  (SELECT enqueued_at FROM queue_message
   WHERE queue = queue.id AND visible_at <= :now AND (expires_at IS NULL OR expires_at > :now)
   ORDER BY visible_at, id LIMIT 1)
FROM queue
"""
# When the first message of each queue becomes visible.
_FIRST_VISIBLE = """
SELECT name, (SELECT visible_at FROM queue_message WHERE queue = queue.id
              AND (expires_at IS NULL OR expires_at > :now)
              ORDER BY visible_at, id LIMIT 1)
FROM queue
WHERE (:queues IS NULL OR name IN (SELECT value FROM json_each(:queues)))
  AND name NOT IN (SELECT value FROM json_each(:excluding))
"""


class SqliteQueue(CheckedQueue):
    def __init__(
        self, name: str, writer: Writer, readers: Readers, bell: FileBell, clock: StoreClock
    ) -> None:
        super().__init__(name)
        self._clock = clock
        self._writer = writer
        self._readers = readers
        self._bell = bell

    async def _put(self, messages: Sequence[MessageToPut]) -> list[str]:
        last = await self._writer.run(self._putting(messages))
        self._bell.ring()
        # Nobody else writes during the transaction, so the IDs are consecutive.
        return [str(number) for number in range(last - len(messages) + 1, last + 1)]

    def putting(self, messages: Sequence[MessageToPut]) -> Callable[[apsw.Connection], object]:
        """Return the work of `put_many` in the writing thread, as a part of a larger job."""
        for message in messages:
            check_message(message)
        return self._putting(messages) if messages else lambda _: None

    def _putting(self, messages: Sequence[MessageToPut]) -> Callable[[apsw.Connection], int]:
        rows = msgspec.json.encode(
            [
                (
                    round(message.delay * 1_000_000),
                    None if message.ttl is None else round(message.ttl * 1_000_000),
                    message.body,
                    msgspec.json.encode(message.properties).decode(),
                )
                for message in messages
            ]
        ).decode()

        def write(connection: apsw.Connection) -> int:
            queue = _id_of(connection, self.name)
            connection.execute(_PUT, {"queue": queue, "now": self._clock.now(), "messages": rows})
            return connection.last_insert_rowid()

        return write

    async def _receive(self, limit: int, lease: float) -> list[QueueMessage]:
        receipt = secrets.randbits(62)

        def write(connection: apsw.Connection) -> list[QueueMessage]:
            now = self._clock.now()
            values = {"name": self.name, "now": now}
            connection.execute(_EXPIRE, values)
            values |= {"limit": limit, "until": now + round(lease * 1_000_000), "receipt": receipt}
            connection.execute(_CLAIM, values)
            if connection.changes() == 0:
                return []
            return self._messages(connection.execute(_CLAIMED, values).get, str(receipt))

        return await self._writer.run(write)

    async def _receive_by_id(self, identity: str, lease: float) -> QueueMessage | None:
        if not _is_id(identity):
            return None
        receipt = secrets.randbits(62)

        def write(connection: apsw.Connection) -> list[QueueMessage]:
            now = self._clock.now()
            until = now + round(lease * 1_000_000)
            values = {"name": self.name, "now": now, "until": until, "receipt": receipt}
            connection.execute(_CLAIM_ONE, {**values, "id": int(identity)})
            if connection.changes() == 0:
                return []
            return self._messages(connection.execute(_CLAIMED, values).get, str(receipt))

        return next(iter(await self._writer.run(write)), None)

    async def _renew(self, message: QueueMessage, lease: float) -> QueueMessage:
        await self._change(message, _RENEW, self._clock.after(lease))
        return message

    async def _release(self, message: QueueMessage, delay: float, count_attempt: bool) -> None:
        await self._change(message, _RELEASE, self._clock.after(delay), 0 if count_attempt else 1)
        self._bell.ring()

    async def _move(
        self, message: QueueMessage, to: str, delay: float, properties: Mapping[str, str] | None
    ) -> str:
        replaced = None if properties is None else msgspec.json.encode(properties).decode()

        def write(connection: apsw.Connection) -> None:
            values = (_id_of(connection, to), self._clock.after(delay), replaced)
            self._change_in(connection, message, _MOVE, *values)

        await self._writer.run(write)
        self._bell.ring()
        return message.id

    async def _delete(self, message: QueueMessage) -> None:
        await self._change(message, _DELETE)

    def finishing(self, messages: Sequence[QueueMessage]) -> Callable[[apsw.Connection], None]:
        """Return the work of `delete` for some messages in the writing thread, as a part of a
        larger job: all of them, or none."""
        leased = [self._leased(each) for each in messages]
        rows = msgspec.json.encode([(int(each.id), int(each.receipt)) for each in leased]).decode()

        def delete(connection: apsw.Connection) -> None:
            connection.execute(_DELETE_ALL, (rows,))
            if connection.changes() != len(leased):
                raise self._lease_lost(leased[0])

        return delete

    async def _peek(self, limit: int) -> list[QueueMessage]:
        values = {"name": self.name, "now": self._clock.now(), "limit": limit}
        return await self._readers.run(
            lambda connection: self._messages(connection.execute(_PEEK, values).get)
        )

    async def _browse(self, limit: int, after: str | None) -> list[StoredMessage]:
        if after is not None and not _is_id(after):
            raise InvalidValue(f"{after!r} is not the id of a queue message")
        values = {
            "name": self.name,
            "now": self._clock.now(),
            "after": int(after or "0"),
            "limit": limit,
        }

        def read(connection: apsw.Connection) -> str:
            found: str = connection.execute(_BROWSE, values).get
            return found

        return [
            StoredMessage(
                QueueMessage(
                    str(number),
                    self.name,
                    body,
                    msgspec.json.decode(properties),
                    count,
                    self._clock.as_datetime(enqueued_at),
                ),
                self._clock.as_datetime(visible_at),
                _time_or_none(self._clock, expires_at),
            )
            for number, body, properties, count, enqueued_at, visible_at, expires_at in (
                _read_browsed(await self._readers.run(read))
            )
        ]

    async def info(self) -> QueueInfo:
        infos = await self._readers.run(lambda c: read_infos(c, self._clock, self.name))
        return infos[0] if infos else QueueInfo(self.name, 0, None)

    async def _wait(self, timeout: float) -> bool:
        found = await wait_for_messages(
            self._readers,
            self._bell,
            self._clock,
            frozenset({self.name}),
            frozenset(),
            timeout,
        )
        return bool(found)

    async def purge(self) -> None:
        await self._writer.run(lambda c: c.execute(_PURGE, (self.name,)))

    async def drop(self) -> None:
        def write(connection: apsw.Connection) -> None:
            connection.execute(_PURGE, (self.name,))
            connection.execute(_DROP, (self.name,))

        await self._writer.run(write)

    def _messages(self, rows: str, receipt: str = "") -> list[QueueMessage]:
        return [
            QueueMessage(
                str(number),
                self.name,
                body,
                msgspec.json.decode(properties),
                count,
                self._clock.as_datetime(enqueued_at),
                receipt,
            )
            for number, body, properties, count, enqueued_at in _read_rows(rows)
        ]

    async def _change(self, message: QueueMessage, sql: str, *values: int) -> None:
        """Change the message if its receipt is still the latest one."""
        await self._writer.run(lambda c: self._change_in(c, message, sql, *values))

    def _change_in(
        self,
        connection: apsw.Connection,
        message: QueueMessage,
        sql: str,
        *values: int | str | None,
    ) -> None:
        connection.execute(sql, (*values, int(message.id), int(message.receipt)))
        if connection.changes() == 0:
            raise self._lease_lost(message)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**63


def _id_of(connection: apsw.Connection, name: str) -> int:
    """Return the number of a queue, creating it if necessary."""
    found: int | None = connection.execute(_ID, (name,)).get
    if found is not None:
        return found
    connection.execute(_CREATE, (name,))
    return connection.last_insert_rowid()


def read_infos(
    connection: apsw.Connection, clock: StoreClock, name: str | None = None
) -> list[QueueInfo]:
    """Return one queue, or all, sorted by name."""
    where = "WHERE name = :name" if name is not None else "ORDER BY name"
    return [
        QueueInfo(found, length, _time_or_none(clock, oldest))
        for found, length, oldest in connection.execute(
            _INFO + where, {"now": clock.now()} | ({} if name is None else {"name": name})
        )
    ]


async def wait_for_messages(
    readers: Readers,
    bell: FileBell,
    clock: StoreClock,
    queues: frozenset[str] | None,
    excluding: frozenset[str],
    timeout: float,
) -> frozenset[str]:
    """Wait until a queue has a ready message; return all that have one."""
    names = None if queues is None else msgspec.json.encode(sorted(queues)).decode()
    without = msgspec.json.encode(sorted(excluding)).decode()

    def read(connection: apsw.Connection) -> QueueLook[frozenset[str]]:
        now = clock.now()
        ready: set[str] = set()
        due: list[int] = []
        values = {"now": now, "queues": names, "excluding": without}
        for name, visible_at in connection.execute(_FIRST_VISIBLE, values):
            if visible_at is None:
                continue
            if visible_at <= now:
                ready.add(name)
            else:
                due.append(visible_at)
        return QueueLook(frozenset(ready), (min(due) - now) / 1_000_000 if due else None)

    return await bell.wait(lambda: readers.run(read), timeout)


def _time_or_none(clock: StoreClock, microseconds: int | None) -> datetime | None:
    return None if microseconds is None else clock.as_datetime(microseconds)
