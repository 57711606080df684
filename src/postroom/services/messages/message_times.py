"""Messages by time: being sent, scheduled and finished, newest first.

The store reads keys in one direction only, so 'newest first' reads the index entries of a past
period, which grows until it holds enough. The cost grows with the messages of that period, not with
all messages.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.errors import NoSuch
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef
from postroom.services import entities
from postroom.services.messages.lifecycle import MessageService
from postroom.storage import Entity, KeyRange, Store

_PERIODS = (timedelta(days=1), timedelta(days=10), timedelta(days=100), None)
_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)


class NewestMessages(msgspec.Struct, frozen=True):
    """Some messages, newest first; `next` continues with older ones, None at the end."""

    messages: list[Message]
    next: str | None


class OpenCounts(msgspec.Struct, frozen=True):
    """How many messages are due and unfinished, and how many are not due yet."""

    under_way: int
    to_come: int


class MessageTimes:
    def __init__(self, store: Store, messages: MessageService) -> None:
        self._index = store.table(entities.INDEX)
        self._open_ones = store.table(entities.MESSAGES)
        self._archive = store.table(entities.ARCHIVE)
        self._messages = messages

    async def under_way(self, *, limit: int) -> list[Message]:
        """Return messages that are due and unfinished, the earliest first."""
        return await self._open(KeyRange(stop=_row_at(clock.now())), limit)

    async def to_come(self, *, limit: int) -> list[Message]:
        """Return messages that are not due yet, the earliest first."""
        return await self._open(KeyRange(start=_row_at(clock.now())), limit)

    async def count_open(self, *, most: int) -> OpenCounts:
        """Count unfinished messages, each kind up to `most`. Reads the index only."""
        now = _row_at(clock.now())
        ranges = (KeyRange(stop=now), KeyRange(start=now))
        under_way, to_come = [
            len((await self._index.query(KeyRange.only(entities.OPEN), rows, limit=most)).entities)
            for rows in ranges
        ]
        return OpenCounts(under_way, to_come)

    async def done(self, *, limit: int, before: str | None = None) -> NewestMessages:
        """Return finished messages, newest first."""
        return await self._newest((entities.DONE,), limit, before)

    async def all(self, *, limit: int, before: str | None = None) -> NewestMessages:
        """Return every message, newest first: scheduled, being sent, finished."""
        return await self._newest((entities.OPEN, entities.DONE), limit, before)

    async def whole(self, *, done: bool, most: int) -> list[Message] | None:
        """Return all finished or all unfinished messages in the order of their times; None if there
        are more than `most`. They are read as rows: the index would cost a read for each."""
        found: list[Message] = []
        async for entity in (self._archive if done else self._open_ones).scan():
            found.append(entities.message_from(entity))
            if len(found) > most:
                return None
        return sorted(found, key=lambda each: (each.scheduled_at, each.ref))

    async def _open(self, rows: KeyRange, limit: int) -> list[Message]:
        found = await self._index.query(KeyRange.only(entities.OPEN), rows, limit=limit)
        return await self._read(found.entities)

    async def _newest(
        self, partitions: tuple[str, ...], limit: int, before: str | None
    ) -> NewestMessages:
        entries = await self._entries(partitions, limit + 1, before)
        more, entries = len(entries) > limit, entries[:limit]
        return NewestMessages(await self._read(entries), entries[-1].row if more else None)

    async def _entries(
        self, partitions: tuple[str, ...], limit: int, before: str | None
    ) -> list[Entity]:
        """Return the last `limit` entries before a row, the last one first."""
        found: dict[str, Entity] = {}
        for period in _PERIODS:
            rows = KeyRange(start=_row_back(before, period), stop=before)
            for partition in partitions:
                last: deque[Entity] = deque(maxlen=limit)
                async for entry in self._index.scan(KeyRange.only(partition), rows):
                    last.append(entry)
                # By row: a message is in both parts of the index while it moves to the other.
                found |= {entry.row: entry for entry in last}
            if len(found) >= limit:
                break
        return [found[row] for row in sorted(found, reverse=True)[:limit]]

    async def _read(self, entries: list[Entity]) -> list[Message]:
        """Return the messages of entries; entries left by an interruption are skipped."""
        messages: list[Message] = []
        for entry in entries:
            try:
                message = await self._messages.get(entry.row.rpartition(",")[2])
            except NoSuch:
                continue
            if entities.due_row(message.scheduled_at, message.ref) == entry.row:
                messages.append(message)
        return messages


def _row_at(moment: datetime) -> str:
    return entities.due_row(moment, MessageRef(""))


def _row_back(before: str | None, period: timedelta | None) -> str | None:
    """Return the row at which a period of this length begins; None: the first row."""
    if period is None:
        return None
    try:
        end = datetime.fromisoformat((before or "").partition(",")[0]).astimezone(UTC)
    except (ValueError, OverflowError):
        end = clock.now()
    return _row_at(max(end, _FIRST_MOMENT + period) - period)
