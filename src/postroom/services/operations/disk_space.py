"""Waiting for disk space: while there is too little of it, no new message starts.

The scheduler that acts looks at its own machine's disks. What it finds is kept in the store, so
that pages and commands can show it wherever they run, and so that there is one event when it begins
and one when it is over, whichever scheduler acts by then.

| table       | partition | row     | holds                                                       |
|-------------|-----------|---------|-------------------------------------------------------------|
| `storeinfo` | `store`   | `space` | Machine, Folder, Free, Needed, Since; IsOver and IsTold:    |
|             |           |         | what happened last, and whether its event was recorded      |
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
    """Since when messages wait for which disk. `is_told`: the event of its beginning, or of its
    end if it `is_over`, was recorded."""

    shortage: Shortage
    machine: str
    since: datetime
    is_over: bool = False
    is_told: bool = False
    etag: str = ""

    def __str__(self) -> str:
        return f"Waiting for disk space: {self.shortage}"

    @property
    def place(self) -> str:
        return f"{self.shortage.folder} on {self.machine}"


def measure(folders: Iterable[Path]) -> Iterator[FolderSpace]:
    """Yield the space under each folder. One that cannot be looked at is left out: whether it can
    be used is another question."""
    for folder in folders:
        with suppress(OSError):
            usage = shutil.disk_usage(nearest_existing(folder.absolute()))
            yield FolderSpace(str(folder.absolute()), usage.free, usage.total)


class SpaceWaits:
    """What is kept about waiting for disk space, for everybody to read."""

    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def current(self) -> SpaceWait | None:
        """Return what messages that are due wait for, or None if they may start."""
        found = await self.latest()
        return None if found is None or found.is_over else found

    async def latest(self) -> SpaceWait | None:
        """Return the same, also if it is over and nobody was told yet."""
        found = await self._table.get(*_KEY)
        return None if found is None else _wait(found)

    async def keep(self, wait: SpaceWait) -> SpaceWait:
        """Write it; raise `Conflict` if another scheduler has written meanwhile."""
        if wait.etag:
            etag = await self._table.replace(_entity(wait), wait.etag)
        else:
            etag = await self._table.insert(_entity(wait))
        return msgspec.structs.replace(wait, etag=etag)

    async def forget(self, wait: SpaceWait) -> None:
        await self._table.delete(*_KEY, wait.etag)


class SpaceWatch:
    """Decides for the scheduler that acts whether messages may start."""

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
        """Read what is kept at the next look: another scheduler may have acted before."""
        self._is_known = False

    async def may_start(self) -> bool:
        """Look at the disks. The store is asked and written only if something has changed."""
        if not self._is_known:
            self._wait, self._is_known = await self._waits.latest(), True
        was_short = self._wait is not None and not self._wait.is_over
        shortage = find_shortage(measure(self._folders), self._mark, was_short=was_short)
        try:
            await self._keep(shortage)
        except Conflict:
            self._is_known = False  # another scheduler acts by now; it tells
        return shortage is None

    async def _keep(self, shortage: Shortage | None) -> None:
        wait = self._wait
        changed = _after(wait, shortage)
        if changed is not None and changed != wait:
            self._wait = wait = await self._waits.keep(changed)
        if wait is None or wait.is_told:
            return
        # Report first: an interruption here repeats the report instead of losing it.
        await self._tell(wait)
        if wait.is_over:
            await self._waits.forget(wait)
            self._wait = None
        else:
            self._wait = await self._waits.keep(msgspec.structs.replace(wait, is_told=True))

    async def _tell(self, wait: SpaceWait) -> None:
        if wait.is_over:
            severity = Severity.INFO
            text = f"Enough disk space for {wait.place} again: messages that are due start now"
        else:
            severity = Severity.WARNING
            text = f"No new message starts: {wait.shortage} for {wait.place}"
        log.warning("%s", text)
        await self._events.record(_PART, text, severity=severity)


def _after(wait: SpaceWait | None, shortage: Shortage | None) -> SpaceWait | None:
    """Return what is to be kept, now that this was found."""
    if shortage is None:
        if wait is None or wait.is_over:
            return wait
        return msgspec.structs.replace(wait, is_over=True, is_told=False)
    machine = socket.gethostname()
    if wait is None or wait.is_over:
        etag = "" if wait is None else wait.etag
        return SpaceWait(shortage, machine, clock.now(), etag=etag)
    if str(wait.shortage) == str(shortage):
        return wait  # people would see no difference
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
            "IsTold": wait.is_told,
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
