"""The content of the message form: typed or uploaded, and shown again if something is wrong."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, time
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

import msgspec
from starlette.datastructures import UploadFile
from starlette.responses import Response

from postroom.domain.errors import DomainError, Invalid
from postroom.domain.messages.messages import Message
from postroom.domain.units import is_skipped
from postroom.mail.body_files import html_from_file, text_from_file
from postroom.mail.html import unseen_pictures
from postroom.mail.plaintext import text_from_html
from postroom.services.messages.message_contents import NewBodies, checked_bodies, with_text
from postroom.web.rendering.templating import short
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
_TIME_FIELD: Final = "scheduled_at"
_MOST_PICTURES_NAMED: Final = 5
_LONGEST_NAME: Final = 100


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
        """The time to send at. `Invalid`."""
        return (
            datetime.now(UTC)
            if self.when == "now"
            else parse_local_time(self.day, self.clock, self.zone)
        )

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
    at = message.due_at.astimezone(UTC)
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


@cache
def zones() -> tuple[str, ...]:
    """Return the time zones to choose from: UTC first, then by name."""
    names = {name for name in available_timezones() if "/" in name and not name.startswith("Etc/")}
    return ("UTC", *sorted(names))


def parse_local_time(day: str, clock: str, zone: str) -> datetime:
    """Return the time in UTC. `Invalid`, also if clocks skip it."""
    if zone not in zones():
        raise Invalid(_TIME_FIELD, "choose a time zone from the list")
    try:
        local = datetime.combine(date.fromisoformat(day.strip()), _clock(clock))
    except ValueError as exc:
        raise Invalid(
            _TIME_FIELD, "needs a date and a time, for example 2026-11-15 and 09:00"
        ) from exc
    try:
        found = local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        exists = not is_skipped(local, ZoneInfo(zone))
    except (OverflowError, ValueError) as exc:
        raise Invalid(_TIME_FIELD, "is out of range") from exc
    if not exists:
        raise Invalid(
            _TIME_FIELD, f"this time does not exist in {zone}: clocks are moved forward then"
        )
    return found


def _clock(text: str) -> time:
    parsed = time.fromisoformat(text.strip())
    if parsed.tzinfo is not None:
        raise ValueError("the time zone has its own field")
    return parsed


async def goes_back(visit: Visit) -> bool:
    """Return whether the user chose to go back to the form."""
    return await visit.text("sure") == "back"


async def ask_before_sending(visit: Visit, draft: Draft, bodies: NewBodies) -> Response | None:
    """Return the page that asks whether to send now; None if the message is for later or the user
    has confirmed. Changes nothing. `Invalid`, `NoSuch`."""
    at = draft.scheduled_at
    if at > datetime.now(UTC) or await visit.text("sure") == "yes":
        return None
    await visit.services.messages.checked(draft.list, draft.subject, bodies, at)
    limit = visit.context.settings.sender.rate
    visit.skip_audit()
    return visit.render(
        "admin/messages/message_question.html",
        draft=draft,
        fields=draft.fields(),
        estimate=await visit.services.estimates.of(draft.list, limit),
        passed=at if draft.when == "later" else None,
        pictures=await broken_pictures(bodies),
    )


async def broken_pictures(bodies: NewBodies) -> list[str]:
    """Return the pictures that no subscriber would see. In a thread, because HTML may be large."""
    if not bodies.html:
        return []
    found = await asyncio.to_thread(unseen_pictures, bodies.html)
    named = [short(each, _LONGEST_NAME) for each in found[:_MOST_PICTURES_NAMED]]
    return [*named, "…"] if len(found) > _MOST_PICTURES_NAMED else named
