"""Events: what the system did that operators want to know. What people did is in `audit.py`.

| table    | partition             | row                                 | holds              |
|----------|-----------------------|-------------------------------------|--------------------|
| `events` | `all`                 | moment, counted down (newest first) | one event          |
| `events` | `at least` + severity | the same                            | the same, filtered |
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from datetime import date, datetime, timedelta
from enum import StrEnum

import msgspec

from postroom import clock
from postroom.domain.plain_text import printable
from postroom.services.entities import read
from postroom.services.row_ranges import (
    moment_of,
    new_row,
    read_whole,
    remove_rows,
    rows_after,
    rows_before,
    rows_of_day,
)
from postroom.storage import (
    EVERY_KEY,
    AlreadyExists,
    Entity,
    KeyRange,
    Store,
    StoreError,
)
from postroom.watchdog import end_tasks

log = logging.getLogger(__name__)

EVENTS = "events"
KEPT = timedelta(days=90)
_ALL = "all"
_LONGEST = 1000
_MOST_WAITING = 1000  # while the store is unavailable; then the oldest are dropped
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_CLEANED_EVERY = 3600.0  # seconds, by a process that has something to note


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Event(msgspec.Struct, frozen=True):
    """`part` is the source (`scheduler`, `host`, `store` …); `subject` is what it is about:
    `message:REF`, `queue:NAME`, `app:/PATH`, `list:NAME`, `user:ADDRESS`, or empty."""

    id: str
    at: datetime
    severity: Severity
    part: str
    text: str
    subject: str


class EventSlice(msgspec.Struct, frozen=True):
    """Some events, newest first; `next` continues after them."""

    events: list[Event]
    next: str | None


class EventService:
    def __init__(self, store: Store) -> None:
        self._events = store.table(EVENTS)
        self._waiting: deque[Entity] = deque(maxlen=_MOST_WAITING)
        self._writer: asyncio.Task[None] | None = None
        self._cleaned_at: float | None = None

    # -- recording ---------------------------------------------------------------------------

    def note(
        self, part: str, text: str, *, severity: Severity = Severity.INFO, subject: str = ""
    ) -> None:
        """Record an event in the background, as soon as the store accepts it. Never raises. Needs a
        running event loop; `settle` waits for the rest."""
        self._waiting.append(_entity(severity, part, text, subject))
        if self._writer is None or self._writer.done():
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                log.warning("%s: %s", part, text)
                self._waiting.clear()
                return
            self._writer = loop.create_task(self._write())

    async def record(
        self,
        part: str,
        text: str,
        *,
        severity: Severity = Severity.INFO,
        subject: str = "",
        at: datetime | None = None,
    ) -> None:
        """Record an event (of now, unless `at` is given), and wait until it is stored or has failed
        once. Never raises: nothing fails because it could not be recorded."""
        entity = _entity(severity, part, text, subject, at)
        try:
            await self._insert(entity)
        except StoreError as exc:
            log.warning("an event could not be recorded (%s): %s: %s", exc, part, text)

    async def settle(self, *, seconds: float = 5.0) -> None:
        """Wait until noted events are written, but not forever; for a clean shutdown."""
        if self._writer is not None and not self._writer.done():
            await asyncio.wait({self._writer}, timeout=seconds)
            await end_tasks([self._writer])

    # -- reading -----------------------------------------------------------------------------

    async def slice(
        self,
        *,
        least: Severity = Severity.INFO,
        day: date | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> EventSlice:
        """Return events, newest first: with at least this severity, and of one day (UTC)."""
        found = await self._events.query(
            KeyRange.only(_partition(least)), _rows(day), limit=limit, after=after
        )
        return EventSlice([_event(entity) for entity in found.entities], found.next)

    async def whole(
        self, *, least: Severity = Severity.INFO, day: date | None = None, most: int
    ) -> list[Event] | None:
        """Return all of them at once, newest first; None if there are more than `most`."""
        found = await read_whole(self._events, _Row, _partition(least), _rows(day), most=most)
        if found is None:
            return None
        return [
            Event(key, moment_of(key), Severity(row.Severity), row.Part, row.Text, row.Subject)
            for key, row in found.items()
        ]

    async def since(
        self, event_id: str | None, *, least: Severity = Severity.INFO, limit: int = 100
    ) -> list[Event]:
        """Return the events after this one, oldest first; without one, the newest."""
        rows = EVERY_KEY if event_id is None else rows_after(event_id)
        found = await self._events.query(KeyRange.only(_partition(least)), rows, limit=limit)
        return [_event(entity) for entity in reversed(found.entities)]

    async def forget_old(self, kept: timedelta = KEPT) -> int:
        """Remove older events; return how many."""
        removed = 0
        before = rows_before(clock.now() - kept)
        for partition in map(_partition, Severity):
            while found := (await self._events.query(KeyRange.only(partition), before)).entities:
                await remove_rows(self._events, partition, [each.row for each in found])
                removed += len(found) if partition == _ALL else 0
        return removed

    # -- parts -------------------------------------------------------------------------------

    async def _write(self) -> None:
        while self._waiting:  # also what was noted while old events were being removed
            await self._write_waiting()
            await self._clean()

    async def _write_waiting(self) -> None:
        pause = _FIRST_PAUSE
        while self._waiting:
            entity = self._waiting[0]
            try:
                await self._insert(entity)
            except StoreError as exc:
                log.warning("events wait for the store: %s", exc)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            if self._waiting and self._waiting[0] is entity:  # not dropped in the meantime
                self._waiting.popleft()

    async def _insert(self, entity: Entity) -> None:
        """Store the event under each severity that it reaches: warnings are then found by key."""
        severity = Severity(str(entity.properties["Severity"]))
        for least in Severity:
            if _reaches(severity, least):
                with contextlib.suppress(AlreadyExists):  # stored before, and the reply was lost
                    await self._events.insert(
                        Entity(_partition(least), entity.row, entity.properties)
                    )

    async def _clean(self) -> None:
        if self._cleaned_at is not None and clock.monotonic() - self._cleaned_at < _CLEANED_EVERY:
            return
        self._cleaned_at = clock.monotonic()
        try:
            await self.forget_old()
        except StoreError as exc:
            log.warning("old events could not be removed: %s", exc)


def _reaches(severity: Severity, least: Severity) -> bool:
    order = list(Severity)
    return order.index(severity) >= order.index(least)


class _Row(msgspec.Struct, frozen=True, gc=False):
    """The properties of an event."""

    Severity: str
    Part: str
    Text: str
    Subject: str


def _rows(day: date | None) -> KeyRange:
    return EVERY_KEY if day is None else rows_of_day(day)


def _partition(least: Severity) -> str:
    return _ALL if least is Severity.INFO else f"at least {least}"


def _entity(
    severity: Severity, part: str, text: str, subject: str, at: datetime | None = None
) -> Entity:
    return Entity(
        _ALL,
        new_row(at or clock.now()),
        {
            "Severity": severity.value,
            "Part": printable(part, longest=_LONGEST),
            "Text": printable(text, longest=_LONGEST),
            "Subject": printable(subject, longest=_LONGEST),
        },
    )


def _event(entity: Entity) -> Event:
    return Event(
        entity.row,
        moment_of(entity.row),
        Severity(read(entity, "Severity", str)),
        read(entity, "Part", str),
        read(entity, "Text", str),
        read(entity, "Subject", str),
    )
