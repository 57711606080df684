"""Messages, and the one table of their status changes.

Everything that affects the life of a message is here; pages, API, scheduler and senders follow it.

    Draft ↔ Pending → Queuing → Processing → Completed
               ↕         ↕          ↕
               └───── Paused ───────┘        and from each of these four: Cancelled
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.audience.time_zones import earliest_moment
from postroom.domain.errors import NotNow
from postroom.domain.languages import LANGUAGES
from postroom.domain.messages.attachments import Attachment
from postroom.domain.messages.audiences import Audience, AudienceRules
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.tracking import Track
from postroom.domain.messages.waves.buckets import Part
from postroom.domain.messages.waves.waves import PageRun, Waves, runs_of

LONGEST_SUBJECT = 500
LONGEST_PREHEADER = 250  # characters: programs show about 100 of them
LONGEST_FROM_NAME = 100
LARGEST_BODY = 10 * 1024 * 1024  # bytes, each of the two


# Clocks differ, and people write minutes.
_GRACE = timedelta(minutes=1)


class MessageStatus(StrEnum):
    DRAFT = "Draft"
    PENDING = "Pending"
    QUEUING = "Queuing"
    PROCESSING = "Processing"
    COMPLETED = "Completed"
    PAUSED = "Paused"
    CANCELLED = "Cancelled"


TRANSITIONS: dict[MessageStatus, frozenset[MessageStatus]] = {
    MessageStatus.DRAFT: frozenset({MessageStatus.PENDING}),
    MessageStatus.PENDING: frozenset(
        {
            MessageStatus.DRAFT,
            MessageStatus.QUEUING,
            MessageStatus.PAUSED,
            MessageStatus.CANCELLED,
        }
    ),
    MessageStatus.QUEUING: frozenset(
        {MessageStatus.PROCESSING, MessageStatus.PAUSED, MessageStatus.CANCELLED}
    ),
    MessageStatus.PROCESSING: frozenset(
        {MessageStatus.COMPLETED, MessageStatus.PAUSED, MessageStatus.CANCELLED}
    ),
    MessageStatus.PAUSED: frozenset(
        {
            MessageStatus.PENDING,
            MessageStatus.QUEUING,
            MessageStatus.PROCESSING,
            MessageStatus.CANCELLED,
        }
    ),
    MessageStatus.COMPLETED: frozenset(),
    MessageStatus.CANCELLED: frozenset(),
}
EDITABLE = frozenset({MessageStatus.DRAFT, MessageStatus.PENDING})
"""A message can be edited and deleted only before its recipients are planned."""

FINAL = frozenset({MessageStatus.COMPLETED, MessageStatus.CANCELLED})


class MessageFormat(StrEnum):
    """The format of the author's source."""

    HTML = "html"
    MARKDOWN = "markdown"
    BLOCKS = "blocks"
    MJML = "mjml"


DRAFTS = "draft"
"""The partition of drafts, which have no day yet."""


