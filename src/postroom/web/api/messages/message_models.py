"""The bodies of requests about messages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from postroom.domain.errors import Incomplete
from postroom.domain.messages.audiences import MOST_EXCLUDED, MOST_MORE
from postroom.domain.messages.messages import MessageFormat
from postroom.domain.messages.tracking import Track, parse_track
from postroom.domain.messages.waves.canaries import parse_canary
from postroom.sender.draft_emails import MOST_TESTS
from postroom.services.audience.targeting.follow_ups import FollowUp
from postroom.services.audience.targeting.inactive_subscribers import DAYS
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.storage.limits import EARLIEST
from postroom.web.api.field_types import (
    Address,
    Body,
    Change,
    FromName,
    InactiveDays,
    ListName,
    Moment,
    Preheader,
    SegmentName,
    Subject,
    Text,
    without_null,
)
from postroom.web.api.messages.attachment_models import Attachments

_FIELDS = (
    "May contain merge fields: {{email}}, {{list_description}}, the list's fields, and the links"
    " {{unsubscribe_url}}, {{preferences_url}} and {{web_url}}."
)
Source = Annotated[Text, Field(description=f"The source, in this format. {_FIELDS}")]
Html = Annotated[
    Text,
    Field(
        description=f"The body of a message in the format `html`. {_FIELDS}",
        examples=["<p>Hello</p>"],
    ),
]
PlainText = Annotated[
    Text,
    Field(
        description="Generated from the HTML if it is left out; an empty text stays empty.",
        examples=["Hello"],
    ),
]
Format = Annotated[MessageFormat, Field(strict=False)]

Published = Annotated[
    bool,
    Field(
        description="Show it in the list's web archive once it is sent. Each merge field in it then"
        " needs a default."
    ),
]
CanaryChoice = Annotated[
    str,
    AfterValidator(parse_canary),
    Field(
        max_length=30,
        description="Send it to a part of its recipients first, and to the others if all is well:"
        " a share (`1%`) or a number (`500`), and how long the others wait if it differs from the"
        " setting (`1%,10m`); or `off`. If omitted or null: as configured in the settings.",
        examples=["1%,10m"],
    ),
]
LocalTime = Annotated[
    bool,
    Field(
        description="Convert the scheduled time to the time zone of the list, and send to each"
        " subscriber at that time in their own time zone (the field `time_zone`)."
    ),
]
Tracking = Annotated[
    str,
    AfterValidator(lambda text: parse_track(text).value),
    WithJsonSchema(
        {
            "type": "string",
            "enum": list(Track),
            "description": "Whether opens and clicks are measured: `off`; `aggregate`, without"
            " identifying anyone; or `personal`, which also records who, only for subscribers who"
            " agreed to it. If omitted or null: the default of the list.",
        }
    ),
]
Template = Annotated[
    str,
    Field(
        pattern="^[a-z0-9][a-z0-9-]{0,62}$",
        description="The template that the body is put into.",
        examples=["newsletter"],
    ),
]

Segment = Annotated[
    SegmentName, Field(description="Send only to subscribers of this segment of the list.")
]
MoreLists = Annotated[
    list[ListName],
    Field(
        max_length=MOST_MORE,
        description="Also send to these lists. People on several lists get one copy.",
    ),
]
ExcludedSegments = Annotated[
    list[SegmentName],
    Field(
        max_length=MOST_EXCLUDED,
        description="Do not send to subscribers of these segments of the list.",
    ),
]
ExcludedLists = Annotated[
    list[ListName],
    Field(
        max_length=MOST_EXCLUDED,
        description="Do not send to confirmed subscribers of these other lists.",
    ),
]

RequireRecipients = Annotated[
    bool, Field(description="Refuse with 422 if nobody would receive the message now.")
]

_NOT_BLANK = {"type": "string", "pattern": "\\S"}


def _require_unless_draft(schema: dict[str, Any]) -> None:
    """A draft may lack anything. Any other message needs a list, a subject and a body."""
    needed = {"list": {"type": "string"}, "subject": {"type": "string"}}
    whole = [
        {"required": [*needed, name], "properties": {**needed, name: _NOT_BLANK}}
        for name in ("html", "text", "body")
    ]
    draft = {"required": ["draft"], "properties": {"draft": {"const": True}}}
    schema["anyOf"] = [draft, *whole]
    _one_source(schema)


def _one_source(schema: dict[str, Any]) -> None:
    """`html` is short for `body`, so only one of them may be given."""
    given = {"type": "string"}
    both = {"html": given, "body": given}
    schema["not"] = {"required": [*both], "properties": both}


def _some_with_one_source(schema: dict[str, Any], model: type[Any]) -> None:
    without_null(schema, model)
    _one_source(schema)


class NewMessage(Body):
    """A draft may lack anything. Otherwise `list`, `subject` and one of `html`, `text` and `body`
    are required, and no body may be blank. `html` is short for `body` in the format `html`."""

    model_config = ConfigDict(strict=True, extra="forbid", json_schema_extra=_require_unless_draft)

    draft: Annotated[
        bool, Field(description="Keep it as a draft, which is not sent until it is scheduled.")
    ] = False
    list: ListName | None = None
    more_lists: MoreLists | None = None
    segment: Segment | None = None
    exclude_segments: ExcludedSegments | None = None
    exclude_lists: ExcludedLists | None = None
    subject: Subject | None = None
    preheader: Preheader | None = None
    from_name: FromName | None = None
    reply_to: Address | None = None
    format: Format = MessageFormat.HTML
    template: Template | None = None
    body: Source | None = None
    html: Html | None = None
    text: PlainText | None = None
    track: Tracking | None = None
    published: Published = False
    canary: CanaryChoice | None = None
    local_time: LocalTime = False
    attachments: Attachments | None = None
    scheduled_at: Moment | None = None
    require_recipients: RequireRecipients = False

    def check(self) -> None:
        """Raise `Incomplete` if something is missing, or given twice."""
        _check_source(self.html, self.body)
        if self.draft:
            return
        missing = [name for name in ("list", "subject") if getattr(self, name) is None]
        if missing:
            raise Incomplete(dict.fromkeys(missing, "is required, except in a draft"))


class MessageChange(Change):
    """Fields that are left out stay as they are, but a text that was generated from the HTML is
    generated again. An empty body is removed. Null removes a preheader, name,
    Reply-To, template or segment, leaves `track` to the list, and `canary` to the settings."""

    model_config = ConfigDict(strict=True, extra="forbid", json_schema_extra=_some_with_one_source)
    nullable: ClassVar[frozenset[str]] = frozenset(
        {"preheader", "from_name", "reply_to", "segment", "template", "track", "canary"}
    )

    list: ListName | None = None
    more_lists: MoreLists | None = None
    segment: Segment | None = None
    exclude_segments: ExcludedSegments | None = None
    exclude_lists: ExcludedLists | None = None
    subject: Subject | None = None
    preheader: Preheader | None = None
    from_name: FromName | None = None
    reply_to: Address | None = None
    format: Format | None = None
    template: Template | None = None
    body: Source | None = None
    html: Html | None = None
    text: PlainText | None = None
    track: Tracking | None = None
    published: Published | None = None
    canary: CanaryChoice | None = None
    local_time: LocalTime | None = None
    attachments: Attachments | None = None
    scheduled_at: Moment | None = None

    def check(self) -> None:
        _check_source(self.html, self.body)


class Schedule(Body):
    """When a draft is sent."""

    scheduled_at: Annotated[
        Moment | None, Field(description="If omitted: the time of the draft, or now.")
    ] = None
    require_recipients: RequireRecipients = False


class WinBack(Body):
    """For how long the subscribers of a list have been inactive."""

    days: InactiveDays = DAYS


class NewFollowUp(Body):
    """The subject of a follow-up, and who gets it."""

    subject: Subject
    to: Annotated[
        FollowUp,
        Field(
            strict=False,
            description="`new`: everyone in the audience who has not received the message."
            " `unclicked`: everyone who received it and is not known to have clicked.",
        ),
    ] = FollowUp.NEW


class Test(Body):
    """Who gets a test email."""

    __test__: ClassVar[bool] = False

    to: Annotated[
        list[Address],
        Field(min_length=1, max_length=MOST_TESTS, description="The addresses of the test."),
    ]
    subscriber: Annotated[
        Address | None,
        Field(description="The subscriber whose fields it shows; if omitted, an example."),
    ] = None


def _check_source(html: str | None, body: str | None) -> None:
    if html is not None and body is not None:
        raise Incomplete({"html": "cannot be given with body, which is the same"})


def storable(moment: datetime | None, now: datetime) -> datetime | None:
    """Return now for a time in the past that the store cannot keep."""
    return now if moment is not None and moment <= EARLIEST else moment


def content_change(body: NewMessage | MessageChange, now: datetime) -> ContentChange:
    """Return what a request sets."""
    given = {name: getattr(body, name) for name in body.model_fields_set}
    given.pop("draft", None)
    given.pop("require_recipients", None)
    given.pop("attachments", None)  # `read_attachments`
    html, source = given.pop("html", None), given.pop("body", None)
    if html is not None or source is not None:
        given["body"] = source if html is None else html
    if "scheduled_at" in given:
        given["scheduled_at"] = storable(given["scheduled_at"], now)
    if "list" in given:
        given["list_name"] = given.pop("list") or ""
    for name in ("preheader", "from_name", "reply_to", "segment", "subject", "template", "text"):
        if name in given:
            given[name] = given[name] or ""
    for name in ("exclude_segments", "exclude_lists", "more_lists"):
        if name in given:
            given[name] = tuple(given[name] or ())
    return ContentChange(**given)
