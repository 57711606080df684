"""Messages: schedule, find, edit, delete, pause, resume, cancel.

What has become of a message's emails is in `outcomes.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec

from postroom.domain.errors import Invalid, NoSuch, Overtaken
from postroom.domain.lists import parse_list_name
from postroom.domain.messages import (
    LONGEST_SUBJECT,
    Message,
    MessageStatus,
    check_editable,
    check_transition,
)
from postroom.domain.pages import SCHEDULE_QUEUE
from postroom.domain.refs import MessageRef, new_ref, parse_ref
from postroom.domain.texts import one_line
from postroom.mail.bodies import clean_body
from postroom.mail.fields import check_fields
from postroom.services import records
from postroom.storage import (
    AlreadyExists,
    Conflict,
    Entity,
    KeyRange,
    NotFound,
    Store,
)
from postroom.storage.limits import QUEUE_SECONDS

HTML, TEXT = "htm", "txt"


class NewBodies(msgspec.Struct, frozen=True):
    """The two bodies of a message; None leaves one out (or, in an edit, as it is)."""

    html: str | None = None
    text: str | None = None


class MessagePage(msgspec.Struct, frozen=True):
    """Some messages in the order of their times; `next` goes on."""

    messages: list[Message]
    next: str | None


class MessageService:
    def __init__(self, store: Store) -> None:
        self._lists = store.table(records.LISTS)
        self._messages = store.table(records.MESSAGES)
        self._archive = store.table(records.ARCHIVE)
        self._index = store.table(records.INDEX)
        self._bodies = store.container(records.BODIES)
        self._bell = store.queue(SCHEDULE_QUEUE)

    # -- making and changing -----------------------------------------------------------------

    async def create(
        self, list_name: str, subject: str, bodies: NewBodies, scheduled_at: datetime
    ) -> Message:
        """Schedule a message. A time that has passed means: now. `Invalid`, `NoSuch` list.

        The message's own row comes last: what an interruption leaves before it is nobody's.
        """
        await self._check_list(list_name)
        if not (bodies.html or bodies.text):
            raise Invalid("html", "a message needs an HTML body, a text body, or both")
        bodies = _clean(bodies)
        message = Message(
            ref=await self._reserve_ref(scheduled_at),
            list_name=parse_list_name(list_name),
            subject=_checked_subject(subject),
            scheduled_at=_checked_time(scheduled_at),
            status=MessageStatus.PENDING,
            has_html=bool(bodies.html),
            has_text=bool(bodies.text),
            created_at=datetime.now(UTC),
        )
        await self._write_bodies(message, bodies)
        await self._index.insert(_due_entry(message))
        etag = await self._messages.insert(records.message_entity(message))
        await self.wake_scheduler(message)
        return msgspec.structs.replace(message, etag=etag)

    async def edit(
        self,
        ref: str,
        *,
        list_name: str | None = None,
        subject: str | None = None,
        bodies: NewBodies | None = None,
        scheduled_at: datetime | None = None,
        etag: str | None = None,
    ) -> Message:
        """Change what is given, while the message is Pending. `Overtaken`, `NotNow`.

        New bodies are written beside the old ones; only the row's replacement, under its ETag,
        points to them. Who loses that race has changed nothing.
        """
        old = await self.get(ref)
        check_editable(old.status)
        if etag is not None and etag != old.etag:
            raise Overtaken("message", ref)
        if list_name is not None:
            await self._check_list(list_name)
        new = msgspec.structs.replace(
            old,
            list_name=old.list_name if list_name is None else parse_list_name(list_name),
            subject=old.subject if subject is None else _checked_subject(subject),
            scheduled_at=old.scheduled_at if scheduled_at is None else _checked_time(scheduled_at),
        )
        if bodies is not None and (bodies.html is not None or bodies.text is not None):
            new = await self._write_new_version(old, new, bodies)
        try:
            saved = await self._replace_or_move(old, new)
        except Conflict as exc:
            if new.body_version != old.body_version:
                await self._delete_bodies(new)
            raise Overtaken("message", ref) from exc
        if new.body_version != old.body_version:
            await self._delete_bodies(old)
        await self.wake_scheduler(new)
        return msgspec.structs.replace(new, etag=saved)

    async def delete(self, ref: str, etag: str | None = None) -> None:
        """Remove a message that is Pending, with its bodies. `NotNow`, `Overtaken`."""
        message = await self.get(ref)
        check_editable(message.status)
        if etag is not None and etag != message.etag:
            raise Overtaken("message", ref)
        try:
            await self._messages.delete(message.day, records.message_row(message.ref), message.etag)
        except Conflict as exc:
            raise Overtaken("message", ref) from exc
        await self._forget(message)
        await self._delete_bodies(message)

    async def pause(self, ref: str, reason: str = "") -> Message:
        """Stop for now. Senders obey within a second or a page."""
        return await self._change_status(ref, MessageStatus.PAUSED, reason)

    async def resume(self, ref: str) -> Message:
        """Go on where the message was paused."""
        message = await self.get(ref)
        check_transition(message.status, message.paused_from or MessageStatus.PENDING)
        return await self._change_status(ref, message.paused_from or MessageStatus.PENDING)

    async def cancel(self, ref: str) -> Message:
        """End it for good: whoever has not got it yet will not."""
        return await self._change_status(ref, MessageStatus.CANCELLED, "cancelled")

    # -- finding -----------------------------------------------------------------------------

    async def get(self, ref: str) -> Message:
        """The message, done or not. `NoSuch`."""
        checked = parse_ref(ref)
        entry = await self._index.get(records.BY_REF, checked)
        if entry is not None:
            day = records.read(entry, "Day", str)
            for table in (self._messages, self._archive, self._messages):
                # It may be moved to the archive between the two looks, but not back.
                found = await table.get(day, records.message_row(checked))
                if found is not None:
                    return records.message_from(found)
        raise NoSuch("message", ref)

    async def page(
        self, *, done: bool = False, limit: int = 100, after: str | None = None
    ) -> MessagePage:
        """Messages in the order of their times: those that are open, or those that are done."""
        result = await self._index.query(
            KeyRange.only(records.DONE if done else records.OPEN), limit=limit, after=after
        )
        found = [await self._from_entry(entry) for entry in result.entities]
        return MessagePage([message for message in found if message is not None], result.next)

    async def open_messages(self) -> AsyncIterator[Message]:
        """All messages that are not done, in the order of their times."""
        async for entry in self._index.scan(KeyRange.only(records.OPEN)):
            message = await self._from_entry(entry)
            if message is not None:
                yield message

    async def bodies(self, message: Message) -> NewBodies:
        """The HTML and the text of a message, as they were given."""
        html = await self._read_body(message, HTML) if message.has_html else None
        text = await self._read_body(message, TEXT) if message.has_text else None
        return NewBodies(html, text)

    # -- for the scheduler -------------------------------------------------------------------

    async def save(self, message: Message) -> Message:
        """Replace the row under its ETag. `Overtaken`."""
        try:
            etag = await self._messages.replace(records.message_entity(message), message.etag)
        except Conflict as exc:
            raise Overtaken("message", message.ref) from exc
        return msgspec.structs.replace(message, etag=etag)

    async def archive(self, message: Message) -> None:
        """Move a message that is done into the archive. Can be repeated after an interruption.

        Written there before it is removed here: at every moment it is somewhere.
        """
        await self._archive.upsert(records.message_entity(message))
        entry = _due_entry(message)
        await self._index.upsert(Entity(records.DONE, entry.row, entry.properties))
        for table, partition, row in (
            (self._messages, message.day, records.message_row(message.ref)),
            (self._index, records.OPEN, entry.row),
        ):
            try:
                await table.delete(partition, row)
            except NotFound:
                continue

    async def wake_scheduler(self, message: Message) -> None:
        """Put a bell that rings when the message is due, or now."""
        due_in = (message.scheduled_at - datetime.now(UTC)).total_seconds()
        await self._bell.put(message.ref, delay=min(max(due_in, 0.0), QUEUE_SECONDS))

    # -- parts -------------------------------------------------------------------------------

    async def _check_list(self, name: str) -> None:
        found = await self._lists.get(parse_list_name(name), records.LIST_ROW)
        if found is None or found.properties.get("Deleting") is True:
            raise NoSuch("list", name)

    async def _reserve_ref(self, scheduled_at: datetime) -> MessageRef:
        """A reference that nobody else has."""
        while True:
            ref = new_ref()
            day = _checked_time(scheduled_at).strftime("%Y-%m-%d")
            try:
                await self._index.insert(Entity(records.BY_REF, ref, {"Day": day}))
            except AlreadyExists:
                continue
            return ref

    async def _change_status(self, ref: str, to: MessageStatus, reason: str = "") -> Message:
        for _ in range(20):
            old = await self.get(ref)
            check_transition(old.status, to)
            new = msgspec.structs.replace(
                old,
                status=to,
                reason=reason,
                paused_from=old.status if to is MessageStatus.PAUSED else None,
            )
            try:
                saved = await self.save(new)
            except Overtaken:
                continue  # the scheduler saves its progress: look again
            await self._bell.put(saved.ref)
            return saved
        raise Overtaken("message", ref)

    async def _replace_or_move(self, old: Message, new: Message) -> str:
        """Save an edit; a new day is another partition.

        The entry by reference says which row counts. It is changed between the insertion of the new
        row and the deletion of the old one, so exactly one of them counts at every moment.
        """
        entry = _due_entry(new)
        if entry.row != _due_entry(old).row:
            await self._index.upsert(entry)
        if new.day == old.day:
            etag = await self._messages.replace(records.message_entity(new), old.etag)
        else:
            # Claimed under its ETag: nobody else edits or queues it from here on.
            held = await self._messages.replace(
                records.message_entity(
                    msgspec.structs.replace(
                        old, status=MessageStatus.PAUSED, paused_from=MessageStatus.PENDING
                    )
                ),
                old.etag,
            )
            etag = await self._messages.upsert(records.message_entity(new))
            await self._index.replace(Entity(records.BY_REF, new.ref, {"Day": new.day}))
            await self._messages.delete(old.day, records.message_row(old.ref), held)
        if entry.row != _due_entry(old).row:
            await self._delete_quietly(_due_entry(old))
        return etag

    async def _from_entry(self, entry: Entity) -> Message | None:
        """The message that an index entry is about; None for what an interruption left behind."""
        ref = MessageRef(entry.row.rpartition(",")[2])
        try:
            message = await self.get(ref)
        except NoSuch:
            return None
        return message if _due_entry(message).row == entry.row else None

    async def _forget(self, message: Message) -> None:
        await self._delete_quietly(_due_entry(message))
        await self._delete_quietly(Entity(records.BY_REF, message.ref, {}))

    async def _delete_quietly(self, entry: Entity) -> None:
        try:
            await self._index.delete(entry.partition, entry.row)
        except NotFound:
            return

    async def _write_new_version(self, old: Message, new: Message, bodies: NewBodies) -> Message:
        bodies = _clean(bodies)
        current = await self.bodies(old)
        merged = NewBodies(
            current.html if bodies.html is None else bodies.html,
            current.text if bodies.text is None else bodies.text,
        )
        if not (merged.html or merged.text):
            raise Invalid("html", "a message needs an HTML body, a text body, or both")
        new = msgspec.structs.replace(
            new,
            body_version=secrets.token_hex(4),
            has_html=bool(merged.html),
            has_text=bool(merged.text),
        )
        await self._write_bodies(new, merged)
        return new

    async def _write_bodies(self, message: Message, bodies: NewBodies) -> None:
        for kind, body in ((HTML, bodies.html), (TEXT, bodies.text)):
            if body:
                await self._bodies.put(_name(message, kind), body.encode())

    async def _delete_bodies(self, message: Message) -> None:
        for kind, there in ((HTML, message.has_html), (TEXT, message.has_text)):
            if there:
                try:
                    await self._bodies.delete(_name(message, kind))
                except NotFound:
                    continue

    async def _read_body(self, message: Message, kind: str) -> str:
        return (await self._bodies.read(_name(message, kind))).decode()


def _due_entry(message: Message) -> Entity:
    return Entity(records.OPEN, records.due_row(message.scheduled_at, message.ref), {})


def _name(message: Message, kind: str) -> str:
    return records.body_name(message.ref, message.body_version, kind)


def _checked_subject(subject: str) -> str:
    checked = one_line("subject", subject, longest=LONGEST_SUBJECT)
    check_fields("subject", checked)
    return checked


def _checked_time(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise Invalid("scheduled_at", "needs a time zone, as in 2026-11-15T09:00:00+01:00")
    return moment.astimezone(UTC)


def _clean(bodies: NewBodies) -> NewBodies:
    """The bodies as they are kept: checked, with one kind of line end."""
    return NewBodies(_clean_one("html", bodies.html), _clean_one("text", bodies.text))


def _clean_one(field: str, body: str | None) -> str | None:
    if not body:
        return body
    cleaned = clean_body(field, body)
    check_fields(field, cleaned)
    return cleaned
