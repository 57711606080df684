"""Where messages are: the rows of those that are open, the archive, and the index to both.

The index has each message by its reference, with the day that is its row's partition, and by its
time, among those that are open or those that are done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec

from postroom.domain.errors import NoSuch, Overtaken
from postroom.domain.messages.messages import Message
from postroom.domain.messages.refs import MessageRef, new_ref, parse_ref
from postroom.services import entities
from postroom.storage import AlreadyExists, Conflict, Entity, KeyRange, NotFound, Store

_LOOKS = 20  # at a row that others move at the same time


class MessagePage(msgspec.Struct, frozen=True):
    """Some messages in the order of their times; `next` goes on."""

    messages: list[Message]
    next: str | None


class MessageRows:
    """Messages in the store: found, saved and archived. What may be done with one, and when, is
    said in `messages.py`."""

    def __init__(self, store: Store) -> None:
        self._messages = store.table(entities.MESSAGES)
        self._archive = store.table(entities.ARCHIVE)
        self._index = store.table(entities.INDEX)

    # -- finding -----------------------------------------------------------------------------

    async def get(self, ref: str) -> Message:
        """The message, done or not. `NoSuch`."""
        checked = parse_ref(ref)
        entry = await self._index.get(entities.BY_REF, checked)
        for _ in range(_LOOKS):
            if entry is None:
                break
            found = await self._find(entities.read(entry, "Day", str), checked)
            if found is not None:
                message = entities.message_from(found)
                if message.day == found.partition:
                    return message
                await self._bring_to_its_day(entry, found, message)
            before, entry = entry, await self._index.get(entities.BY_REF, checked)
            if found is None and entry == before:
                break  # not in between two days: it is not there
        raise NoSuch("message", ref)

    async def page(
        self, *, done: bool = False, limit: int = 100, after: str | None = None
    ) -> MessagePage:
        """Messages in the order of their times: those that are open, or those that are done."""
        result = await self._index.query(
            KeyRange.only(entities.DONE if done else entities.OPEN), limit=limit, after=after
        )
        found = await asyncio.gather(*map(self._from_entry, result.entities))
        return MessagePage([message for message in found if message is not None], result.next)

    async def open_messages(self) -> AsyncIterator[Message]:
        """All messages that are not done, in the order of their times."""
        async for entry in self._index.scan(KeyRange.only(entities.OPEN)):
            message = await self._from_entry(entry)
            if message is not None:
                yield message

    # -- changing ----------------------------------------------------------------------------

    async def save(self, message: Message) -> Message:
        """Replace the row under its ETag. `Overtaken`."""
        try:
            etag = await self._messages.replace(entities.message_entity(message), message.etag)
        except Conflict as exc:
            raise Overtaken("message", message.ref) from exc
        return msgspec.structs.replace(message, etag=etag)

    async def archive(self, message: Message) -> None:
        """Move a message that is done into the archive. Can be repeated after an interruption.

        Written there before it is removed here: at every moment it is somewhere.
        """
        await self._archive.upsert(entities.message_entity(message))
        entry = _due_entry(message)
        ended = {entities.ENDED_AT: message.completed_at or datetime.now(UTC)}
        await self._index.upsert(Entity(entities.DONE, entry.row, ended))
        for table, partition, row in (
            (self._messages, message.day, entities.message_row(message.ref)),
            (self._index, entities.OPEN, entry.row),
        ):
            with contextlib.suppress(NotFound):
                await table.delete(partition, row)

    async def forget_done(self, row: str) -> None:
        """Take a message that is not there any more out of the index; the entry itself last."""
        ref = row.rpartition(",")[2]
        for entry in ((entities.BY_REF, ref), (entities.RETRY, ref), (entities.DONE, row)):
            await self._delete_quietly(Entity(*entry, {}))

    # -- for `MessageService` -----------------------------------------------------------------

    async def _reserve_ref(self, day: str, kept: MessageRef | None) -> MessageRef:
        """A reference that nobody else has; one that was kept is the caller's own."""
        if kept is not None:
            await self._index.upsert(Entity(entities.BY_REF, kept, {"Day": day}))
            return kept
        while True:
            ref = new_ref()
            try:
                await self._index.insert(Entity(entities.BY_REF, ref, {"Day": day}))
            except AlreadyExists:
                continue
            return ref

    async def _remove_archived(self, message: Message) -> None:
        """Forget a message that is done. Can be repeated after an interruption."""
        with contextlib.suppress(NotFound):
            await self._archive.delete(message.day, entities.message_row(message.ref))
        await self.forget_done(_due_entry(message).row)

    async def _insert(self, message: Message) -> Message:
        """A new message; its own row comes last. `AlreadyExists`."""
        await self._index.upsert(_due_entry(message))
        etag = await self._messages.insert(entities.message_entity(message))
        return msgspec.structs.replace(message, etag=etag)

    async def _remove(self, message: Message) -> None:
        """Remove a message that is open, as it was read; its own row goes first. `Conflict`."""
        await self._messages.delete(message.day, entities.message_row(message.ref), message.etag)
        await self._delete_quietly(_due_entry(message))
        await self._delete_quietly(Entity(entities.BY_REF, message.ref, {}))

    async def _save_edit(self, old: Message, new: Message) -> Message:
        """Replace the row under its ETag: from that moment all of the edit counts. `Conflict`.

        Another time is another entry in the index. The new one is there before, so that the message
        is found whatever happens, and the old one goes last. Each is removed only as long as it is
        as we know it: somebody else may need an entry for the very same time.
        """
        leaving = announced = None
        if _due_entry(new).row != _due_entry(old).row:
            leaving = await self._index.get(entities.OPEN, _due_entry(old).row)
            announced = await self._announce(_due_entry(new))
        entity = entities.message_entity(new)
        try:
            # On its old day still: nobody can save it from here on, until `get` has moved it.
            etag = await self._messages.replace(
                Entity(old.day, entity.row, entity.properties), old.etag
            )
        except Conflict:
            await self._take_back(announced)
            raise
        saved = msgspec.structs.replace(new, etag=etag)
        if new.day != old.day:
            saved = await self.get(new.ref)
        await self._take_back(leaving)
        return saved

    # -- parts -------------------------------------------------------------------------------

    async def _find(self, day: str, ref: MessageRef) -> Entity | None:
        for table in (self._messages, self._archive, self._messages):
            # It may be moved to the archive between the two looks, but not back.
            found = await table.get(day, entities.message_row(ref))
            if found is not None:
                return found
        return None

    async def _announce(self, entry: Entity) -> Entity | None:
        """Put an entry into the index; answers it if nobody else had."""
        try:
            return msgspec.structs.replace(entry, etag=await self._index.insert(entry))
        except AlreadyExists:
            await self._index.upsert(entry)  # a new ETag: whoever put it there leaves it alone
            return None

    async def _take_back(self, entry: Entity | None) -> None:
        if entry is not None:
            with contextlib.suppress(Conflict):
                await self._index.delete(entry.partition, entry.row, entry.etag)

    async def _bring_to_its_day(self, entry: Entity, found: Entity, message: Message) -> None:
        """An edit has given a message another day: move its row to that partition.

        The entry by reference says which row counts. It is changed after the row was written there
        and before it is removed here, so exactly one counts at every moment. Whoever comes upon the
        row does this, and each step is done only if all is as it was read: several may try at once.
        """
        there = await self._messages.get(message.day, found.row)
        if await self._index.get(entry.partition, entry.row) != entry:
            return  # done by somebody else: the row that is there counts now
        moved = Entity(message.day, found.row, found.properties)
        try:
            if there is None:
                await self._messages.insert(moved)
            elif there.properties != found.properties:  # left there by an interruption
                await self._messages.replace(moved, there.etag)
            await self._index.replace(
                Entity(entry.partition, entry.row, {"Day": message.day}), entry.etag
            )
            await self._messages.delete(found.partition, found.row, found.etag)
        except Conflict:
            return

    async def _from_entry(self, entry: Entity) -> Message | None:
        """The message that an index entry is about; None for what an interruption left behind."""
        ref = MessageRef(entry.row.rpartition(",")[2])
        try:
            message = await self.get(ref)
        except NoSuch:
            return None
        return message if _due_entry(message).row == entry.row else None

    async def _delete_quietly(self, entry: Entity) -> None:
        with contextlib.suppress(NotFound):
            await self._index.delete(entry.partition, entry.row)


def _due_entry(message: Message) -> Entity:
    return Entity(entities.OPEN, entities.due_row(message.scheduled_at, message.ref), {})
