"""The rows of messages: open ones, the archive, and the index to both.

The index lists each message by its reference, with the day that is its row's partition, and by its
time, among open or finished messages. Drafts are listed apart, so that no scheduler reads them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from enum import StrEnum

import msgspec

from postroom import clock
from postroom.domain.errors import NoSuch, Overtaken
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.refs import MessageRef, new_ref, parse_ref
from postroom.services import entities
from postroom.services.concurrency import retry_on_conflict
from postroom.services.messages.message_entities import message_entity, message_from
from postroom.storage import AlreadyExists, Conflict, Entity, KeyRange, NotFound, Store


class MessagePart(StrEnum):
    """A part of the index."""

    DRAFTS = entities.DRAFT
    OPEN = entities.OPEN
    DONE = entities.DONE


class MessageSlice(msgspec.Struct, frozen=True):
    """Some messages of a part of the index; `next` continues after them."""

    messages: list[Message]
    next: str | None


class MessageRows:
    """Messages in the store: found, saved and archived. `domain/messages/messages.py` says what may
    be done with one, and when."""

    def __init__(self, store: Store) -> None:
        self._messages = store.table(entities.MESSAGES)
        self._archive = store.table(entities.ARCHIVE)
        self._index = store.table(entities.INDEX)

    # -- finding -----------------------------------------------------------------------------

    async def get(self, ref: str) -> Message:
        """Return a message, open or finished. `NoSuch`."""
        _, found = await self._locate(ref)
        return message_from(found)

    async def get_for_change(self, ref: str) -> Message:
        """Return a message that the caller is going to save. If an edit that gave it another day
        was interrupted, its row is moved to that day first. `NoSuch`."""

        async def get_in_place() -> Message:
            entry, found = await self._locate(ref)
            message = message_from(found)
            if message.day != found.partition:
                await self._move_to_its_day(entry, found, message)
                raise Overtaken("message", ref)  # read what is there now
            return message

        return await retry_on_conflict(get_in_place, "message", ref)

    async def slice(
        self, part: MessagePart = MessagePart.OPEN, *, limit: int = 100, after: str | None = None
    ) -> MessageSlice:
        """Return open or finished messages in the order of their times, or drafts in the order in
        which they were created."""
        result = await self._index.query(KeyRange.only(part.value), limit=limit, after=after)
        found = await asyncio.gather(*map(self._from_entry, result.entities))
        return MessageSlice([message for message in found if message is not None], result.next)

    async def open_messages(self) -> AsyncIterator[Message]:
        """Yield all scheduled messages that are not finished, in the order of their times."""
        async for entry in self._index.scan(KeyRange.only(entities.OPEN)):
            message = await self._from_entry(entry)
            if message is not None:
                yield message

    # -- changing ----------------------------------------------------------------------------

    async def save(self, message: Message) -> Message:
        """Replace the row under its ETag. `Overtaken`."""
        try:
            etag = await self._messages.replace(message_entity(message), message.etag)
        except Conflict as exc:
            raise Overtaken("message", message.ref) from exc
        return msgspec.structs.replace(message, etag=etag)

    async def save_archived(self, message: Message) -> Message:
        """Replace the row of a finished message under its ETag. `Overtaken`, also if the scheduler
        has yet to move it into the archive."""
        try:
            etag = await self._archive.replace(message_entity(message), message.etag)
        except Conflict as exc:
            raise Overtaken("message", message.ref) from exc
        return msgspec.structs.replace(message, etag=etag)

    async def archive(self, message: Message) -> None:
        """Move a finished message into the archive. Can be repeated after an interruption.

        It is written there before it is removed here, so it is somewhere at every moment.
        """
        await self._archive.upsert(message_entity(message))
        entry = _entry(message)
        ended = {entities.ENDED_AT: message.completed_at or clock.now()}
        await self._index.upsert(Entity(entities.DONE, entry.row, ended))
        for table, partition, row in (
            (self._messages, message.day, entities.message_row(message.ref)),
            (self._index, entities.OPEN, entry.row),
        ):
            with contextlib.suppress(NotFound):
                await table.delete(partition, row)

    async def forget_done(self, row: str) -> None:
        """Remove a deleted message from the index; the entry by time goes last."""
        ref = row.rpartition(",")[2]
        for entry in ((entities.BY_REF, ref), (entities.RETRY, ref), (entities.DONE, row)):
            await self._delete_entry(Entity(*entry, {}))

    # -- for `MessageService` -----------------------------------------------------------------

    async def reserve_ref(self, day: str, kept: MessageRef | None) -> MessageRef:
        """Return a reference that no other message has: `kept`, or a new one."""
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

    async def remove_archived(self, message: Message) -> None:
        """Delete a finished message. Can be repeated after an interruption."""
        with contextlib.suppress(NotFound):
            await self._archive.delete(message.day, entities.message_row(message.ref))
        await self.forget_done(_entry(message).row)

    async def insert(self, message: Message) -> Message:
        """Add a new message; its own row is written last. `AlreadyExists`."""
        await self._index.upsert(_entry(message))
        etag = await self._messages.insert(message_entity(message))
        return msgspec.structs.replace(message, etag=etag)

    async def remove(self, message: Message) -> None:
        """Delete an open message if it is still as it was read; its own row goes first.
        `Conflict`."""
        await self._messages.delete(message.day, entities.message_row(message.ref), message.etag)
        await self._delete_entry(_entry(message))
        await self._delete_entry(Entity(entities.BY_REF, message.ref, {}))

    async def save_edit(self, old: Message, new: Message) -> Message:
        """Replace the row under its ETag: from that moment all of the edit counts. `Conflict`.

        Another time needs another entry in the index, and so does a draft that is scheduled or a
        message that becomes a draft. It is added before, so that the message is found whatever
        happens, and the old one is removed last. Each is removed only if nobody has written it
        since: another edit may need an entry for the very same time.
        """
        leaving = announced = None
        before, after = _entry(old), _entry(new)
        if after.row != before.row:
            leaving = await self._index.get(before.partition, before.row)
            announced = await self._announce(after)
        entity = message_entity(new)
        try:
            # Still on its old day: nobody can save it until `get_for_change` has moved it.
            etag = await self._messages.replace(
                Entity(old.day, entity.row, entity.properties), old.etag
            )
        except Conflict:
            await self._withdraw(announced)
            raise
        saved = msgspec.structs.replace(new, etag=etag)
        if new.day != old.day:
            saved = await self.get_for_change(new.ref)
        await self._withdraw(leaving)
        return saved

    # -- parts -------------------------------------------------------------------------------

    async def _locate(self, ref: str) -> tuple[Entity, Entity]:
        """Return the index entry and the row of a message. `NoSuch`."""
        checked = parse_ref(ref)
        before, entry = None, await self._index.get(entities.BY_REF, checked)
        while entry is not None and entry != before:  # else it was just moved to another day
            found = await self._find(entities.read(entry, "Day", str), checked)
            if found is not None:
                return entry, found
            before, entry = entry, await self._index.get(entities.BY_REF, checked)
        raise NoSuch("message", ref)

    async def _find(self, day: str, ref: MessageRef) -> Entity | None:
        for table in (self._messages, self._archive, self._messages):
            # It may be archived between two reads, but never comes back.
            found = await table.get(day, entities.message_row(ref))
            if found is not None:
                return found
        return None

    async def _announce(self, entry: Entity) -> Entity | None:
        """Put an entry into the index; return it unless it was there before."""
        try:
            return msgspec.structs.replace(entry, etag=await self._index.insert(entry))
        except AlreadyExists:
            await self._index.upsert(entry)  # its new ETag keeps others from withdrawing it
            return None

    async def _withdraw(self, entry: Entity | None) -> None:
        if entry is not None:
            with contextlib.suppress(Conflict):
                await self._index.delete(entry.partition, entry.row, entry.etag)

    async def _move_to_its_day(self, entry: Entity, found: Entity, message: Message) -> None:
        """Move the row of a message that an edit has given another day to that partition.

        The entry by reference says which row counts. It is changed after the row was written there
        and before it is removed here, so exactly one counts at every moment. Several processes may
        try at the same time: each step requires that everything is as it was read.
        """
        there = await self._messages.get(message.day, found.row)
        if await self._index.get(entry.partition, entry.row) != entry:
            return  # another process was faster: its row counts now
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
        """Return the message of an index entry; None for an entry left by an interruption."""
        ref = MessageRef(entry.row.rpartition(",")[2])
        try:
            message = await self.get(ref)
        except NoSuch:
            return None
        return message if _entry(message).row == entry.row else None

    async def _delete_entry(self, entry: Entity) -> None:
        with contextlib.suppress(NotFound):
            await self._index.delete(entry.partition, entry.row)


def _entry(message: Message) -> Entity:
    """Return the entry among drafts or open messages; the rows of the two differ."""
    if message.status is MessageStatus.DRAFT:
        return Entity(entities.DRAFT, message.ref, {})
    return Entity(entities.OPEN, entities.due_row(message.due_at, message.ref), {})
