"""Waiting for disk space: while there is too little, no new message starts.

The active scheduler checks the disks of its machine. The result is kept in the store, so that pages
and commands on any machine can show it. There is also one event when the wait begins and one when
it ends, even if another scheduler is active by then.

| table       | partition | row     | holds                                                       |
|-------------|-----------|---------|-------------------------------------------------------------|
| `storeinfo` | `store`   | `space` | Machine, Folder, Free, Needed, Since; IsOver and IsTold:    |
|             |           |         | whether it has ended, and whether that event was recorded   |
"""

from __future__ import annotations

import logging
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from postroom import clock
from postroom.domain.disk_space import FolderSpace, Shortage, SpaceMark, find_shortage
from postroom.folders import nearest_existing
from postroom.services.entities import read
from postroom.services.events import EventService, Severity
from postroom.storage import Conflict, Entity, Store

log = logging.getLogger(__name__)

TABLE = "storeinfo"
_KEY = ("store", "space")
_PART = "scheduler"


class SpaceWait(msgspec.Struct, frozen=True):
    """Messages wait for this disk. `is_reported` if the event of its beginning was recorded, or
    that of its end if it `is_over`."""

    shortage: Shortage
    machine: str
    since: datetime
    is_over: bool = False
    is_reported: bool = False
    etag: str = ""

    def __str__(self) -> str:
        return f"Waiting for disk space: {self.shortage}"

    @property
    def place(self) -> str:
        return f"{self.shortage.folder} on {self.machine}"


def measure(folders: Iterable[Path]) -> Iterator[FolderSpace]:
    """Yield the disk space of each folder, except those that cannot be read."""
    for folder in folders:
        with suppress(OSError):
            usage = shutil.disk_usage(nearest_existing(folder.absolute()))
            yield FolderSpace(str(folder.absolute()), usage.free, usage.total)


class SpaceWaits:
    """The stored wait for disk space, which every process can read."""

    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def current(self) -> SpaceWait | None:
        """Return the wait for disk space, or None if messages may start."""
        found = await self.latest()
        return None if found is None or found.is_over else found

    async def latest(self) -> SpaceWait | None:
        """Return the wait for disk space, even if it is over and its event is not recorded yet."""
        found = await self._table.get(*_KEY)
        return None if found is None else _wait(found)

    async def keep(self, wait: SpaceWait) -> SpaceWait:
        """Write it. `Conflict` if another scheduler has written in the meantime."""
        if wait.etag:
            etag = await self._table.replace(_entity(wait), wait.etag)
        else:
            etag = await self._table.insert(_entity(wait))
        return msgspec.structs.replace(wait, etag=etag)

    async def forget(self, wait: SpaceWait) -> None:
        await self._table.delete(*_KEY, wait.etag)


class SpaceWatch:
    """Decides for the active scheduler whether messages may start."""

    def __init__(
        self, waits: SpaceWaits, events: EventService, folders: Iterable[Path], mark: SpaceMark
    ) -> None:
        self._waits = waits
        self._events = events
        self._folders = tuple(folders)
        self._mark = mark
        self._is_known = False
        self._wait: SpaceWait | None = None

    def begin(self) -> None:
        """Read the stored wait again at the next check: another scheduler may have been active."""
        self._is_known = False

    async def may_start(self) -> bool:
        """Check the disks. The store is only used if something has changed."""
        if not self._is_known:
            self._wait, self._is_known = await self._waits.latest(), True
        was_short = self._wait is not None and not self._wait.is_over
        shortage = find_shortage(measure(self._folders), self._mark, was_short=was_short)
        try:
            await self._keep(shortage)
        except Conflict:
            self._is_known = False  # another scheduler is active by now and records the event
        return shortage is None

    async def _keep(self, shortage: Shortage | None) -> None:
        wait = self._wait
        changed = _after(wait, shortage)
        if changed is not None and changed != wait:
            self._wait = wait = await self._waits.keep(changed)
        if wait is None or wait.is_reported:
            return
        # The event comes first: an interruption repeats it instead of losing it.
        await self._record(wait)
        if wait.is_over:
            await self._waits.forget(wait)
            self._wait = None
        else:
            self._wait = await self._waits.keep(msgspec.structs.replace(wait, is_reported=True))

    async def _record(self, wait: SpaceWait) -> None:
        if wait.is_over:
            severity = Severity.INFO
            text = f"Enough disk space for {wait.place} again: messages that are due start now"
        else:
            severity = Severity.WARNING
            text = f"No new message starts: {wait.shortage} for {wait.place}"
        log.warning("%s", text)
        await self._events.record(_PART, text, severity=severity)


def _after(wait: SpaceWait | None, shortage: Shortage | None) -> SpaceWait | None:
    """Return the wait to store after a check."""
    if shortage is None:
        if wait is None or wait.is_over:
            return wait
        return msgspec.structs.replace(wait, is_over=True, is_reported=False)
    machine = socket.gethostname()
    if wait is None or wait.is_over:
        etag = "" if wait is None else wait.etag
        return SpaceWait(shortage, machine, clock.now(), etag=etag)
    if str(wait.shortage) == str(shortage):
        return wait  # it would look the same
    return msgspec.structs.replace(wait, shortage=shortage, machine=machine)


def _entity(wait: SpaceWait) -> Entity:
    return Entity(
        *_KEY,
        {
            "Machine": wait.machine,
            "Folder": wait.shortage.folder,
            "Free": wait.shortage.free,
            "Needed": wait.shortage.needed,
            "Since": wait.since,
            "IsOver": wait.is_over,
            "IsTold": wait.is_reported,
        },
    )


def _wait(entity: Entity) -> SpaceWait:
    return SpaceWait(
        Shortage(
            read(entity, "Folder", str), read(entity, "Free", int), read(entity, "Needed", int)
        ),
        read(entity, "Machine", str),
        read(entity, "Since", datetime),
        read(entity, "IsOver", bool),
        read(entity, "IsTold", bool),
        entity.etag,
    )
