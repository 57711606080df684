"""What the author of a message writes, all of it in one value.

A draft accepts everything that can be stored, however incomplete; what is missing or wrong is
checked when the message is scheduled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from postroom.composing.brand import EmailBrand
from postroom.composing.compiler import compile_source
from postroom.composing.layouts import Layout
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Incomplete, Invalid
from postroom.domain.messages.attachments import Attachment, check_attachments
from postroom.domain.messages.audiences import (
    Audience,
    parse_excluded_lists,
    parse_excluded_segments,
    parse_more_lists,
    parse_segment,
)
from postroom.domain.messages.messages import (
    LONGEST_FROM_NAME,
    LONGEST_PREHEADER,
    LONGEST_SUBJECT,
    Message,
    MessageFormat,
)
from postroom.domain.messages.tracking import Track, parse_track_choice
from postroom.domain.messages.waves.canaries import check_waves, parse_canary
from postroom.domain.plain_text import printable
from postroom.mail.bodies.body_files import clean_body
from postroom.mail.personal.merge_fields import FieldRule
from postroom.services.messages.message_contents import (
    InboxLines,
    NewBodies,
    checked_bodies,
    checked_lines,
    checked_subject,
    checked_time,
    with_text,
)
from postroom.services.messages.published_messages import check_content
from postroom.services.messages.sending_options import SendingOptions

_MOST_ERRORS: Final = 5
_AUDIENCE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "segment": parse_segment,
    "exclude_segments": parse_excluded_segments,
    "exclude_lists": parse_excluded_lists,
    "more_lists": parse_more_lists,
}
_LONGEST = {
    "list_name": 100,
    "subject": LONGEST_SUBJECT,
    "preheader": LONGEST_PREHEADER,
    "from_name": LONGEST_FROM_NAME,
    "reply_to": 254,
    "template": 63,
}


class Content(msgspec.Struct, frozen=True):
    """A message as its author writes it. `body` is in `format`, and is put into the template, if
    one is named; an empty `text` is generated."""

    list_name: str = ""
    segment: str = ""
    exclude_segments: tuple[str, ...] = ()
    exclude_lists: tuple[ListName, ...] = ()
    more_lists: tuple[ListName, ...] = ()
    subject: str = ""
    preheader: str = ""
    from_name: str = ""
    reply_to: str = ""
    format: MessageFormat = MessageFormat.HTML
    template: str = ""
    body: str = ""
    text: str = ""
    track: Track | None = None
    published: bool = False
    canary: str = ""
    local_time: bool = False
    attachments: tuple[Attachment, ...] = ()
    scheduled_at: datetime | None = None

    @property
    def audience(self) -> Audience:
        return Audience(self.segment, self.exclude_segments, self.exclude_lists, self.more_lists)

    @property
    def options(self) -> SendingOptions:
        """Its options. `Invalid`."""
        track = parse_track_choice(self.track)
        return SendingOptions(track, self.published, self.canary, self.local_time)

    @property
    def lines(self) -> InboxLines:
        return InboxLines(self.preheader, self.from_name, self.reply_to)


class ContentChange(msgspec.Struct, frozen=True):
    """The same fields; those that are not set stay as they are."""

    list_name: str | UnsetType = UNSET
    segment: str | UnsetType = UNSET
    exclude_segments: Sequence[str] | UnsetType = UNSET
    exclude_lists: Sequence[str] | UnsetType = UNSET
    more_lists: Sequence[str] | UnsetType = UNSET
    subject: str | UnsetType = UNSET
    preheader: str | UnsetType = UNSET
    from_name: str | UnsetType = UNSET
    reply_to: str | UnsetType = UNSET
    format: MessageFormat | UnsetType = UNSET
    template: str | UnsetType = UNSET
    body: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    track: str | UnsetType | None = UNSET
    published: bool | UnsetType = UNSET
    canary: str | UnsetType | None = UNSET
    local_time: bool | UnsetType = UNSET
    attachments: tuple[Attachment, ...] | UnsetType = UNSET
    scheduled_at: datetime | UnsetType | None = UNSET

    @property
    def given(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value is not UNSET}

    @property
    def has_bodies(self) -> bool:
        """Whether it replaces all of the bodies, so that nobody needs to read the old ones."""
        return self.body is not UNSET and self.text is not UNSET


def change_to(content: Content) -> ContentChange:
    """Return the change that makes any draft this one."""
    given = {name: getattr(content, name) for name in content.__struct_fields__}
    return ContentChange(**given)


def storable(change: ContentChange) -> dict[str, Any]:
    """Return the values of a draft as they can be stored: on one line, with one kind of line end.
    `Invalid` only for what is too long or cannot be a name, so that nearly everything is saved."""
    found = change.given
    found |= {field: parse(found[field]) for field, parse in _AUDIENCE.items() if field in found}
    for field, longest in _LONGEST.items():
        if field in found:
            found[field] = _line(field, found[field], longest)
    for field in ("body", "text"):
        if field in found:
            found[field] = clean_body(field, found[field].replace("\0", ""))
    if "track" in found:
        found["track"] = parse_track_choice(found["track"])
    if "canary" in found:
        found["canary"] = parse_canary(found["canary"])
    if found.get("attachments"):
        found["attachments"] = check_attachments(found["attachments"])
    if found.get("scheduled_at") is not None:
        found["scheduled_at"] = checked_time(found["scheduled_at"])
    return found


def _line(field: str, text: str, longest: int) -> str:
    line = printable(" ".join(text.split()), longest=longest + 1)
    if len(line) > longest:
        raise Invalid(field, f"must have at most {longest} characters")
    return line


def source_bodies(content: Content) -> NewBodies:
    """Return the bodies of a draft as they are stored: its source, and a text only if the author
    wrote one."""
    if has_own_html(content):
        return NewBodies(content.body, content.text)
    return NewBodies(None, content.text, content.body)


def has_own_html(content: Content) -> bool:
    """Return whether the author's HTML is sent as it is, so that there is no other source."""
    return content.format is MessageFormat.HTML and not content.template


