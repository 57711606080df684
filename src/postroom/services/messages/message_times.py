"""Messages by time: being sent, scheduled and finished, newest first.

The store reads keys in one direction only, so 'newest first' reads the index entries of a past
period, which grows until it holds enough. The cost grows with the messages of that period, not with
all messages.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.errors import NoSuch
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.services import entities
from postroom.services.messages.lifecycle import MessageService
from postroom.services.row_ranges import read_whole
from postroom.storage import Entity, KeyRange, Store

_PERIODS = (timedelta(days=1), timedelta(days=10), timedelta(days=100), None)
_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = 100  # that are read together
_DAY_LENGTH = len("2012-10-15")


class NewestMessages(msgspec.Struct, frozen=True):
    """Some messages, newest first; `next` continues with older ones, None at the end."""

    messages: list[Message]
    next: str | None


class MessageLine(msgspec.Struct, frozen=True, gc=False):
    """The sortable columns of a message. The counts are set once it is finished."""

    ref: MessageRef
    subject: str
    list_name: str
    status: MessageStatus
    scheduled_at: datetime
    planned: int
    accepted: int
    refused: int
    suppressed: int
    in_doubt: int


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

    async def done(self, *, limit: int, before: str | None = None) -> NewestMessages:
        """Return finished messages, newest first."""
        return await self._newest((entities.DONE,), limit, before)

    async def all(self, *, limit: int, before: str | None = None) -> NewestMessages:
        """Return every message, newest first: scheduled, being sent, finished."""
        return await self._newest((entities.OPEN, entities.DONE), limit, before)

    async def whole(self, *, done: bool, most: int) -> list[MessageLine] | None:
        """Return all finished or all unfinished messages in the order of their times; None if there
        are more than `most`. Reading them by day costs a tenth of reading them one by one."""
        partition = entities.DONE if done else entities.OPEN
        entries = await read_whole(self._index, _Nothing, partition, most=most)
        if entries is None:
            return None
        table = self._archive if done else self._open_ones
        days = sorted({row[:_DAY_LENGTH] for row in entries})
        rows: dict[str, dict[str, _Row]] = {}
        for begin in range(0, len(days), _DAYS):
            rows |= await table.read_partitions(_Row, days[begin : begin + _DAYS])
        # By reference: an entry left by an interruption must not show a message twice.
        found: dict[str, MessageLine] = {}
        for entry in entries:
            ref = MessageRef(entry.rpartition(",")[2])
            row = rows[entry[:_DAY_LENGTH]].get(entities.message_row(ref))
            if row is not None:
                found[ref] = _line(ref, row)
        return list(found.values())

    async def of(self, lines: Sequence[MessageLine]) -> list[Message]:
        """Return the messages of these lines; deleted ones are left out."""
        found: list[Message] = []
        for line in lines:
            with contextlib.suppress(NoSuch):
                found.append(await self._messages.get(line.ref))
        return found

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


class _Nothing(msgspec.Struct, frozen=True, gc=False):
    """An entry of the index of which only the key is read."""


class _Row(msgspec.Struct, frozen=True, gc=False):
    """The properties of a message that are read."""

    SubjectLine: str
    ListName: str
    Status: str
    ScheduledDate: datetime
    Planned: int = 0
    Accepted: int = 0
    Refused: int = 0
    Suppressed: int = 0
    InDoubt: int = 0


def _line(ref: MessageRef, row: _Row) -> MessageLine:
    return MessageLine(
        ref=ref,
        subject=row.SubjectLine,
        list_name=row.ListName,
        status=MessageStatus(row.Status),
        scheduled_at=row.ScheduledDate,
        planned=row.Planned,
        accepted=row.Accepted,
        refused=row.Refused,
        suppressed=row.Suppressed,
        in_doubt=row.InDoubt,
    )


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
