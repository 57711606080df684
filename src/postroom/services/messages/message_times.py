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
from postroom.domain.messages.messages import DRAFTS, Message, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.services import entities
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.message_entities import message_from
from postroom.services.messages.message_rows import MessagePart
from postroom.storage import Entity, KeyRange, Store

_PERIODS = (timedelta(days=1), timedelta(days=10), timedelta(days=100), None)
_DRAFTS_SORTED = 10_000
_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)


class NewestMessages(msgspec.Struct, frozen=True):
    """Some messages, newest first; `next` continues with older ones, None at the end."""

    messages: list[Message]
    next: str | None


class OpenCounts(msgspec.Struct, frozen=True):
    """How many messages are due and unfinished, and how many are not due yet."""

    under_way: int
    upcoming: int


class MessageTimes:
    def __init__(self, store: Store, messages: MessageService) -> None:
        self._index = store.table(entities.INDEX)
        self._open_ones = store.table(entities.MESSAGES)
        self._archive = store.table(entities.ARCHIVE)
        self._messages = messages

    async def under_way(self, *, limit: int) -> list[Message]:
        """Return messages that are due and unfinished, the earliest first."""
        return _without_cancelled(await self._open(KeyRange(stop=_row_at(clock.now())), limit))

    async def upcoming(self, *, limit: int) -> list[Message]:
        """Return messages that are not due yet, the earliest first."""
        return _without_cancelled(await self._open(KeyRange(start=_row_at(clock.now())), limit))

    async def count_open(self, *, most: int) -> OpenCounts:
        """Count unfinished messages, each kind up to `most`. A cancelled one is finished, although
        the scheduler has yet to archive it."""
        now = _row_at(clock.now())
        under_way = await self._open(KeyRange(stop=now), most)
        upcoming = await self._open(KeyRange(start=now), most)
        return OpenCounts(len(_without_cancelled(under_way)), len(_without_cancelled(upcoming)))

    async def done(self, *, limit: int, before: str | None = None) -> NewestMessages:
        """Return finished messages, newest first."""
        return await self._newest((entities.DONE,), limit, before)

    async def all(self, *, limit: int, before: str | None = None) -> NewestMessages:
        """Return every message, newest first: scheduled, being sent, finished."""
        return await self._newest((entities.OPEN, entities.DONE), limit, before)

    async def whole(self, part: MessagePart, *, most: int) -> list[Message] | None:
        """Return all messages of a part of the index in its order; None if there are more than
        `most`. They are read as rows: the index would cost a read for each."""
        if part is MessagePart.DRAFTS:
            drafts = await self._whole_drafts(most)
            return drafts if len(drafts) <= most else None
        found: list[Message] = []
        async for entity in (self._archive if part is MessagePart.DONE else self._open_ones).scan():
            message = message_from(entity)
            if message.status is not MessageStatus.DRAFT:
                found.append(message)
            if len(found) > most:
                return None
        return sorted(found, key=lambda each: (each.due_at, each.ref))

    async def drafts(self, *, limit: int) -> list[Message]:
        """Return the drafts that were edited last, the last one first."""
        found = await self._whole_drafts(_DRAFTS_SORTED)
        return sorted(found, key=lambda each: each.edited_at or each.created_at, reverse=True)[
            :limit
        ]

    async def count_drafts(self, *, most: int) -> int:
        """Count drafts, up to `most`. Reads the index only."""
        found = await self._index.query(KeyRange.only(entities.DRAFT), limit=most)
        return len(found.entities)

    async def _whole_drafts(self, most: int) -> list[Message]:
        """Return drafts in the order in which they were created, one more than `most` at most."""
        rows: dict[str, Message] = {}
        async for entity in self._open_ones.scan(KeyRange.only(DRAFTS)):
            message = message_from(entity)
            rows[message.ref] = message
            if len(rows) > most:
                break
        found: list[Message] = []
        async for entry in self._index.scan(KeyRange.only(entities.DRAFT)):
            # Its row is elsewhere if it became a draft or was scheduled just now.
            draft = rows.get(entry.row) or await self._draft(entry.row)
            if draft is not None and draft.status is MessageStatus.DRAFT:
                found.append(draft)
            if len(found) > most:
                break
        return found

    async def _draft(self, ref: str) -> Message | None:
        try:
            return await self._messages.get(ref)
        except NoSuch:
            return None

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
            if message.status is not MessageStatus.DRAFT and _is_at(message, entry):
                messages.append(message)
        return messages


def _without_cancelled(messages: list[Message]) -> list[Message]:
    return [each for each in messages if each.status is not MessageStatus.CANCELLED]


def _is_at(message: Message, entry: Entity) -> bool:
    return entities.due_row(message.due_at, message.ref) == entry.row


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
