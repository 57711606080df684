"""Messages and their emails as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.services.messages.hold_rows import reason_of
from postroom.services.messages.holds import Hold
from postroom.services.messages.outcomes import EmailRecord
from postroom.services.messages.progress import SendingState
from postroom.services.resources import Resource, Time, describe_time
from postroom.transport.contract import FaultScope


class CountsResource(Resource, frozen=True):
    """Always: planned = pending + accepted + refused + suppressed + in_doubt."""

    planned: int
    pending: int
    accepted: int
    refused: int
    suppressed: int
    in_doubt: int
    possible_duplicates: int
    deferred: Annotated[
        int, Meta(description="The part of `pending` that waits for another attempt or a hold.")
    ]


class HoldResource(Resource, frozen=True):
    """Why emails wait through no fault of their recipients, and when a single one is tried."""

    scope: Annotated[FaultScope, Meta(description="Which emails wait.")]
    reason: str
    reply: Annotated[str | None, Meta(description="The mail server's reply.")]
    since: Time
    next_probe: Time


class MessageSummary(Resource, frozen=True, kw_only=True):
    """A message without its counts, which take a while for many messages."""

    ref: Annotated[str, Meta(pattern="^[0-9]{18}$")]
    list: str
    subject: str
    status: MessageStatus
    reason: Annotated[str | None, Meta(description="Why it was paused.")]
    scheduled_at: Time
    created_at: Time
    queued_at: Time | None
    completed_at: Time | None
    has_html: bool
    has_text: bool
    etag: str


class MessageResource(MessageSummary, frozen=True, kw_only=True):
    """A message with the counts of its emails."""

    counts: CountsResource
    holds: Sequence[HoldResource]


class ScheduledMessageResource(MessageResource, frozen=True, kw_only=True):
    """A message whose time has just been set."""

    note: Annotated[
        str | None,
        Meta(description="Set if the time has passed, and the message is sent now."),
    ]


class BodiesResource(Resource, frozen=True):
    """The bodies of a message."""

    html: str | None
    text: str | None


class EmailResource(Resource, frozen=True):
    """One message to one address."""

    email: str
    outcome: EmailOutcome
    reply: Annotated[str | None, Meta(description="The mail server's last reply.")]
    tries: int
    was_in_doubt: bool


def describe_message_summary(message: Message) -> MessageSummary:
    return MessageSummary(
        ref=message.ref,
        list=message.list_name,
        subject=message.subject,
        status=message.status,
        reason=message.reason or None,
        scheduled_at=describe_time(message.scheduled_at),
        created_at=describe_time(message.created_at),
        queued_at=describe_time(message.queued_at),
        completed_at=describe_time(message.completed_at),
        has_html=message.has_html,
        has_text=message.has_text,
        etag=message.etag,
    )


def describe_message(message: Message, state: SendingState) -> MessageResource:
    return MessageResource(
        **msgspec.structs.asdict(describe_message_summary(message)),
        counts=CountsResource(**state.counts.as_dict()),
        holds=[describe_hold(hold) for hold in state.holds],
    )


def describe_scheduled_message(
    message: Message, state: SendingState, *, has_passed: bool
) -> ScheduledMessageResource:
    return ScheduledMessageResource(
        **msgspec.structs.asdict(describe_message(message, state)),
        note="the time has passed: sending starts now" if has_passed else None,
    )


def describe_hold(hold: Hold) -> HoldResource:
    return HoldResource(
        scope=hold.scope,
        reason=reason_of(hold),
        reply=hold.reply or None,
        since=describe_time(hold.since),
        next_probe=describe_time(hold.next_probe),
    )


def describe_email(email: EmailRecord) -> EmailResource:
    return EmailResource(
        email=email.address,
        outcome=email.outcome,
        reply=email.reply or None,
        tries=email.tries,
        was_in_doubt=email.was_in_doubt,
    )
