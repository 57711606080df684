"""The content of the message form: typed or uploaded, and shown again if something is wrong."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

import msgspec
from starlette.datastructures import UploadFile

from postroom.domain.errors import DomainError, Invalid
from postroom.domain.messages.messages import Message
from postroom.mail.body_files import html_from_file, text_from_file
from postroom.mail.plaintext import text_from_html
from postroom.services.messages.message_contents import NewBodies, checked_bodies, with_text
from postroom.web.admin.messages.moments import moment
from postroom.web.requests.visit import Visit

LARGEST_FORM: Final = 32 * 1024 * 1024  # two bodies of 10 MB, and what wraps them
_FIELDS: Final = (
    "list", "subject", "html", "text", "when", "day", "clock", "zone", "ref", "etag", "key"
)  # fmt: skip
LABELS: Final = {
    "list": "List",
    "subject": "Subject",
    "html": "Message (HTML)",
    "text": "Message (plain text)",
    "scheduled_at": "Time",
}


class Draft(msgspec.Struct):
    """The fields of the form; an uploaded file replaces what was typed."""

    list: str = ""
    subject: str = ""
    html: str = ""
    text: str = ""
    when: str = "now"
    day: str = ""
    clock: str = ""
    zone: str = "UTC"
    ref: str = ""
    etag: str = ""
    key: str = ""
    """Identifies the form of a new message (signed): sent twice, it creates one message."""
    utc: str = ""
    """The scheduled time in UTC, for the browser to show in its own time zone."""
    is_planned: bool = False
    """Whether the recipients are already prepared, so that list and time cannot change."""

    @property
    def typed(self) -> NewBodies:
        """The bodies as they were entered; a blank one is None."""
        html, text = self.html.strip() and self.html, self.text.strip() and self.text
        return NewBodies(html or None, text or None)

    async def bodies(self) -> NewBodies:
        """Return the bodies to send: a missing text is generated from the HTML. `Invalid`."""
        return await with_text(await checked_bodies(self.typed))

    @property
    def scheduled_at(self) -> datetime:
        """`Invalid`."""
        return datetime.now(UTC) if self.when == "now" else moment(self.day, self.clock, self.zone)

    def fields(self) -> dict[str, str]:
        """Return the fields as form values."""
        return {name: getattr(self, name) for name in _FIELDS}

    def shown(self) -> dict[str, str]:
        """Return the fields as shown in an edit conflict."""
        try:
            at = f"{self.scheduled_at:%Y-%m-%d %H:%M} UTC" if self.when != "now" else "now"
        except Invalid:
            at = f"{self.day} {self.clock} {self.zone}"
        return {
            "list": self.list,
            "subject": self.subject,
            "html": self.html,
            "text": self.text,
            "scheduled_at": at,
        }


async def draft_from_form(visit: Visit) -> tuple[Draft, dict[str, str]]:
    """Return the draft, and errors about its files."""
    draft = msgspec.convert({name: await visit.text(name) for name in _FIELDS}, Draft)
    draft.when = "later" if draft.when == "later" else "now"
    problems: dict[str, str] = {}
    for field, read in (("html", html_from_file), ("text", text_from_file)):
        file = (await visit.form()).get(f"{field}_file")
        if not isinstance(file, UploadFile) or not file.filename:
            continue
        try:
            setattr(draft, field, read(await file.read(), field))
        except Invalid as exc:
            problems[field] = f"{file.filename}: {exc.problem}"
    return draft, problems


def draft_of(message: Message, bodies: NewBodies) -> Draft:
    """Return an existing message as a draft."""
    at = message.scheduled_at.astimezone(UTC)
    return Draft(
        list=message.list_name,
        subject=message.subject,
        html=bodies.html or "",
        text=bodies.text or "",
        when="later",
        day=f"{at:%Y-%m-%d}",
        clock=f"{at:%H:%M}",
        ref=message.ref,
        etag=message.etag,
        utc=at.isoformat(timespec="seconds"),
    )


async def draft_to_edit(message: Message, bodies: NewBodies) -> Draft:
    """Return an existing message for editing: a text that was generated from the HTML is left out,
    so that it is generated again if the HTML changes."""
    draft = draft_of(message, bodies)
    draft.is_planned = message.queued_at is not None
    if bodies.html and bodies.text == await asyncio.to_thread(text_from_html, bodies.html):
        draft.text = ""
    return draft


def problem_of(error: DomainError) -> dict[str, str]:
    """Return the error by the form field that it is about."""
    if isinstance(error, Invalid):
        known = {"body": "html", "description": "list", "from_address": "list"}
        field = known.get(error.field, error.field)
        return {field if field in LABELS else "list": error.problem}
    return {"list": str(error)}
