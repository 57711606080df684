"""Composing: drafts, their versions, scheduling and unscheduling.

Every save is guarded by the ETag of the draft that it was based on, and writes its bodies as new
blobs before the draft's row points to them: a crash leaves either the old draft or the new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from postroom import clock
from postroom.domain.audience.lists.lists import ListName, parse_list_name
from postroom.domain.errors import NoSuch, NotNow, Overtaken
from postroom.domain.messages.audiences import Audience
from postroom.domain.messages.messages import (
    DRAFTS,
    Message,
    MessageFormat,
    MessageStatus,
    check_editable,
    check_transition,
    with_status,
)
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.waves.buckets import Part
from postroom.domain.messages.web_pages import new_web_key
from postroom.mail.personal.merge_fields import columns_in
from postroom.observability import spans
from postroom.services.concurrency import retry_on_conflict
from postroom.services.messages.ab_test_rows import AbTestRows
from postroom.services.messages.drafts.draft_compilation import DraftCompilation
from postroom.services.messages.drafts.draft_contents import (
    Content,
    ContentChange,
    change_to,
    content_of,
    has_own_html,
    source_bodies,
    storable,
)
from postroom.services.messages.drafts.message_versions import MessageVersions, is_over
from postroom.services.messages.drafts.stored_attachments import AttachedFiles
from postroom.services.messages.drafts.templates import TemplateService
from postroom.services.messages.lifecycle import Audiences, MessageService, WrittenIn
from postroom.services.messages.message_contents import (
    InboxLines,
    MessageBodies,
    NewBodies,
    checked_time,
    with_bodies,
)
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.message_states import MessageStates
from postroom.services.messages.published_messages import PublishingService
from postroom.services.messages.sending_options import OptionsChange
from postroom.storage import AlreadyExists, Conflict, Store

_KIND: Final = "message"
HTML: Final = MessageFormat.HTML
AS_IT_IS: Final = ContentChange()


class ComposingService(DraftCompilation):
    """Messages while their authors write them."""

    def __init__(
        self,
        store: Store,
        rows: MessageRows,
        messages: MessageService,
        states: MessageStates,
        bodies: MessageBodies,
        files: AttachedFiles,
        versions: MessageVersions,
        tests: AbTestRows,
        templates: TemplateService,
        publishing: PublishingService,
        audiences: Audiences,
        base_url: str = "",
    ) -> None:
        super().__init__(store, rows, bodies, templates, audiences, base_url)
        self._messages = messages
        self._publishing = publishing
        self._states = states
        self._files = files
        self._tests = tests
        self.versions = versions

    async def create(
        self,
        change: ContentChange,
        who: str,
        *,
        ref: MessageRef | None = None,
        files: Mapping[str, bytes] = {},
    ) -> Message:
        """Store a draft. `Invalid` only for what is too long. `files` are the contents of its
        attachments by their hashes.

        With a `ref`, a repeated call returns the message that the first one has stored, even if it
        has been scheduled since.
        """
        if ref is not None:
            with contextlib.suppress(NoSuch):
                return await self._rows.get(ref)
        content = Content(**storable(change))
        now = clock.now()
        draft = Message(
            ref=await self._rows.reserve_ref(DRAFTS, ref),
            list_name=ListName(content.list_name),
            subject=content.subject,
            scheduled_at=content.scheduled_at,
            **msgspec.structs.asdict(content.audience),
            status=MessageStatus.DRAFT,
            created_at=now,
            format=content.format,
            template=content.template,
            preheader=content.preheader,
            from_name=content.from_name,
            reply_to=content.reply_to,
            track=content.track,
            published=content.published,
            canary=content.canary,
            local_time=content.local_time,
            web_key=new_web_key(),
            attachments=content.attachments,
            edited_at=now,
            edited_by=who,
            version_at=now,
        )
        bodies = source_bodies(content)
        draft = with_bodies(draft, bodies)
        await self._files.put(draft.ref, files)
        await self._files.check(draft.ref, draft.attachments)
        await self._bodies.write(draft, bodies)
        try:
            return await self._rows.insert(draft)
        except AlreadyExists:
            await self._bodies.delete(draft)
            return await self._rows.get(draft.ref)

    async def create_scheduled(
        self,
        change: ContentChange,
        bodies: NewBodies,
        at: datetime,
        *,
        ref: MessageRef | None = None,
        files: Mapping[str, bytes] = {},
    ) -> Message:
        """Schedule a new message immediately. `Invalid`, `NoSuch` list.

        `bodies` are those of a message in HTML, of which each may be left out.
        """
        content = Content(**change.given)
        if not has_own_html(content):
            _, bodies = await self.complete(Content(**storable(change)))
        return await self._messages.create(
            content.list_name,
            content.subject,
            bodies,
            at,
            audience=content.audience,
            lines=content.lines,
            written_in=WrittenIn(content.format, content.template),
            options=content.options,
            attachments=content.attachments,
            files=files,
            ref=ref,
        )

    async def change(
        self,
        ref: str,
        change: ContentChange,
        who: str,
        *,
        etag: str | None = None,
        files: Mapping[str, bytes] = {},
    ) -> Message:
        """Change a draft, or a message that may still be edited. `Overtaken`, `NotNow`."""
        message = await self._rows.get(ref)
        if files:
            check_editable(message.status)
            await self._files.put(message.ref, files)
        if message.status is MessageStatus.DRAFT:
            if etag is not None:
                return await self.save(ref, change, who, etag=etag)
            return await retry_on_conflict(lambda: self.save(ref, change, who), _KIND, ref)
        given = change.given
        if {"body", "format", "template"} & given.keys() and (
            message.has_source or given.get("template") or given.get("format", HTML) is not HTML
        ):
            raise NotNow(
                f"the message {ref} is {message.status}: unschedule it to change its source"
            )
        if given.keys() == {"published"}:
            return await self._publishing.publish(ref, given["published"], etag=etag)
        audience = {name: given[name] for name in Audience.__struct_fields__ if name in given}
        lines = {name: given[name] for name in InboxLines.__struct_fields__ if name in given}
        current = InboxLines(message.preheader, message.from_name, message.reply_to)
        return await self._messages.edit(
            ref,
            list_name=given.get("list_name"),
            audience=msgspec.structs.replace(message.audience, **audience) if audience else None,
            subject=given.get("subject"),
            bodies=NewBodies(given.get("body"), given.get("text")),
            lines=msgspec.structs.replace(current, **lines) if lines else None,
            options=OptionsChange(
                (given["track"] or "") if "track" in given else None,
                given.get("published"),
                (given["canary"] or "") if "canary" in given else None,
                given.get("local_time"),
            ),
            attachments=given.get("attachments"),
            scheduled_at=given.get("scheduled_at"),
            etag=etag,
        )

    async def save(
        self,
        ref: str,
        change: ContentChange,
        who: str,
        *,
        etag: str | None = None,
        keeps_previous: bool = False,
    ) -> Message:
        """Save a draft. `Overtaken` if someone saved it since `etag`; `NotNow` if it is scheduled.

        What it replaces becomes a version with `keeps_previous`, if someone else saved it, or
        after some minutes.
        """
        old = await self._draft(ref, etag)
        given = storable(change)
        if given.get("attachments", old.attachments) != old.attachments:
            await self._files.check(old.ref, given["attachments"])
        current = Content(format=old.format, template=old.template)
        if not change.has_bodies:
            current = content_of(old, await self._bodies_of(old))
        bodies = source_bodies(msgspec.structs.replace(current, **given))
        now = clock.now()
        keeps = keeps_previous or is_over(old, now, who)
        new = msgspec.structs.replace(
            with_bodies(old, bodies),
            **_of_row(given),
            edited_at=now,
            edited_by=who,
            version_at=now if keeps else old.version_at,
        )
        await self._bodies.write(new, bodies)
        return await self._replace(old, new, keeps=keeps)

    async def already_saved(self, ref: str, change: ContentChange) -> Message | None:
        """Return the draft if it says what `change` would make it say; otherwise None. `NoSuch`."""
        message, content = await self.read(ref)
        is_same = msgspec.structs.replace(content, **storable(change)) == content
        return message if is_same and message.status is MessageStatus.DRAFT else None

    async def schedule(
        self,
        ref: str,
        at: datetime | None = None,
        *,
        etag: str | None = None,
        part: Part | None = None,
    ) -> Message:
        """Schedule a draft for this time, its own, or now; to a part of its audience only if it is
        a variant of an A/B test. `Incomplete`, `NotNow`, `Overtaken`."""
        old = await self._draft(ref, etag)
        if part is None:
            await self._tests.check_free(old.ref)
        content, bodies = await self.checked(old)
        used = columns_in(content.subject, content.preheader, bodies.html, bodies.text)
        new = with_status(
            with_bodies(old, bodies),
            MessageStatus.PENDING,
            list_name=parse_list_name(content.list_name),
            subject=content.subject,
            **msgspec.structs.asdict(content.lines),
            **msgspec.structs.asdict(used),
            list_zone=await self._messages.zone_of(content.list_name) if old.local_time else "",
            scheduled_at=checked_time(at or old.scheduled_at or clock.now()),
            ready_by="",
            part=part,
            web_key=old.web_key or new_web_key(),
            trace=spans.traceparent(),
        )
        await self._bodies.write(new, bodies)
        saved = await self._replace(old, new, keeps=False)
        await self._states.wake_scheduler(saved)
        return saved

    async def unschedule(self, ref: str, *, etag: str | None = None) -> Message:
        """Make a scheduled message a draft again. `NotNow` once it is being sent, `Overtaken`."""
        old = await self._rows.get_for_change(ref)
        check_transition(old.status, MessageStatus.DRAFT)
        _check_etag(old, etag)
        if old.retry_of is not None:
            raise NotNow(f"the message {ref} retries another one: cancel it instead")
        if old.part is not None:
            raise NotNow(f"the message {ref} is part of an A/B test: cancel the test instead")
        bodies = source_bodies(await self.content(old))
        new = with_status(
            with_bodies(old, bodies),
            MessageStatus.DRAFT,
            version_at=clock.now(),
            edited_at=clock.now(),
        )
        await self._bodies.write(new, bodies)
        return await self._replace(old, new, keeps=False)

    async def duplicate(
        self,
        ref: str,
        who: str,
        change: ContentChange = AS_IT_IS,
        *,
        new_ref: MessageRef | None = None,
    ) -> Message:
        """Create a draft with the content of any message, apart from a change, without its time.
        With `new_ref` it can be repeated, and creates one draft."""
        message, content = await self.read(ref)
        content = msgspec.structs.replace(content, scheduled_at=None, **storable(change))
        files = await self._files.contents(message)
        return await self.create(change_to(content), who, ref=new_ref, files=files)

    async def hand_over(
        self, ref: str, who: str, *, is_ready: bool = True, etag: str | None = None
    ) -> Message:
        """Mark a draft as ready to be sent by someone who may, or take it back."""
        old = await self._draft(ref, etag)
        new = msgspec.structs.replace(old, ready_by=who if is_ready else "")
        return await self._rows.save(new)

    async def restore(
        self, ref: str, version: str, who: str, *, etag: str | None = None
    ) -> Message:
        """Make an earlier version the current one, which becomes a version itself. `NoSuch`."""
        earlier = await self.versions.get(MessageRef(ref), version)
        change = change_to(await self.content(earlier))
        return await self.save(ref, change, who, etag=etag, keeps_previous=True)

    async def keep_as_version(self, ref: str, change: ContentChange, who: str) -> None:
        """Keep a text as a version without making it the current one: its author prefers what
        someone else has saved in the meantime."""
        current = await self._draft(ref, None)
        given = storable(change)
        bodies = source_bodies(Content(**given))
        aside = msgspec.structs.replace(
            with_bodies(current, bodies), **_of_row(given), edited_at=clock.now(), edited_by=who
        )
        await self._bodies.write(aside, bodies)
        await self.versions.keep(aside)

    # -- parts -------------------------------------------------------------------------------

    async def _draft(self, ref: str, etag: str | None) -> Message:
        message = await self._rows.get_for_change(ref)
        if message.status is not MessageStatus.DRAFT:
            raise NotNow(f"the message {ref} is {message.status}: it is no longer a draft")
        _check_etag(message, etag)
        return message

    async def _replace(self, old: Message, new: Message, *, keeps: bool) -> Message:
        """Save `new`, whose bodies are written, and keep `old` as a version or drop its bodies."""
        if keeps:
            await self.versions.keep(old)
        try:
            saved = await self._rows.save_edit(old, new)
        except Conflict as exc:
            await self._bodies.delete(new)
            if keeps:
                await self.versions.drop_if_bare(old)
            raise Overtaken(_KIND, old.ref) from exc
        if not keeps:
            await self.versions.drop(old)
        return saved


def _of_row(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are in a message's row; bodies are blobs."""
    return {name: value for name, value in given.items() if name not in ("body", "text")}


def _check_etag(message: Message, etag: str | None) -> None:
    if etag is not None and etag != message.etag:
        raise Overtaken(_KIND, message.ref)
