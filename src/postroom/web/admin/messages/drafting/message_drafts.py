"""The content of the editor's form: typed or uploaded, and shown again if something is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

import msgspec
from msgspec import UNSET
from starlette.datastructures import ImmutableMultiDict, UploadFile

from postroom.composing.blocks.block_text import readable_blocks
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import DomainError, Incomplete, Invalid
from postroom.domain.messages.attachments import parse_stored, stored_text
from postroom.domain.messages.audiences import Audience
from postroom.domain.messages.messages import Message, MessageFormat, MessageStatus
from postroom.domain.messages.tracking import Track
from postroom.domain.messages.waves.canaries import OFF
from postroom.domain.units import is_skipped
from postroom.mail.bodies.body_files import html_from_file, text_from_file
from postroom.mail.bodies.html import unseen_pictures
from postroom.services.messages.drafts.draft_contents import Content, ContentChange, change_to
from postroom.services.messages.message_contents import NewBodies
from postroom.web.rendering.templating import short
from postroom.web.requests.visit import Visit

LARGEST_FORM: Final = 32 * 1024 * 1024  # two bodies of 10 MB, and what wraps them
_FIELDS: Final = (
    "list", "subject", "preheader", "from_name", "reply_to", "template", "format", "body", "text",
    "track", "published", "canary", "local_time", "attachments",
    "when", "day", "clock", "zone", "ref", "etag",
    "key",
)  # fmt: skip
LABELS: Final = {
    "list": "List",
    "more_lists": "Additional lists",
    "segment": "Audience",
    "exclude_segments": "Left out: segments",
    "exclude_lists": "Left out: lists",
    "subject": "Subject",
    "preheader": "Preheader",
    "from_name": "Sender name",
    "reply_to": "Reply-To",
    "format": "Format",
    "template": "Template",
    "body": "Message",
    "text": "Message (plain text)",
    "track": "Opens and clicks",
    "published": "Publish in the web archive",
    "canary": "First recipients",
    "local_time": "By local time",
    "attachments": "Attachments",
    "scheduled_at": "Time",
}
FORMAT_NAMES: Final = {
    MessageFormat.BLOCKS: "Blocks",
    MessageFormat.MARKDOWN: "Markdown",
    MessageFormat.HTML: "HTML",
    MessageFormat.MJML: "MJML",
}
TRACK_NAMES: Final[Mapping[str, str]] = {
    "": "List default",
    Track.OFF: "Off",
    Track.AGGREGATE: "Aggregate",
    Track.PERSONAL: "Personal",
}
_CANARIES: Final[Mapping[str, str]] = {
    "": "Default",
    OFF: "Everyone at the same time",
    "1%": "1% first",
    "5%": "5% first",
    "10%": "10% first",
}
_FILES: Final = (("body", html_from_file), ("text", text_from_file))
_TIME_FIELD: Final = "scheduled_at"
_MOST_PICTURES_NAMED: Final = 5
_LONGEST_NAME: Final = 100


class Draft(msgspec.Struct):
    """The fields of the form; an uploaded file replaces what was typed."""

    list: str = ""
    more_lists: tuple[str, ...] = ()
    segment: str = ""
    exclude_segments: tuple[str, ...] = ()
    exclude_lists: tuple[str, ...] = ()
    has_audience: bool = False
    """Whether the form had a choice of the audience; otherwise the message keeps its own."""
    subject: str = ""
    preheader: str = ""
    from_name: str = ""
    reply_to: str = ""
    template: str = ""
    format: str = MessageFormat.HTML.value
    body: str = ""
    text: str = ""
    track: str = ""
    published: str = ""
    canary: str = ""
    local_time: str = ""
    attachments: str = ""
    """JSON: `domain/messages/attachments.py`."""
    when: str = "now"
    day: str = ""
    clock: str = ""
    zone: str = "UTC"
    ref: str = ""
    etag: str = ""
    key: str = ""
    """The reference of a new draft (signed): however often it is saved first, it is one draft."""
    utc: str = ""
    """The scheduled time in UTC, for the browser to show in its own time zone."""
    status: MessageStatus = MessageStatus.DRAFT
    ready_by: str = ""
    edited_at: datetime | None = None
    is_planned: bool = False
    """Whether the recipients are already prepared, so that list and time cannot change."""

    @property
    def format_name(self) -> str:
        return FORMAT_NAMES[MessageFormat(self.format)]

    @property
    def is_draft(self) -> bool:
        return self.status is MessageStatus.DRAFT

    @property
    def audience(self) -> Audience:
        excluded, more = (
            tuple(map(ListName, each)) for each in (self.exclude_lists, self.more_lists)
        )
        return Audience(self.segment, self.exclude_segments, excluded, more)

    @property
    def scheduled_at(self) -> datetime | None:
        """The time to send at; None for now. `Invalid`."""
        return None if self.when == "now" else parse_local_time(self.day, self.clock, self.zone)

    @property
    def content(self) -> Content:
        """What was entered, without a time that is not one yet."""
        try:
            at = self.scheduled_at
        except Invalid:
            at = None
        return Content(
            list_name=self.list,
            **msgspec.structs.asdict(self.audience),
            subject=self.subject,
            preheader=self.preheader,
            from_name=self.from_name,
            reply_to=self.reply_to,
            template=self.template,
            format=MessageFormat(self.format),
            body=self.body,
            text=self.text if self.text.strip() else "",
            track=Track(self.track) if self.track in set(Track) else None,
            published=bool(self.published),
            canary=self.canary,
            local_time=bool(self.local_time),
            attachments=parse_stored(self.attachments),
            scheduled_at=at,
        )

    @property
    def change(self) -> ContentChange:
        """What the form sets."""
        whole = change_to(self.content)
        if self.has_audience:
            return whole
        return msgspec.structs.replace(whole, **dict.fromkeys(Audience.__struct_fields__, UNSET))


def canary_names(choice: str) -> dict[str, str]:
    """Return what can be chosen: a few shares, and what was chosen elsewhere."""
    return {**_CANARIES, choice: _CANARIES.get(choice, choice)}


def shown_content(content: Content) -> dict[str, str]:
    """Return the fields as shown next to each other, by the names of `LABELS`."""
    at = content.scheduled_at
    return {
        "list": content.list_name,
        "more_lists": ", ".join(content.more_lists),
        "segment": content.segment,
        "exclude_segments": ", ".join(content.exclude_segments),
        "exclude_lists": ", ".join(content.exclude_lists),
        "subject": content.subject,
        "preheader": content.preheader,
        "from_name": content.from_name,
        "reply_to": content.reply_to,
        "format": FORMAT_NAMES[content.format],
        "template": content.template,
        "body": _shown_body(content),
        "text": content.text,
        "track": TRACK_NAMES[content.track or ""],
        "published": "yes" if content.published else "no",
        "canary": canary_names(content.canary)[content.canary],
        "local_time": "yes" if content.local_time else "no",
        "attachments": "\n".join(each.name for each in content.attachments),
        "scheduled_at": f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at else "now",
    }


def _shown_body(content: Content) -> str:
    is_blocks = content.format is MessageFormat.BLOCKS
    return readable_blocks(content.body) if is_blocks else content.body


def shown_contents(one: Content, other: Content) -> tuple[dict[str, str], dict[str, str]]:
    """Return two contents as shown next to each other. Blocks are shown as text, unless only their
    sources differ."""
    shown, others = shown_content(one), shown_content(other)
    if shown["body"] == others["body"]:
        shown["body"], others["body"] = one.body, other.body
    return shown, others


async def draft_from_form(visit: Visit) -> tuple[Draft, dict[str, str]]:
    """Return the draft, and errors about its files."""
    draft = msgspec.convert({name: await visit.text(name) for name in _FIELDS}, Draft)
    draft.when = "later" if draft.when == "later" else "now"
    draft.has_audience = bool(await visit.text("audience"))
    chosen = audience_from(await visit.form())
    draft.segment, draft.exclude_lists = chosen.segment, chosen.exclude_lists
    draft.exclude_segments, draft.more_lists = chosen.exclude_segments, chosen.more_lists
    if draft.format not in set(MessageFormat):
        draft.format = MessageFormat.HTML.value
    problems: dict[str, str] = {}
    for field, read in _FILES:
        file = (await visit.form()).get(f"{field}_file")
        if not isinstance(file, UploadFile) or not file.filename:
            continue
        try:
            setattr(draft, field, read(await file.read(), field))
        except Invalid as exc:
            problems[field] = f"{file.filename}: {exc.problem}"
    return draft, problems


class ChosenAudience(msgspec.Struct, frozen=True):
    """An audience as a form has it; nothing is checked."""

    segment: str
    exclude_segments: tuple[str, ...]
    exclude_lists: tuple[str, ...]
    more_lists: tuple[str, ...]


def audience_from(form: ImmutableMultiDict[str, Any]) -> ChosenAudience:
    def texts(name: str) -> tuple[str, ...]:
        return tuple(each for each in form.getlist(name) if isinstance(each, str) and each)

    segment = next(iter(texts("segment")), "")
    return ChosenAudience(
        segment, texts("exclude_segments"), texts("exclude_lists"), texts("more_lists")
    )


def draft_of(message: Message, content: Content) -> Draft:
    """Return a message for the form."""
    at = content.scheduled_at.astimezone(UTC) if content.scheduled_at else None
    return Draft(
        list=content.list_name,
        more_lists=content.more_lists,
        segment=content.segment,
        exclude_segments=content.exclude_segments,
        exclude_lists=content.exclude_lists,
        subject=content.subject,
        preheader=content.preheader,
        from_name=content.from_name,
        reply_to=content.reply_to,
        template=content.template,
        format=content.format.value,
        body=content.body,
        text=content.text,
        track=content.track or "",
        published="yes" if content.published else "",
        canary=content.canary,
        local_time="yes" if content.local_time else "",
        attachments=stored_text(content.attachments),
        when="later" if at else "now",
        day=f"{at:%Y-%m-%d}" if at else "",
        clock=f"{at:%H:%M}" if at else "",
        utc=at.isoformat(timespec="seconds") if at else "",
        ref=message.ref,
        etag=message.etag,
        status=message.status,
        ready_by=message.ready_by,
        edited_at=message.edited_at,
        is_planned=message.queued_at is not None,
    )


def problem_of(error: DomainError) -> dict[str, str]:
    """Return the error by the form fields that it is about."""
    if isinstance(error, Incomplete):
        return dict(error.problems)
    if isinstance(error, Invalid):
        known = {"html": "body", "description": "list", "from_address": "list"}
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


async def broken_pictures(bodies: NewBodies) -> list[str]:
    """Return the pictures that no subscriber would see. In a thread, because HTML may be large."""
    if not bodies.html:
        return []
    found = await asyncio.to_thread(unseen_pictures, bodies.html)
    named = [short(each, _LONGEST_NAME) for each in found[:_MOST_PICTURES_NAMED]]
    return [*named, "…"] if len(found) > _MOST_PICTURES_NAMED else named
