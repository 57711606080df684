"""What a message may consist of: a subject, one or two bodies, a time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.messages import LARGEST_BODY, LONGEST_SUBJECT
from postroom.domain.texts import one_line
from postroom.mail.bodies import clean_body, text_from_html
from postroom.mail.fields import check_fields
from postroom.storage.limits import EARLIEST


class NewBodies(msgspec.Struct, frozen=True):
    """The two bodies of a message. None leaves one out (in an edit: as it is), but a text that is
    left out is made of the HTML; an empty one is not."""

    html: str | None = None
    text: str | None = None


def checked_subject(subject: str) -> str:
    """A subject as a message may have it. `Invalid`."""
    checked = one_line("subject", subject, longest=LONGEST_SUBJECT)
    check_fields("subject", checked)
    return checked


def checked_bodies(bodies: NewBodies) -> NewBodies:
    """The bodies as they are kept, with one kind of line end. `Invalid`."""
    return NewBodies(_checked_body("html", bodies.html), _checked_body("text", bodies.text))


async def with_text(bodies: NewBodies) -> NewBodies:
    """The bodies as they are sent: without a text, one is made of the HTML. `Invalid`.

    In a thread: that takes a second for each megabyte.
    """
    if not bodies.html or bodies.text is not None:
        return bodies
    made = await asyncio.to_thread(text_from_html, bodies.html)
    if len(made.encode()) > LARGEST_BODY:
        return bodies  # links grow when they are written out: the HTML alone has to do
    return NewBodies(bodies.html, _checked_body("text", made) or None)


def check_any_body(bodies: NewBodies) -> None:
    """`Invalid` if there is none."""
    if not (bodies.html or bodies.text):
        raise Invalid("html", "a message needs an HTML body, a text body, or both")


def checked_time(moment: datetime) -> datetime:
    """A time that can be kept, in UTC. `Invalid`."""
    if moment.tzinfo is None:
        raise Invalid("scheduled_at", "needs a time zone, as in 2026-11-15T09:00:00+01:00")
    try:
        checked = moment.astimezone(UTC)
    except OverflowError:
        checked = EARLIEST
    if checked <= EARLIEST:
        raise Invalid("scheduled_at", "is no time that can be kept")
    return checked


def _checked_body(field: str, body: str | None) -> str | None:
    if not body:
        return body
    cleaned = clean_body(field, body)
    check_fields(field, cleaned)
    return cleaned
