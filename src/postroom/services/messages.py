"""Messages: schedule, find, edit, delete, pause, resume, cancel.

What has become of a message's emails is in `outcomes.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec

from postroom import spans
from postroom.domain.errors import Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.lists import parse_list_name
from postroom.domain.messages import (
    LONGEST_SUBJECT,
    Message,
    MessageStatus,
    check_editable,
    check_transition,
    day_of,
)
from postroom.domain.pages import SCHEDULE_QUEUE
from postroom.domain.refs import MessageRef, new_ref, parse_ref
from postroom.domain.texts import one_line
from postroom.mail.bodies import clean_body
from postroom.mail.fields import check_fields
from postroom.services import records
from postroom.services.events import EventService, Severity
from postroom.storage import (
    AlreadyExists,
    Conflict,
    Entity,
    KeyRange,
    NotFound,
    Store,
)
from postroom.storage.limits import EARLIEST, QUEUE_SECONDS

HTML, TEXT = "htm", "txt"
_LOOKS = 20  # at a row that others change at the same time


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
        self._events = EventService(store)

    # -- making and changing -----------------------------------------------------------------

    async def create(
        self,
        list_name: str,
        subject: str,
        bodies: NewBodies,
        scheduled_at: datetime,
        *,
        ref: MessageRef | None = None,
        retry_of: MessageRef | None = None,
    ) -> Message:
        """Schedule a message. A time that has passed means: now. `Invalid`, `NoSuch` list.

        The message's own row comes last: what an interruption leaves before it is nobody's. With
        `ref`, which the caller has kept, an interrupted call can be repeated: it makes one message.
        """
        if ref is not None and (made := await self._made_before(ref)) is not None:
            await self.wake_scheduler(made)
            return made
        await self._check_list(list_name)
        if not (bodies.html or bodies.text):
            raise Invalid("html", "a message needs an HTML body, a text body, or both")
        bodies = _clean(bodies)
        subject, scheduled_at = checked_subject(subject), _checked_time(scheduled_at)
        message = Message(
            ref=await self._reserve_ref(day_of(scheduled_at), ref),
            list_name=parse_list_name(list_name),
            subject=subject,
            scheduled_at=scheduled_at,
            status=MessageStatus.PENDING,
            has_html=bool(bodies.html),
            has_text=bool(bodies.text),
            created_at=datetime.now(UTC),
            retry_of=retry_of,
            trace=spans.traceparent(),
        )
        await self._write_bodies(message, bodies)
        await self._index.upsert(_due_entry(message))
        try:
            etag = await self._messages.insert(records.message_entity(message))
        except AlreadyExists:
            return await self.get(message.ref)  # by the same call, repeated at the same moment
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
            subject=old.subject if subject is None else checked_subject(subject),
            scheduled_at=old.scheduled_at if scheduled_at is None else _checked_time(scheduled_at),
        )
        if bodies is not None and (bodies.html is not None or bodies.text is not None):
            new = await self._write_new_version(old, new, bodies)
        try:
            saved = await self._save_edit(old, new)
        except Conflict as exc:
            if new.body_version != old.body_version:
                await self._delete_bodies(new)
            raise Overtaken("message", ref) from exc
        if new.body_version != old.body_version:
            await self._delete_bodies(old)
        await self.wake_scheduler(saved)
        return saved

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
        for blob in (await self._bodies.list(message.ref)).blobs:
            await self._delete_body(blob.name)  # also what an interrupted edit has left

    async def pause(self, ref: str, reason: str = "", *, resumptions: int | None = None) -> Message:
        """Stop for now. Senders obey within a second or a page.

        `resumptions`: only if the message has not gone on since it had so many. A sender that is
        told late of a fault must not pause what somebody has mended meanwhile. `NotNow`.
        """
        paused = await self._change_status(ref, MessageStatus.PAUSED, reason, resumptions)
        if resumptions is not None:  # a sender did it, by itself
            await self._events.record(
                "sender",
                f"the message {paused.subject!r} to {paused.list_name} paused itself: {reason}",
                severity=Severity.WARNING,
                subject=f"message:{paused.ref}",
            )
        return paused

    async def resume(self, ref: str) -> Message:
        """Go on where the message was paused."""
        return await self._change_status(ref, None)

    async def cancel(self, ref: str) -> Message:
        """End it for good: whoever has not got it yet will not."""
        return await self._change_status(ref, MessageStatus.CANCELLED, "cancelled")

    # -- finding -----------------------------------------------------------------------------

    async def get(self, ref: str) -> Message:
        """The message, done or not. `NoSuch`."""
        checked = parse_ref(ref)
        entry = await self._index.get(records.BY_REF, checked)
        for _ in range(_LOOKS):
            if entry is None:
                break
            found = await self._find(records.read(entry, "Day", str), checked)
            if found is not None:
                message = records.message_from(found)
                if message.day == found.partition:
                    return message
                await self._bring_to_its_day(entry, found, message)
            before, entry = entry, await self._index.get(records.BY_REF, checked)
            if found is None and entry == before:
                break  # not in between two days: it is not there
        raise NoSuch("message", ref)

    async def page(
        self, *, done: bool = False, limit: int = 100, after: str | None = None
    ) -> MessagePage:
        """Messages in the order of their times: those that are open, or those that are done."""
        result = await self._index.query(
            KeyRange.only(records.DONE if done else records.OPEN), limit=limit, after=after
        )
        found = await asyncio.gather(*map(self._from_entry, result.entities))
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

    async def remove_done(self, message: Message) -> None:
        """Forget a message that is done; its emails are gone already. Can be repeated."""
        await self._delete_bodies(message)
        with contextlib.suppress(NotFound):
            await self._archive.delete(message.day, records.message_row(message.ref))
        await self.forget_done(_due_entry(message).row)

    async def forget_done(self, row: str) -> None:
        """Take a message that is not there any more out of the index; the entry itself last."""
        ref = row.rpartition(",")[2]
        for entry in ((records.BY_REF, ref), (records.RETRY, ref), (records.DONE, row)):
            await self._delete_quietly(Entity(*entry, {}))

    async def wake_scheduler(self, message: Message) -> None:
        """Put a bell that rings when the message is due, or now."""
        due_in = (message.scheduled_at - datetime.now(UTC)).total_seconds()
        await self._bell.put(message.ref, delay=min(max(due_in, 0.0), QUEUE_SECONDS))

    # -- parts -------------------------------------------------------------------------------

    async def _check_list(self, name: str) -> None:
        found = await self._lists.get(parse_list_name(name), records.LIST_ROW)
        if found is None or found.properties.get("Deleting") is True:
            raise NoSuch("list", name)

    async def _find(self, day: str, ref: MessageRef) -> Entity | None:
        for table in (self._messages, self._archive, self._messages):
            # It may be moved to the archive between the two looks, but not back.
            found = await table.get(day, records.message_row(ref))
            if found is not None:
                return found
        return None

    async def _made_before(self, ref: MessageRef) -> Message | None:
        try:
            return await self.get(ref)
        except NoSuch:
            return None

    async def _reserve_ref(self, day: str, kept: MessageRef | None) -> MessageRef:
        """A reference that nobody else has; one that was kept is the caller's own."""
        if kept is not None:
            await self._index.upsert(Entity(records.BY_REF, kept, {"Day": day}))
            return kept
        while True:
            ref = new_ref()
            try:
                await self._index.insert(Entity(records.BY_REF, ref, {"Day": day}))
            except AlreadyExists:
                continue
            return ref

    async def _change_status(
        self,
        ref: str,
        to: MessageStatus | None,
        reason: str = "",
        resumptions: int | None = None,
    ) -> Message:
        """None stands for where it was paused."""
        for _ in range(_LOOKS):
            old = await self.get(ref)
            if resumptions is not None and old.resumptions != resumptions:
                raise NotNow(f"the message {ref} has gone on meanwhile")
            status = to or old.paused_from or MessageStatus.PENDING
            check_transition(old.status, status)
            new = msgspec.structs.replace(
                old,
                status=status,
                reason=reason,
                paused_from=old.status if status is MessageStatus.PAUSED else None,
                resumptions=old.resumptions + (old.status is MessageStatus.PAUSED),
            )
            try:
                saved = await self.save(new)
            except Overtaken:
                continue  # the scheduler saves its progress: look again
            await self._bell.put(saved.ref)
            return saved
        raise Overtaken("message", ref)

    async def _save_edit(self, old: Message, new: Message) -> Message:
        """Replace the row under its ETag: from that moment all of the edit counts. `Conflict`.

        Another time is another entry in the index. The new one is there before, so that the message
        is found whatever happens, and the old one goes last. Each is removed only as long as it is
        as we know it: somebody else may need an entry for the very same time.
        """
        leaving = announced = None
        if _due_entry(new).row != _due_entry(old).row:
            leaving = await self._index.get(records.OPEN, _due_entry(old).row)
            announced = await self._announce(_due_entry(new))
        entity = records.message_entity(new)
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
                await self._delete_body(_name(message, kind))

    async def _delete_body(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._bodies.delete(name)

    async def _read_body(self, message: Message, kind: str) -> str:
        return (await self._bodies.read(_name(message, kind))).decode()


def _due_entry(message: Message) -> Entity:
    return Entity(records.OPEN, records.due_row(message.scheduled_at, message.ref), {})


def _name(message: Message, kind: str) -> str:
    return records.body_name(message.ref, message.body_version, kind)


def checked_subject(subject: str) -> str:
    """A subject as a message may have it. `Invalid`."""
    checked = one_line("subject", subject, longest=LONGEST_SUBJECT)
    check_fields("subject", checked)
    return checked


def _checked_time(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise Invalid("scheduled_at", "needs a time zone, as in 2026-11-15T09:00:00+01:00")
    try:
        checked = moment.astimezone(UTC)
    except OverflowError:
        checked = EARLIEST
    if checked <= EARLIEST:
        raise Invalid("scheduled_at", "is no time that can be kept")
    return checked


def _clean(bodies: NewBodies) -> NewBodies:
    """The bodies as they are kept: checked, with one kind of line end."""
    return NewBodies(_clean_one("html", bodies.html), _clean_one("text", bodies.text))


def _clean_one(field: str, body: str | None) -> str | None:
    if not body:
        return body
    cleaned = clean_body(field, body)
    check_fields(field, cleaned)
    return cleaned
