"""The content of a message: a subject, one or two bodies, a time, and what else an inbox shows.
Bodies are blobs."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from postroom.domain.audience.addresses import parse_address
from postroom.domain.errors import Invalid
from postroom.domain.messages.messages import (
    LARGEST_BODY,
    LONGEST_FROM_NAME,
    LONGEST_PREHEADER,
    LONGEST_SUBJECT,
    Message,
)
from postroom.domain.messages.pictures import PictureHash, media_in
from postroom.domain.messages.refs import MessageRef
from postroom.domain.plain_text import one_line
from postroom.mail.bodies.body_files import clean_body
from postroom.mail.bodies.html import shows_html, shows_text
from postroom.mail.bodies.plaintext import text_from_html
from postroom.mail.personal.content_conditions import may_be_blank
from postroom.mail.personal.field_contexts import check_places
from postroom.mail.personal.merge_fields import (
    ANY_FIELD,
    RULES,
    Columns,
    FieldRule,
    check_fields,
    columns_in,
)
from postroom.services import entities
from postroom.services.messages.media.picture_uses import MESSAGE, PictureUses
from postroom.storage import NotFound, Store
from postroom.storage.limits import EARLIEST

_HTML, _TEXT, _SOURCE = "htm", "txt", "src"

_HOW_TO_FIX: Final = "write something, or leave it out"


class NewBodies(msgspec.Struct, frozen=True):
    """The two bodies of a message. None leaves one out (in an edit: unchanged), and a text left out
    is generated from the HTML; an empty text is not. `source` is what the HTML comes from, if that
    differs."""

    html: str | None = None
    text: str | None = None
    source: str | None = None


class InboxLines(msgspec.Struct, frozen=True):
    """What an inbox shows in addition to the subject: the preheader, and who it is from. The list's
    description and address stand for an empty name and Reply-To."""

    preheader: str = ""
    from_name: str = ""
    reply_to: str = ""


NO_LINES: Final = InboxLines()


def checked_lines(lines: InboxLines, rules: Mapping[str, FieldRule] = RULES) -> InboxLines:
    """Return the lines as they are sent. `Invalid`."""
    preheader = one_line("preheader", lines.preheader, longest=LONGEST_PREHEADER, required=False)
    check_fields("preheader", preheader, rules)
    from_name = one_line("from_name", lines.from_name, longest=LONGEST_FROM_NAME, required=False)
    reply_to = lines.reply_to.strip() and parse_address(lines.reply_to, "reply_to")
    return InboxLines(preheader, from_name, reply_to)


def pictures_in(bodies: NewBodies) -> frozenset[PictureHash]:
    """Return the pictures that the bodies show, whatever their formats are."""
    sources = (each for each in msgspec.structs.astuple(bodies) if each)
    return frozenset[PictureHash]().union(*map(media_in, sources))


def checked_subject(subject: str, rules: Mapping[str, FieldRule] = RULES) -> str:
    """Return the subject as it is stored. `Invalid`."""
    checked = one_line("subject", subject, longest=LONGEST_SUBJECT)
    check_fields("subject", checked, rules)
    if may_be_blank(checked):
        problem = (
            "would be empty for some subscribers: add text outside the conditions, or {% else %}"
        )
        raise Invalid("subject", problem)
    return checked


async def checked_bodies(bodies: NewBodies, rules: Mapping[str, FieldRule] = RULES) -> NewBodies:
    """Return the bodies as they are stored, with one kind of line end. `Invalid` for a blank body.

    Checked in a thread: a body may have 10 MB.
    """
    return await asyncio.to_thread(_checked, bodies, rules)


def _checked(bodies: NewBodies, rules: Mapping[str, FieldRule]) -> NewBodies:
    if bodies.html and not shows_html(bodies.html):
        raise Invalid("html", f"has neither text nor pictures: {_HOW_TO_FIX}")
    if bodies.text and not shows_text(bodies.text):
        raise Invalid("text", f"is blank: {_HOW_TO_FIX}")
    return NewBodies(
        _checked_body("html", bodies.html, rules),
        _checked_body("text", bodies.text, rules),
        bodies.source,
    )


async def with_text(bodies: NewBodies) -> NewBodies:
    """Return the bodies as they are sent: a missing text is generated from the HTML. `Invalid`.

    Generated in a thread: it takes a second per megabyte.
    """
    if not bodies.html or bodies.text is not None:
        return bodies
    generated = await asyncio.to_thread(text_from_html, bodies.html)
    if len(generated.encode()) > LARGEST_BODY:
        return bodies  # written-out links are long: send the HTML alone
    return NewBodies(
        bodies.html, _checked_body("text", generated, ANY_FIELD) or None, bodies.source
    )


def check_any_body(bodies: NewBodies) -> None:
    """Raise `Invalid` if there is no body."""
    if not (bodies.html or bodies.text):
        raise Invalid("html", "a message needs an HTML body, a text body, or both")


def checked_time(moment: datetime) -> datetime:
    """Return a time that can be stored, in UTC. `Invalid`."""
    if moment.tzinfo is None:
        raise Invalid("scheduled_at", "needs a time zone, as in 2026-11-15T09:00:00+01:00")
    try:
        checked = moment.astimezone(UTC)
    except OverflowError:
        checked = EARLIEST
    if checked <= EARLIEST:
        raise Invalid("scheduled_at", "must be a later time")
    return checked


def _checked_body(field: str, body: str | None, rules: Mapping[str, FieldRule]) -> str | None:
    if not body:
        return body
    cleaned = clean_body(field, body)
    check_fields(field, cleaned, rules)
    if field == "html":
        check_places(cleaned, rules)
    return cleaned


class MessageBodies:
    def __init__(self, store: Store, uses: PictureUses) -> None:
        self._blobs = store.container(entities.BODIES)
        self._uses = uses

    async def read(self, message: Message) -> NewBodies:
        """Return both bodies; None for one that the message does not have."""
        html = await self._read(message, _HTML) if message.has_html else None
        text = await self._read(message, _TEXT) if message.has_text else None
        source = await self._read(message, _SOURCE) if message.has_source else None
        return NewBodies(html, text, source)

    async def has(self, message: Message) -> bool:
        """Return whether the bodies of this version are still there."""
        for kind in _kinds(message):
            if not (await self._blobs.list(_name(message, kind), limit=1)).blobs:
                return False
        return True

    async def write(self, message: Message, bodies: NewBodies) -> None:
        """Write the bodies of the message's version; other versions stay."""
        if pictures := pictures_in(bodies):
            await self._uses.record(MESSAGE, message.ref, pictures)
        for kind, body in ((_HTML, bodies.html), (_TEXT, bodies.text), (_SOURCE, bodies.source)):
            if body:
                await self._blobs.put(_name(message, kind), body.encode())

    async def delete(self, message: Message) -> None:
        """Delete the bodies of this version. Can be repeated."""
        for kind in _kinds(message):
            await self._delete(_name(message, kind))

    async def delete_all(self, ref: MessageRef) -> None:
        """Delete the bodies of every version, including leftovers of an interrupted edit."""
        for blob in (await self._blobs.list(ref)).blobs:
            await self._delete(blob.name)

    async def _read(self, message: Message, kind: str) -> str:
        return (await self._blobs.read(_name(message, kind))).decode()

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._blobs.delete(name)


def columns_of(message: Message, bodies: NewBodies) -> Columns:
    """Return the fields of recipients that a message needs, as it is sent. `Invalid`."""
    return columns_in(message.subject, message.preheader, bodies.html, bodies.text)


def with_columns(message: Message, bodies: NewBodies) -> Message:
    """Return a message with the fields and conditions that it uses. `Invalid`."""
    return msgspec.structs.replace(message, **msgspec.structs.asdict(columns_of(message, bodies)))


def with_bodies(message: Message, bodies: NewBodies) -> Message:
    """Return the message with these bodies, as a new version that `MessageBodies.write` writes."""
    return msgspec.structs.replace(
        message,
        body_version=secrets.token_hex(4),
        has_html=bool(bodies.html),
        has_text=bool(bodies.text),
        has_source=bool(bodies.source),
    )


def _kinds(message: Message) -> Iterator[str]:
    there = (_HTML, message.has_html), (_TEXT, message.has_text), (_SOURCE, message.has_source)
    return (kind for kind, is_there in there if is_there)


def _name(message: Message, kind: str) -> str:
    return entities.body_name(message.ref, message.body_version, kind)
