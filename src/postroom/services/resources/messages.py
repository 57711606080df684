"""Messages and their emails as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from postroom.composing.content_findings import Level
from postroom.domain.messages.audiences import Exclusion
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message, MessageFormat, MessageStatus
from postroom.domain.messages.tracking import Track
from postroom.domain.messages.waves.waves import Waves
from postroom.services.audience.results.message_results import MessageResults
from postroom.services.messages.checks.preflight import Preflight
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending.hold_rows import reason_of
from postroom.services.messages.sending.holds import Hold
from postroom.services.messages.sending.outcomes import EmailRecord
from postroom.services.messages.sending.progress import SendingState
from postroom.services.resources import Resource, Time, describe_time
from postroom.transport.contract import FaultScope, Result, ResultKind


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


class AttachmentResource(Resource, frozen=True):
    """An attached file."""

    name: str
    type: str
    size: Annotated[int, Meta(description="Bytes.")]
    hash: Annotated[str, Meta(description="The SHA-256 of its content.")]


class WavesResource(Resource, frozen=True):
    """The progress of a message that is sent in several waves."""

    current: Annotated[int, Meta(description="The wave that began last: 1 for the first.")]
    total: int
    next_at: Annotated[
        Time | None, Meta(description="When the next one begins, if that is known yet.")
    ]
    times: Annotated[Sequence[Time], Meta(description="By local time: when each of them begins.")]
    expected: Annotated[
        Sequence[int],
        Meta(description="By local time: how many were in each when sending started."),
    ]


class MessageSummary(Resource, frozen=True, kw_only=True):
    """A message without its counts, which take a while for many messages."""

    ref: Annotated[str, Meta(pattern="^[0-9]{18}$")]
    list: Annotated[str | None, Meta(description="Null only for a draft without a list.")]
    more_lists: Annotated[
        Sequence[str],
        Meta(description="Additional lists that get it. People on several lists get one copy."),
    ]
    segment: Annotated[
        str | None, Meta(description="Only subscribers of this segment of the list get it.")
    ]
    exclude_segments: Annotated[
        Sequence[str], Meta(description="Subscribers of these segments of the list do not get it.")
    ]
    exclude_lists: Annotated[
        Sequence[str], Meta(description="Confirmed subscribers of these lists do not get it.")
    ]
    subject: str
    preheader: str
    from_name: Annotated[str, Meta(description="Empty: the list's description.")]
    reply_to: Annotated[str, Meta(description="Empty: the list's address.")]
    format: Annotated[MessageFormat, Meta(description="The format of its source.")]
    template: Annotated[str | None, Meta(description="The template that its source is put into.")]
    track: Annotated[
        Track | None,
        Meta(description="Whether opens and clicks are measured. Null: the default of the list."),
    ]
    published: Annotated[
        bool, Meta(description="Whether the list's web archive shows it once it is sent.")
    ]
    canary: Annotated[
        str | None,
        Meta(
            description="The part of the recipients that gets it first: a share or a number, and"
            " how long the others wait; or `off`. Null: as configured."
        ),
    ]
    local_time: Annotated[
        bool,
        Meta(description="Whether subscribers get it at the scheduled time in their own zone."),
    ]
    waves: Annotated[
        WavesResource | None,
        Meta(description="Set once sending has started, if the message is sent in waves."),
    ]
    attachments: Sequence[AttachmentResource]
    status: MessageStatus
    reason: Annotated[str | None, Meta(description="Why it was paused.")]
    ready_by: Annotated[
        str | None, Meta(description="Who handed a draft over for sending, if someone did.")
    ]
    scheduled_at: Annotated[Time | None, Meta(description="Null only for a draft without a time.")]
    edited_at: Annotated[Time | None, Meta(description="When a draft was last saved.")]
    created_at: Time
    queued_at: Time | None
    completed_at: Time | None
    has_html: bool
    has_text: bool
    etag: str


class ResultsResource(Resource, frozen=True):
    """What became of a message, in brief; `/messages/{ref}/results` has more."""

    bounced: int
    complained: int
    unsubscribed: Annotated[int, Meta(description="People who used a link of this message.")]
    opened: Annotated[
        int | None,
        Meta(description="Visits by people. Null: not measured (`track` is off)."),
    ]
    clicked: Annotated[int | None, Meta(description="The same for clicks on links.")]


class MessageResource(MessageSummary, frozen=True, kw_only=True):
    """A message with the counts of its emails, and its results."""

    counts: CountsResource
    holds: Sequence[HoldResource]
    results: ResultsResource


class ScheduledMessageResource(MessageResource, frozen=True, kw_only=True):
    """A message whose time has just been set."""

    note: Annotated[
        str | None,
        Meta(description="Set if the time has passed, and the message is sent now."),
    ]


class BodiesResource(Resource, frozen=True):
    """The bodies of a message, and the source that they were made from."""

    html: str | None
    text: str | None
    format: MessageFormat
    body: Annotated[str | None, Meta(description="The source, in this format.")]


class RenderedResource(Resource, frozen=True):
    """A message as one subscriber gets it."""

    subject: str
    html: str | None
    text: str | None


class FindingResource(Resource, frozen=True):
    """One thing that is wrong with a message, or could be better."""

    level: Annotated[Level, Meta(description="`error` blocks sending.")]
    code: Annotated[str, Meta(pattern="^[a-z0-9-]+$", examples=["alt-missing"])]
    text: str


class AudienceResource(Resource, frozen=True):
    """How many subscribers get a message, and how many do not, by reason."""

    will_receive: int
    excluded: Annotated[
        Mapping[str, int],
        Meta(description=f"By reason: {', '.join(f'`{each}`' for each in Exclusion)}."),
    ]


class PreflightResource(Resource, frozen=True):
    """What is wrong with a message, and who will receive it."""

    findings: Sequence[FindingResource]
    audience: AudienceResource
    checking: Annotated[
        int, Meta(description="How many links and domains are still being looked up.")
    ]


class TestEmailResource(Resource, frozen=True):
    """The result of one test email."""

    __test__ = False

    email: str
    outcome: ResultKind
    reply: Annotated[str | None, Meta(description="The mail server's reply.")]


class TestResource(Resource, frozen=True):
    """The results of a test."""

    __test__ = False

    results: Sequence[TestEmailResource]


class EmailResource(Resource, frozen=True):
    """One message to one address."""

    email: str
    outcome: EmailOutcome
    reply: Annotated[str | None, Meta(description="The mail server's last reply.")]
    tries: int
    was_in_doubt: bool


def describe_preflight(preflight: Preflight) -> PreflightResource:
    return PreflightResource(
        [FindingResource(each.level, each.code, str(each)) for each in preflight.findings],
        AudienceResource(preflight.audience.will_receive, preflight.audience.excluded),
        preflight.checking,
    )


def describe_waves(waves: Waves | None) -> WavesResource | None:
    if waves is None:
        return None
    return WavesResource(
        waves.current + 1,
        waves.count,
        describe_time(waves.next_at),
        [describe_time(each) for each in waves.times],
        waves.expected,
    )


def describe_message_summary(message: Message) -> MessageSummary:
    return MessageSummary(
        ref=message.ref,
        list=message.list_name or None,
        more_lists=message.more_lists,
        segment=message.segment or None,
        exclude_segments=message.exclude_segments,
        exclude_lists=message.exclude_lists,
        subject=message.subject,
        preheader=message.preheader,
        from_name=message.from_name,
        reply_to=message.reply_to,
        format=message.format,
        template=message.template or None,
        track=message.track,
        published=message.published,
        canary=message.canary or None,
        local_time=message.local_time,
        waves=describe_waves(message.waves),
        attachments=[
            AttachmentResource(each.name, each.type, each.size, each.hash)
            for each in message.attachments
        ],
        status=message.status,
        reason=message.reason or None,
        ready_by=message.ready_by or None,
        scheduled_at=describe_time(message.scheduled_at),
        edited_at=describe_time(message.edited_at),
        created_at=describe_time(message.created_at),
        queued_at=describe_time(message.queued_at),
        completed_at=describe_time(message.completed_at),
        has_html=message.has_html,
        has_text=message.has_text,
        etag=message.etag,
    )


def describe_message(
    message: Message, state: SendingState, results: MessageResults
) -> MessageResource:
    delivery = results.delivery.total
    return MessageResource(
        **msgspec.structs.asdict(describe_message_summary(message)),
        counts=CountsResource(**state.counts.as_dict()),
        holds=[describe_hold(hold) for hold in state.holds],
        results=ResultsResource(
            bounced=delivery.bounced,
            complained=delivery.complained,
            unsubscribed=results.unsubscribed,
            opened=results.opened,
            clicked=results.clicked,
        ),
    )


def describe_scheduled_message(
    message: Message, state: SendingState, results: MessageResults, *, has_passed: bool
) -> ScheduledMessageResource:
    return ScheduledMessageResource(
        **msgspec.structs.asdict(describe_message(message, state, results)),
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


def describe_bodies(message: Message, bodies: NewBodies) -> BodiesResource:
    source = bodies.source if message.has_source else bodies.html
    return BodiesResource(bodies.html, bodies.text, message.format, source)


def describe_tests(results: Iterable[tuple[str, Result]]) -> TestResource:
    return TestResource(
        [TestEmailResource(email, each.kind, each.reply or None) for email, each in results]
    )


def describe_email(email: EmailRecord) -> EmailResource:
    return EmailResource(
        email=email.address,
        outcome=email.outcome,
        reply=email.reply or None,
        tries=email.tries,
        was_in_doubt=email.was_in_doubt,
    )
