"""Messages as one person or API key sees them: those of other lists do not exist.

People who may view every list read the index as it is. Others get what remains of it, so that some
reads find nothing for them; how many rows are read for one response is limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from postroom import clock
from postroom.domain.audience.lists.list_rights import ListAccess, ListRight
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.message_rows import MessagePart, MessageSlice
from postroom.services.messages.message_times import MessageTimes, NewestMessages, OpenCounts

_MOST_READS: Final = 100  # of the index for one response
_MOST_ROWS: Final = 10_000  # of the index for one response
_AT_ONCE: Final = 100
_MOST_DRAFTS: Final = 10_000

_Newest = Callable[[int, str | None], Awaitable[NewestMessages]]


class VisibleMessages:
    """The messages that exist for them. Create one for each response."""

    def __init__(self, times: MessageTimes, messages: MessageService, access: ListAccess) -> None:
        self._times = times
        self._messages = messages
        self._access = access
        self._rows_left = _MOST_ROWS
        self._reading = asyncio.Lock()
        self._open_ones: list[Message] | None = None
        self._drafts: list[Message] | None = None

    @property
    def has_read_enough(self) -> bool:
        """Whether enough rows were read for one response: the next read would be the last one."""
        return self._rows_left <= 0

    def sees(self, message: Message) -> bool:
        """Return whether a message exists for them: they may view each of its lists."""
        return self.sees_lists(message.all_lists)

    def sees_lists(self, names: Sequence[ListName]) -> bool:
        """Return whether what is for these lists exists for them."""
        return self._access.may(ListRight.VIEW, *names)

    async def under_way(self, *, limit: int) -> list[Message]:
        """Return messages that are due and unfinished, the earliest first."""
        if not self._access.is_limited:
            return await self._times.under_way(limit=limit)
        now = clock.now()
        return [each for each in await self._open() if each.due_at <= now][:limit]

    async def upcoming(self, *, limit: int) -> list[Message]:
        """Return messages that are not due yet, the earliest first."""
        if not self._access.is_limited:
            return await self._times.upcoming(limit=limit)
        now = clock.now()
        return [each for each in await self._open() if each.due_at > now][:limit]

    async def count_open(self, *, most: int) -> OpenCounts:
        """Count unfinished messages, each kind up to `most`."""
        if not self._access.is_limited:
            return await self._times.count_open(most=most)
        now, found = clock.now(), await self._open()
        under_way = sum(each.due_at <= now for each in found)
        return OpenCounts(min(under_way, most), min(len(found) - under_way, most))

    async def count_drafts(self, *, most: int) -> int:
        """Count drafts, up to `most`."""
        if not self._access.is_limited:
            return await self._times.count_drafts(most=most)
        return len(await self.drafts(limit=most))

    async def drafts(self, *, limit: int) -> list[Message]:
        """Return the drafts that were edited last, the last one first."""
        if not self._access.is_limited:
            return await self._times.drafts(limit=limit)
        async with self._reading:
            if self._drafts is None:
                found = await self._times.drafts(limit=_MOST_DRAFTS)
                self._drafts = [each for each in found if self.sees(each)]
        return self._drafts[:limit]

    async def whole(self, part: MessagePart, *, most: int) -> list[Message] | None:
        """Return all messages of a part of the index; None if the part has more than `most`."""
        found = await self._times.whole(part, most=most)
        return None if found is None else [each for each in found if self.sees(each)]

    async def done(self, *, limit: int, before: str | None = None) -> NewestMessages:
        """Return finished messages, newest first."""

        async def read(many: int, where: str | None) -> NewestMessages:
            return await self._times.done(limit=many, before=where)

        return await self._newest(read, limit, before)

    async def all(self, *, limit: int, before: str | None = None) -> NewestMessages:
        """Return every message, newest first: scheduled, being sent, finished."""

        async def read(many: int, where: str | None) -> NewestMessages:
            return await self._times.all(limit=many, before=where)

        return await self._newest(read, limit, before)

    async def slice(
        self, part: MessagePart = MessagePart.OPEN, *, limit: int = 100, after: str | None = None
    ) -> MessageSlice:
        """Return open or finished messages in the order of their times, or drafts."""
        found: list[Message] = []
        for _ in range(_MOST_READS):
            some = await self._messages.slice(part, limit=limit - len(found), after=after)
            self._rows_left -= len(some.messages)
            found += [each for each in some.messages if self.sees(each)]
            after = some.next
            is_complete = len(found) >= limit or not self._access.is_limited
            if after is None or is_complete or self.has_read_enough:
                break
        return MessageSlice(found, after)

    async def _newest(self, read: _Newest, limit: int, before: str | None) -> NewestMessages:
        found: list[Message] = []
        for _ in range(_MOST_READS):
            part = await read(limit - len(found), before)
            self._rows_left -= len(part.messages)
            found += [each for each in part.messages if self.sees(each)]
            before = part.next
            is_complete = len(found) >= limit or not self._access.is_limited
            if before is None or is_complete or self.has_read_enough:
                break
        return NewestMessages(found, before)

    async def _open(self) -> list[Message]:
        """Return unfinished messages by time; cancelled ones are only waiting for the archive."""
        async with self._reading:
            if self._open_ones is None:
                self._open_ones = await self._read_open()
        return self._open_ones

    async def _read_open(self) -> list[Message]:
        found: list[Message] = []
        after: str | None = None
        for _ in range(_MOST_READS):
            part = await self._messages.slice(limit=_AT_ONCE, after=after)
            found += [each for each in part.messages if self.sees(each)]
            if (after := part.next) is None:
                break
        return [each for each in found if each.status is not MessageStatus.CANCELLED]