class ListCopy(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the emails of a message say about one of its lists, copied when it is queued."""

    description: str
    language: str = LANGUAGES[0]
    postal_address: str = ""
    reply_to: str = ""
    headers: str = ""


class Message(msgspec.Struct, frozen=True):
    """A message, as the store keeps it.

    A draft may be incomplete: its list and subject are then empty, and its time is None, which no
    other message's is. `edited_by` saved it last; `version_at` is when that version of a draft
    began (`services/messages/drafts/message_versions.py`); `ready_by` handed it over for sending.
    With `has_source`, what the author wrote is stored with the HTML that was made from it.

    `segment`, `exclude_segments`, `exclude_lists` and `more_lists` are its `audience`;
    `audience_rules` are the rules of these segments, copied when the message is queued. With
    `part`, only a part of the audience gets it.
    `list_copies` belong to `more_lists`. `fields` are the list's fields that it uses, and
    `conditions` the rules in its text: pages have their values in this order. `field_copies` are
    the fields that it merges or compares of each of its lists, copied when it is queued: later
    changes of them do not matter.

    `body_version` names the blobs of its bodies: an edit writes new ones and then points to them.
    `from_address` and the fields that begin with `list_` are copied from the list when the message
    is queued. `queued_pages` counts the pages whose work items are certainly in the queue.
    `paused_from` is the status to resume, `resumptions` counts how often that happened, the last
    time at `resumed_at`. `reason` says why it paused itself, or why it had no recipients.
    `retry_of` is the message whose refused recipients this one is for; `retry_at` is when a retry
    of deferred emails was last requested.
    `track` says whether opens and clicks are measured: None leaves it to the list until the message
    is queued, when it also gets `utm`, parameters for its links. `published` puts it into the web
    archive of its list once it is sent; `web_key` is the secret in the link to it in a browser
    (`web_pages.py`).
    `canary` is the author's choice (`canaries.py`). With `local_time`, its time is that of the
    clocks of its list's zone, `list_zone` (copied when it is scheduled), and subscribers get it
    when their own clocks show this time. `waves` is how the recipients are divided, if
    they are, which is decided when the message is queued.
    `counts` is the final sum of a finished message. `trace` ties its processing to the request that
    created it (`observability/spans.py`).
    """

    ref: MessageRef
    list_name: ListName
    subject: str
    scheduled_at: datetime | None
    status: MessageStatus
    created_at: datetime
    body_version: str = ""
    has_html: bool = False
    has_text: bool = False
    has_source: bool = False
    format: MessageFormat = MessageFormat.HTML
    template: str = ""
    segment: str = ""
    exclude_segments: tuple[str, ...] = ()
    exclude_lists: tuple[ListName, ...] = ()
    more_lists: tuple[ListName, ...] = ()
    list_copies: tuple[ListCopy, ...] = ()
    part: Part | None = None
    audience_rules: AudienceRules | None = None
    fields: tuple[str, ...] = ()
    field_copies: tuple[tuple[Field, ...], ...] = ()
    conditions: tuple[str, ...] = ()
    preheader: str = ""
    from_name: str = ""
    reply_to: str = ""
    edited_at: datetime | None = None
    edited_by: str = ""
    version_at: datetime | None = None
    ready_by: str = ""
    track: Track | None = None
    published: bool = False
    web_key: str = ""
    canary: str = ""
    local_time: bool = False
    list_zone: str = ""
    waves: Waves | None = None
    attachments: tuple[Attachment, ...] = ()
    from_address: Address | None = None
    list_description: str | None = None
    list_language: str = LANGUAGES[0]
    list_postal_address: str = ""
    list_reply_to: str = ""
    list_headers: str = ""
    utm: str = ""
    paused_from: MessageStatus | None = None
    reason: str = ""
    queued_pages: int = 0
    resumptions: int = 0
    resumed_at: datetime | None = None
    queued_at: datetime | None = None
    completed_at: datetime | None = None
    retry_of: MessageRef | None = None
    retry_at: datetime | None = None
    trace: str = ""
    counts: Counts | None = None
    etag: str = ""

    @property
    def audience(self) -> Audience:
        return Audience(self.segment, self.exclude_segments, self.exclude_lists, self.more_lists)

    @property
    def lists(self) -> tuple[ListName, ...]:
        """All lists that it goes to; pages refer to them by their numbers."""
        return (self.list_name, *self.more_lists)

    @property
    def all_lists(self) -> tuple[ListName, ...]:
        """Every list that it concerns: working with it requires a right on each."""
        return tuple(filter(None, (*self.lists, *self.exclude_lists)))

    @property
    def shown_status(self) -> MessageStatus:
        """Its status for people: between two waves, which may be hours apart, it is being sent."""
        is_sent = self.status is MessageStatus.QUEUING and self.waves is not None
        return MessageStatus.PROCESSING if is_sent else self.status

    @property
    def page_runs(self) -> tuple[PageRun, ...]:
        """Its pages, by parts that are in the order of addresses: all of them, unless it is sent in
        waves."""
        return runs_of(self.waves, self.queued_pages)

    @property
    def day(self) -> str:
        """The partition of its row: the scheduled day, or the one of all drafts."""
        return DRAFTS if self.status is MessageStatus.DRAFT else day_of(self.due_at)

    @property
    def starts_at(self) -> datetime:
        """When its recipients are first looked at: earlier than it is due if some of them may be in
        zones where its time comes earlier."""
        return earliest_moment(self.due_at, self.list_zone) if self.local_time else self.due_at

    @property
    def due_at(self) -> datetime:
        """When it is sent. Every message that is not a draft has such a time."""
        if self.scheduled_at is None:
            raise NotNow(f"the message {self.ref} is a draft: it has no time yet")
        return self.scheduled_at


def list_copy(message: Message, number: int) -> ListCopy:
    """Return what the emails of a message, which is queued, say about one of its lists."""
    if number:
        return message.list_copies[number - 1]
    return ListCopy(
        message.list_description or "",
        message.list_language,
        message.list_postal_address,
        message.list_reply_to,
        message.list_headers,
    )


def day_of(moment: datetime) -> str:
    """Return the scheduled day in UTC, `yyyy-mm-dd`: the partition of a message."""
    return moment.astimezone(UTC).date().isoformat()


def check_transition(current: MessageStatus, to: MessageStatus) -> None:
    """Raise `NotNow` unless the table allows this change; the text names the possible ones."""
    if to in TRANSITIONS[current]:
        return
    possible = ", ".join(sorted(TRANSITIONS[current]))
    hint = f"only {possible}" if possible else "it is final"
    raise NotNow(f"a message that is {current} cannot become {to} ({hint})")


def with_status(message: Message, to: MessageStatus, **changes: Any) -> Message:
    """Return the message with another status and these changes. Raise `NotNow` unless the table
    allows it. Every change of status goes through here."""
    check_transition(message.status, to)
    return msgspec.structs.replace(message, status=to, **changes)


def may_be_edited(status: MessageStatus, counts: Counts) -> bool:
    """Return whether a message can be edited, judging by its counts."""
    nothing_sent = not (counts.accepted or counts.refused or counts.in_doubt)
    return status in EDITABLE or (status is MessageStatus.PAUSED and nothing_sent)


def check_editable(status: MessageStatus) -> None:
    """Raise `NotNow` unless a message with this status can be edited, if none of it was sent."""
    if status not in EDITABLE and status is not MessageStatus.PAUSED:
        raise NotNow(f"a {status} message cannot be edited: duplicate it and edit the copy")


def check_deletable(status: MessageStatus) -> None:
    """Raise `NotNow` unless a message with this status can be deleted."""
    if status not in EDITABLE:
        raise NotNow(f"a {status} message cannot be deleted, only a Draft or Pending one")


def has_passed(scheduled_at: datetime, now: datetime) -> bool:
    """Return whether a requested time is so long ago that the user should be told."""
    return now - scheduled_at > _GRACE