async def compiled(
    content: Content, brand: EmailBrand, layout: Layout | None, rules: Mapping[str, FieldRule]
) -> NewBodies:
    """Return the bodies as they are sent. `Invalid`."""
    html, text = content.body, content.text
    source = None
    if html.strip() and not has_own_html(content):
        made = await asyncio.to_thread(compile_source, html, content.format, brand, layout, rules)
        if made.errors:
            raise Invalid("body", "; ".join(map(str, made.errors[:_MOST_ERRORS])))
        html, text, source = made.html, text if text.strip() else made.text, content.body
    bodies = NewBodies(html if html.strip() else None, text if text.strip() else None, source)
    return await with_text(await checked_bodies(bodies, rules))


async def complete(
    content: Content, brand: EmailBrand, layout: Layout | None, rules: Mapping[str, FieldRule]
) -> tuple[Content, NewBodies]:
    """Return the content and the bodies as they are sent. `Incomplete` names everything that is
    missing or wrong; whether list and template exist is left to the caller."""
    problems: dict[str, str] = {}
    fields: dict[str, Any] = {}
    bodies = NewBodies()
    if not content.list_name:
        problems["list"] = "choose the list that gets this message"
    if not content.subject.strip():
        problems["subject"] = "is missing"
    else:
        try:
            fields["subject"] = checked_subject(content.subject, rules)
        except Invalid as exc:
            problems[exc.field] = exc.problem
    try:
        fields |= msgspec.structs.asdict(checked_lines(content.lines, rules))
    except Invalid as exc:
        problems[exc.field] = exc.problem
    try:
        bodies = await compiled(content, brand, layout, rules)
        if not (bodies.html or bodies.text):
            problems["body"] = "is empty: write the message"
    except Invalid as exc:
        problems["body" if exc.field == "html" else exc.field] = exc.problem
    if content.published and not problems:
        try:
            check_content(content.subject, content.preheader, bodies)
        except Invalid as exc:
            problems[exc.field] = exc.problem
    try:
        check_waves(content.canary, local_time=content.local_time)
    except Invalid as exc:
        problems[exc.field] = exc.problem
    if problems:
        raise Incomplete(problems)
    return msgspec.structs.replace(content, **fields), bodies


def content_of(message: Message, bodies: NewBodies) -> Content:
    """Return what the author wrote, with the text that is stored."""
    return Content(
        list_name=message.list_name,
        segment=message.segment,
        exclude_segments=message.exclude_segments,
        exclude_lists=message.exclude_lists,
        more_lists=message.more_lists,
        subject=message.subject,
        preheader=message.preheader,
        from_name=message.from_name,
        reply_to=message.reply_to,
        format=message.format,
        template=message.template,
        body=(bodies.source if message.has_source else bodies.html) or "",
        text=bodies.text or "",
        track=message.track,
        published=message.published,
        canary=message.canary,
        local_time=message.local_time,
        attachments=message.attachments,
        scheduled_at=message.scheduled_at,
    )
