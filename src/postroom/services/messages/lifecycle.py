"""Messages: schedule, edit, delete.

`message_states.py` pauses, resumes and cancels them; `composing.py` has drafts, `message_rows.py`
stores and finds messages, `message_contents.py` says what one may consist of, and `outcomes.py`
what happened to their emails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

import msgspec

from postroom import clock
from postroom.domain.audience.lists.lists import parse_list_name
from postroom.domain.errors import NoSuch, NotNow, Overtaken
from postroom.domain.messages.attachments import Attachment, check_attachments
from postroom.domain.messages.audiences import EVERYBODY, Audience
from postroom.domain.messages.messages import (
    Message,
    MessageFormat,
    MessageStatus,
    check_deletable,
    check_editable,
    day_of,
)
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.waves.buckets import Part
from postroom.domain.messages.web_pages import new_web_key
from postroom.mail.bodies.attached_files import AttachedFile
from postroom.mail.personal.merge_fields import FieldRule
from postroom.observability import spans
from postroom.services import entities
from postroom.services.messages.drafts.message_edits import (
    check_kept,
    merged_bodies,
    with_fields,
)
from postroom.services.messages.drafts.message_versions import MessageVersions
from postroom.services.messages.drafts.stored_attachments import AttachedFiles
from postroom.services.messages.message_contents import (
    NO_LINES,
    InboxLines,
    MessageBodies,
    NewBodies,
    check_any_body,
    checked_bodies,
    checked_lines,
    checked_subject,
    checked_time,
    with_bodies,
    with_columns,
    with_text,
)
from postroom.services.messages.message_rows import MessagePart, MessageRows, MessageSlice
from postroom.services.messages.message_states import MessageStates
from postroom.services.messages.published_messages import PublishedIndex, check_content
from postroom.services.messages.sending_options import (
    PLAIN,
    UNCHANGED,
    OptionsChange,
    SendingOptions,
    checked_options,
    edited_options,
)
from postroom.storage import AlreadyExists, Conflict, Store


class WrittenIn(msgspec.Struct, frozen=True):
    """The source of a message: its format, and the template that it was put into."""

    format: MessageFormat = MessageFormat.HTML
    template: str = ""


AS_HTML: Final = WrittenIn()


class Audiences(Protocol):
    async def checked(self, list_name: str, audience: Audience) -> Audience:
        """Return an audience as it is stored. `Invalid` if the list cannot have it."""

    async def merge_fields(
        self, list_name: str, more_lists: Sequence[str] = ()
    ) -> Mapping[str, FieldRule]:
        """Return the merge fields of messages to a list: those that all lists have, if there are
        more."""


class MessageService:
    """Messages as people deal with them."""

    def __init__(
        self,
        store: Store,
        rows: MessageRows,
        states: MessageStates,
        bodies: MessageBodies,
        files: AttachedFiles,
        versions: MessageVersions,
        published: PublishedIndex,
        audiences: Audiences,
    ) -> None:
        self._rows = rows
        self._states = states
        self._audiences = audiences
        self._lists = store.table(entities.LISTS)
        self._bodies = bodies
        self._files = files
        self._versions = versions
        self._published = published

    async def get(self, ref: str) -> Message:
        """Return a message, open or finished. `NoSuch`."""
        return await self._rows.get(ref)

    async def slice(
        self, part: MessagePart = MessagePart.OPEN, *, limit: int = 100, after: str | None = None
    ) -> MessageSlice:
        """Return open or finished messages in the order of their times, or drafts in the order in
        which they were created."""
        return await self._rows.slice(part, limit=limit, after=after)

    # -- content -----------------------------------------------------------------------------

    async def create(
        self,
        list_name: str,
        subject: str,
        bodies: NewBodies,
        scheduled_at: datetime,
        *,
        audience: Audience = EVERYBODY,
        lines: InboxLines = NO_LINES,
        written_in: WrittenIn = AS_HTML,
        options: SendingOptions = PLAIN,
        attachments: tuple[Attachment, ...] = (),
        files: Mapping[str, bytes] = {},
        ref: MessageRef | None = None,
        retry_of: MessageRef | None = None,
        part: Part | None = None,
    ) -> Message:
        """Schedule a message, immediately if the time has passed. Without a text (None), one is
        generated from the HTML. `Invalid`, `NoSuch` list.

        The message's own row is written last: what an interruption leaves before it belongs to no
        message. With a `ref` that the caller has stored, an interrupted call can be repeated and
        creates one message.
        """
        if ref is not None and (created := await self._find(ref)) is not None:
            await self._states.wake_scheduler(created)
            return created
        await self.check_list(list_name)
        check_any_body(bodies)
        rules = await self._audiences.merge_fields(list_name, audience.more_lists)
        bodies = await with_text(await checked_bodies(bodies, rules))
        subject, scheduled_at = checked_subject(subject, rules), checked_time(scheduled_at)
        lines = checked_lines(lines, rules)
        if options.published:
            check_content(subject, lines.preheader, bodies)
        options = checked_options(options)
        audience = await self._audiences.checked(list_name, audience)
        message = Message(
            ref=await self._rows.reserve_ref(day_of(scheduled_at), ref),
            list_name=parse_list_name(list_name),
            subject=subject,
            scheduled_at=scheduled_at,
            status=MessageStatus.PENDING,
            has_html=bool(bodies.html),
            has_text=bool(bodies.text),
            has_source=bool(bodies.source),
            format=written_in.format,
            template=written_in.template,
            created_at=clock.now(),
            **msgspec.structs.asdict(lines),
            **msgspec.structs.asdict(options),
            list_zone=await self.zone_of(list_name) if options.local_time else "",
            web_key=new_web_key(),
            **msgspec.structs.asdict(audience),
            attachments=check_attachments(attachments),
            retry_of=retry_of,
            part=part,
            trace=spans.traceparent(),
        )
        await self._files.put(message.ref, files)
        await self._files.check(message.ref, attachments)
        message = with_columns(message, bodies)
        await self._bodies.write(message, bodies)
        try:
            message = await self._rows.insert(message)
        except AlreadyExists:
            return await self._rows.get(
                message.ref
            )  # created by the same call, repeated in the meantime
        await self._states.wake_scheduler(message)
        return message

    async def edit(
        self,
        ref: str,
        *,
        list_name: str | None = None,
        audience: Audience | None = None,
        subject: str | None = None,
        bodies: NewBodies | None = None,
        lines: InboxLines | None = None,
        scheduled_at: datetime | None = None,
        options: OptionsChange = UNCHANGED,
        attachments: tuple[Attachment, ...] | None = None,
        etag: str | None = None,
    ) -> Message:
        """Change what is given, while the message is Pending, or Paused and none of it was sent
        (drafts: `ComposingService.save`). Once its recipients have been planned, list, audience
        and time stay. `Overtaken`, `NotNow`.

        A text that was generated from the HTML is generated again with it, unless one is given.

        New bodies are written next to the old ones; only the row, replaced under its ETag, points
        to them. An edit that loses that race changes nothing.
        """
        old = await self._editable(ref, etag)
        if list_name is not None:
            await self.check_list(list_name)
        if old.queued_at is not None:
            check_kept(old, list_name, audience, scheduled_at)
            await self._states.check_unsent(old)
        more = (audience or old.audience).more_lists
        rules = await self._audiences.merge_fields(list_name or old.list_name, more)
        new = msgspec.structs.replace(
            old,
            list_name=old.list_name if list_name is None else parse_list_name(list_name),
            subject=old.subject if subject is None else checked_subject(subject, rules),
            scheduled_at=old.scheduled_at if scheduled_at is None else checked_time(scheduled_at),
            **msgspec.structs.asdict(edited_options(old, options)),
            web_key=old.web_key or new_web_key(),
        )
        if audience is not None or new.list_name != old.list_name:
            audience = await self._audiences.checked(new.list_name, audience or old.audience)
            new = msgspec.structs.replace(new, **msgspec.structs.asdict(audience))
        if new.local_time and new.queued_at is None:
            zone = await self.zone_of(new.list_name)
            new = msgspec.structs.replace(new, list_zone=zone)
        if attachments is not None:
            await self._files.check(old.ref, attachments)
            new = msgspec.structs.replace(new, attachments=check_attachments(attachments))
        if lines is not None:
            checked = checked_lines(lines, rules)
            new = msgspec.structs.replace(new, **msgspec.structs.asdict(checked))
        current = merged = await self.bodies(old)
        if bodies is not None and (bodies.html is not None or bodies.text is not None):
            merged = await merged_bodies(current, await checked_bodies(bodies, rules))
            new = with_bodies(new, merged)
        new = with_fields(new, merged, rules)
        if new.published:
            check_content(new.subject, new.preheader, merged)
        if merged is not current:
            await self._bodies.write(new, merged)
        return await self._replace(old, new)

    async def _editable(self, ref: str, etag: str | None) -> Message:
        """Return a message that may be edited, as the editor knows it. `Overtaken`, `NotNow`."""
        message = await self._rows.get_for_change(ref)
        check_editable(message.status)
        if message.status is MessageStatus.DRAFT:
            raise NotNow(f"the message {ref} is a draft again: someone has unscheduled it")
        if etag is not None and etag != message.etag:
            raise Overtaken("message", ref)
        return message

    async def _replace(self, old: Message, new: Message) -> Message:
        """Save an edited message, whose bodies are written, and delete those of the one before."""
        try:
            saved = await self._rows.save_edit(old, new)
        except Conflict as exc:
            if new.body_version != old.body_version:
                await self._bodies.delete(new)
            raise Overtaken("message", old.ref) from exc
        if new.body_version != old.body_version:
            await self._bodies.delete(old)
        if saved.published or old.published:
            await self._published.update(saved)
        await self._states.wake_scheduler(saved)
        return saved

    async def delete(self, ref: str, etag: str | None = None) -> None:
        """Delete a draft or a message that is Pending, with its bodies. `NotNow`, `Overtaken`."""
        message = await self._rows.get_for_change(ref)
        check_deletable(message.status)
        if etag is not None and etag != message.etag:
            raise Overtaken("message", ref)
        try:
            await self._rows.remove(message)
        except Conflict as exc:
            raise Overtaken("message", ref) from exc
        await self._delete_content(message.ref)

    async def bodies(self, message: Message) -> NewBodies:
        """Return the HTML and the text of a message, as they are sent."""
        return await self._bodies.read(message)

    async def files(self, message: Message) -> tuple[AttachedFile, ...]:
        """Return the attached files of a message, as they are sent."""
        return await self._files.read(message.ref, message.attachments)

    async def remove_done(self, message: Message) -> None:
        """Delete a finished message whose emails are deleted already. Can be repeated."""
        await self._delete_content(message.ref)
        if message.published:
            await self._published.remove(message)
        await self._rows.remove_archived(message)

    # -- parts -------------------------------------------------------------------------------

    async def zone_of(self, name: str) -> str:
        """Return the time zone of a list. `NoSuch`."""
        found = await self._lists.get(parse_list_name(name), entities.LIST_ROW)
        if found is None:
            raise NoSuch("list", name)
        return entities.list_from(found).time_zone

    async def check_list(self, name: str) -> None:
        """Raise `NoSuch` unless there is such a list."""
        found = await self._lists.get(parse_list_name(name), entities.LIST_ROW)
        if found is None or found.properties.get("Deleting") is True:
            raise NoSuch("list", name)

    async def _find(self, ref: MessageRef) -> Message | None:
        try:
            return await self._rows.get(ref)
        except NoSuch:
            return None

    async def _delete_content(self, ref: MessageRef) -> None:
        await self._bodies.delete_all(ref)
        await self._versions.delete_all(ref)
