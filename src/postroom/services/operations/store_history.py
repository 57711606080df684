"""Detects that a store has lost its latest history: a restored backup, or an old copy of a file.

While emails are sent, two marks advance together every second, one in the store and one in a file
in the data folder. If the store's mark is behind the file's, the store lacks what happened since:
some recipients may have received the message already. So unfinished messages are paused, with an
explanation and a choice, before anything is sent.

| table       | partition | row         | holds                                                |
|-------------|-----------|-------------|------------------------------------------------------|
| `storeinfo` | `store`   | `identity`  | StoreId, Restores: how often history was lost        |
|             |           |             | Server, ServerStart: the database server that        |
|             |           |             | senders worked with last, a timeline and its start   |
| `storeinfo` | `marks`   | data folder | At: when this data folder's mark was set last        |
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import secrets
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import msgspec

from postroom import clock
from postroom.domain.errors import DomainError
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.folders import make_writable, open_private
from postroom.services import entities
from postroom.services.events import EventService, Severity
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.message_states import MessageStates
from postroom.storage import AlreadyExists, Conflict, Entity, Server, Store

log = logging.getLogger(__name__)

TABLE = "storeinfo"
_IDENTITY = ("store", "identity")
_MARKS = "marks"
_FILE = "store-history.json"
_CAN_SEND = (MessageStatus.PENDING, MessageStatus.QUEUING, MessageStatus.PROCESSING)


class _FolderMark(msgspec.Struct):
    """The mark in the data folder."""

    store_id: str
    folder_id: str
    at: datetime


class HistoryServices(Protocol):
    """The services that are needed when history is lost; `wiring.Services` has all of them."""

    store: Store
    message_states: MessageStates
    message_rows: MessageRows
    events: EventService


async def recorded_server(store: Store) -> Server | None:
    """Return the database server that senders worked with last, if any has been recorded."""
    found = await store.table(TABLE).get(*_IDENTITY)
    if found is None or "Server" not in found.properties:
        return None
    return Server(entities.read(found, "Server", str), entities.read(found, "ServerStart", str))


class StoreHistory:
    """The marks of one store and one data folder."""

    def __init__(self, services: HistoryServices, data: Path) -> None:
        self._services = services
        self._table = services.store.table(TABLE)
        self._data = data
        self._store_id = ""

    async def advance(self) -> bool:
        """Set both marks to now, the store's first; return False if the store has lost history.

        Does nothing while another process is doing the same."""
        make_writable(self._data)
        lock = self._open_lock()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            store_id = self._store_id = self._store_id or await self._identify()
            known = self._known()
            if known is None or known.store_id != store_id:
                known = _FolderMark(store_id, secrets.token_hex(8), clock.now())
                await self._table.insert(Entity(_MARKS, known.folder_id, {"At": known.at}))
                self._remember(known)
                return True
            mark = await self._table.get(_MARKS, known.folder_id)
            if mark is None or entities.read(mark, "At", datetime) < known.at:
                return False
            # If the clock was set back, the mark stays where it is.
            known.at = max(known.at, clock.now())
            # With the ETag: a failover may just have replaced the server by one with an older mark.
            new = Entity(_MARKS, known.folder_id, {"At": known.at})
            await self._table.replace(new, mark.etag)
            self._remember(known)
        except BlockingIOError:
            return True
        except Conflict:
            return False
        finally:
            os.close(lock)
        return True

    async def missing(self) -> timedelta | None:
        """Return how much history the store has lost, or None if it has lost nothing."""
        loss = await self._find_loss()
        if loss is None:
            return None
        known, reached = loss
        return timedelta.max if reached is None else known.at - reached

    async def restores(self) -> int:
        """Return how often a loss of history was detected."""
        found = await self._table.get(*_IDENTITY)
        return 0 if found is None else entities.read(found, "Restores", int)

    async def server(self) -> Server | None:
        """Return the database server that senders worked with last, if any has been recorded."""
        return await recorded_server(self._services.store)

    async def record_server(self, server: Server) -> None:
        """Record the server that senders work with from now on, and an event if it has another
        history: a standby was promoted, or the database was moved."""
        await self._identify()
        found = await self._table.get(*_IDENTITY)
        if found is None:
            return
        before = entities.read_optional(found, "Server", str)
        if before == server.history and found.properties.get("ServerStart") == server.started_at:
            return
        new = {**found.properties, "Server": server.history, "ServerStart": server.started_at}
        try:
            await self._table.replace(Entity(*_IDENTITY, new), found.etag)
        except Conflict:
            return  # another sender was faster
        if before and before != server.history:
            now = server.history or "unknown"
            text = f"the database has failed over or was moved: {before} before, {now} now"
            await self._services.events.record("store", text, severity=Severity.WARNING)

    async def accept_loss(self) -> None:
        """Continue from the store's current state: senders have handled what was lost."""
        lock = self._open_lock()
        try:
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
            loss = await self._find_loss()  # another process may have accepted it
            if loss is not None:
                await self._accept(*loss, "senders compared what they had sent with the store")
        finally:
            os.close(lock)

    async def pause_if_lost(self) -> int:
        """Pause unfinished messages if the store has lost history; return how many.

        Every process that opens the store for work calls this first.
        """
        if await self._find_loss() is None:
            return 0
        lock = self._open_lock()
        try:
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
            loss = await self._find_loss()  # another process may have handled it
            return 0 if loss is None else await self._handle_loss(*loss)
        finally:
            os.close(lock)

    async def _find_loss(self) -> tuple[_FolderMark, datetime | None] | None:
        """Return the folder's mark and the store's, which is behind it; None if it is not."""
        known = self._known()
        if known is None or known.store_id != await self._identify():
            return None  # nothing was sent from here, or the folder belongs to another store
        mark = await self._table.get(_MARKS, known.folder_id)
        reached = None if mark is None else entities.read(mark, "At", datetime)
        return None if reached is not None and reached >= known.at else (known, reached)

    async def _handle_loss(self, known: _FolderMark, reached: datetime | None) -> int:
        paused = await self._pause_unfinished(reached, known.at)
        done = "1 unfinished message was paused"
        if paused != 1:
            done = f"{paused} unfinished messages were paused"
        await self._accept(known, reached, done)
        return paused

    async def _accept(self, known: _FolderMark, reached: datetime | None, done: str) -> None:
        await self._count_restore(f"{_lost(reached, known.at)}; {done}")
        if reached is None:
            await self._table.upsert(Entity(_MARKS, known.folder_id, {"At": known.at}))
        else:
            known.at = reached
            self._remember(known)

    async def _pause_unfinished(self, reached: datetime | None, known_at: datetime) -> int:
        now = clock.now()
        unfinished: list[Message] = [
            each
            async for each in self._services.message_rows.open_messages()
            if each.status in _CAN_SEND and each.due_at <= now
        ]
        paused = 0
        for message in unfinished:
            try:
                await self._services.message_states.pause(
                    message.ref, _explanation(reached, known_at)
                )
                paused += 1
            except DomainError as exc:
                log.info("cannot pause message %s: %s", message.ref, exc)
        return paused

    async def _count_restore(self, text: str) -> None:
        found = await self._table.get(*_IDENTITY)
        if found is not None:
            restores = entities.read(found, "Restores", int) + 1
            await self._table.merge(Entity(*_IDENTITY, {"Restores": restores}))
        log.error("%s", text)
        await self._services.events.record("store", text, severity=Severity.ERROR)

    async def _identify(self) -> str:
        """Return the id of the store; create one if it has none."""
        found = await self._table.get(*_IDENTITY)
        if found is None:
            new = Entity(*_IDENTITY, {"StoreId": secrets.token_hex(16), "Restores": 0})
            try:
                await self._table.insert(new)
                found = new
            except AlreadyExists:
                return await self._identify()
        return entities.read(found, "StoreId", str)

    def _open_lock(self) -> int:
        path = self._data / f"{_FILE}.lock"
        return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def _known(self) -> _FolderMark | None:
        try:
            return msgspec.json.decode((self._data / _FILE).read_bytes(), type=_FolderMark)
        except (OSError, msgspec.DecodeError):
            return None

    def _remember(self, mark: _FolderMark) -> None:
        """Write the mark atomically: a crash leaves the old or the new one."""
        written = self._data / f"{_FILE}.{os.getpid()}"
        with open_private(written) as file:
            file.write(msgspec.json.encode(mark))
        written.replace(self._data / _FILE)


def _lost(reached: datetime | None, known_at: datetime) -> str:
    since = "an unknown time" if reached is None else f"{reached:%Y-%m-%d %H:%M:%S} UTC"
    return (
        f"the store was restored to an earlier state: what happened between {since}"
        f" and {known_at:%Y-%m-%d %H:%M:%S} UTC is missing"
    )


def _explanation(reached: datetime | None, known_at: datetime) -> str:
    return (
        f"{_lost(reached, known_at)}. Some people may have received this message already, without a"
        " record. Resume to send it to everyone who has no record, which may send it to some people"
        " again, or cancel it."
    )
