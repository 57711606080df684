"""Lists and subscribers as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.audience.lists.list_emails import ListEmailKind, WrittenEmail
from postroom.domain.audience.lists.list_property import ListProperty
from postroom.domain.audience.lists.lists import PROPERTIES, MailingList, Subscriber
from postroom.domain.audience.rules.evaluating import Reason
from postroom.domain.audience.segments import Segment
from postroom.services.audience.bulk_changes import BulkReport
from postroom.services.audience.files.columns.meanings import Meaning
from postroom.services.audience.files.import_report import ImportReport
from postroom.services.audience.targeting.segments import Explanation, SegmentPreview
from postroom.services.resources import Resource, Time, describe_time
from postroom.services.resources.rejected_lines import RejectedLineResource


def _type(of: ListProperty) -> Any:
    kind: Any = Literal[of.choices] if of.choices else of.type
    return Annotated[kind, Meta(description=of.help)]


_SHOWN = tuple(each for each in PROPERTIES.values() if each.in_api)

ListResource = msgspec.defstruct(
    "ListResource",
    [
        ("name", str),
        *((each.name, _type(each)) for each in _SHOWN),
        ("created_at", Time),
        ("etag", str),
    ],
    bases=(Resource,),
    namespace={"__doc__": "A mailing list."},
    module=__name__,
    frozen=True,
)


def describe_list(mailing_list: MailingList) -> msgspec.Struct:
    return ListResource(
        name=mailing_list.name,
        **{each.name: getattr(mailing_list, each.name) for each in _SHOWN},
        created_at=describe_time(mailing_list.created_at),
        etag=mailing_list.etag,
    )


AttributeValue = str | int | float | bool | list[str]


class FieldResource(Resource, frozen=True):
    """A field that a list declares."""

    name: str
    type: FieldType
    label: str | dict[str, str]
    required: bool
    public: bool
    default: AttributeValue | None
    choices: list[str]
    max_length: int


class ListEmailResource(Resource, frozen=True):
    """An email that a list sends automatically, in one language. `own` unless it is the standard
    text."""

    kind: ListEmailKind
    language: str
    subject: str
    text: str
    own: bool


def describe_list_email(written: WrittenEmail) -> ListEmailResource:
    return ListEmailResource(
        kind=written.kind,
        language=written.language,
        subject=written.email.subject,
        text=written.email.text,
        own=written.is_own,
    )


def describe_field(field: Field) -> FieldResource:
    return FieldResource(
        name=field.name,
        type=field.type,
        label=field.label or field.shown_label,
        required=field.required,
        public=field.public,
        default=field.default,
        choices=list(field.choices),
        max_length=field.max_length,
    )


class SegmentResource(Resource, frozen=True):
    """A named rule that selects subscribers of a list."""

    list: str
    name: str
    rule: str
    etag: str


def describe_segment(segment: Segment) -> SegmentResource:
    return SegmentResource(segment.list_name, segment.name, segment.rule, segment.etag)


class SegmentPreviewResource(Resource, frozen=True):
    """How many subscribers a rule selects, with up to 20 of them."""

    count: int
    sample: list[str]


def describe_preview(preview: SegmentPreview) -> SegmentPreviewResource:
    return SegmentPreviewResource(preview.count, list(preview.sample))


class RemovalResource(Resource, frozen=True):
    """How many subscribers were removed, and why others were not."""

    removed: int
    problems: list[str]


def describe_removal(report: BulkReport) -> RemovalResource:
    return RemovalResource(report.done, report.problems)


class ReasonResource(Resource, frozen=True):
    """A part of a rule, and whether it holds. `depth` says how far it is nested."""

    depth: int
    text: str
    holds: bool
    value: Annotated[
        str | None,
        Meta(
            description="The value of the subscriber that is compared; null for other parts of the"
            " rule"
        ),
    ]


class ExplanationResource(Resource, frozen=True):
    """Why a subscriber is or is not in a segment: the rule first, then its parts."""

    email: str
    matches: bool
    reasons: list[ReasonResource]


def describe_explanation(explanation: Explanation) -> ExplanationResource:
    def parts(reason: Reason, depth: int) -> Iterator[ReasonResource]:
        yield ReasonResource(depth, reason.text, reason.holds, reason.value)
        for each in reason.parts:
            yield from parts(each, depth + 1)

    reason = explanation.reason
    return ExplanationResource(explanation.email, reason.holds, list(parts(reason, 0)))


class SubscriberResource(Resource, frozen=True):
    """An address on a list."""

    list: str
    email: str
    guid: Annotated[
        str | None,
        Meta(
            description="The secret in this subscriber's links; null for keys without the scope"
            " `subscribers`."
        ),
    ]
    verified: bool
    verified_at: Time | None
    blocked: Annotated[str | None, Meta(description="Why nothing is sent to this address.")]
    paused_until: Annotated[
        Time | None, Meta(description="The subscriber has asked for no emails until then.")
    ]
    attributes: Annotated[
        dict[str, AttributeValue], Meta(description="The values of the list's fields.")
    ]
    note: Annotated[str, Meta(description="What the team has noted; subscribers do not see it.")]
    consent: Annotated[
        str,
        Meta(
            description="What the subscriber agreed to when signing up; for an imported one, how"
            " they signed up in the other tool."
        ),
    ]
    tracking: Annotated[
        bool,
        Meta(description="Whether the subscriber agrees to personal tracking of opens and clicks."),
    ]
    source: Annotated[
        str,
        Meta(
            description="How the subscriber came to the list: `form`, `preferences`, `api`,"
            " `import` or `team`, unless `attributes` have another value; empty if unknown."
        ),
    ]
    former_addresses: Annotated[
        Sequence[str],
        Meta(description="Addresses that this subscriber had before, in lower case, oldest first."),
    ]
    created_at: Time
    etag: str


def describe_subscriber(subscriber: Subscriber, *, with_guid: bool = True) -> SubscriberResource:
    """Return the subscriber, without the GUID for readers who must not act for them."""
    return SubscriberResource(
        list=subscriber.list_name,
        email=subscriber.address,
        guid=subscriber.guid if with_guid else None,
        verified=subscriber.verified,
        verified_at=describe_time(subscriber.verified_at),
        blocked=subscriber.blocked or None,
        paused_until=describe_time(subscriber.paused_until),
        attributes=dict(subscriber.attributes),
        note=subscriber.note,
        consent=subscriber.consent,
        tracking=subscriber.tracking,
        source=str(subscriber.known.get("source", "")),
        former_addresses=subscriber.former_addresses,
        created_at=describe_time(subscriber.created_at),
        etag=subscriber.etag,
    )


_ITS_CONTRACT = Meta(
    description="The name of the same value in the request.",
    extra_json_schema={"deprecated": True},
)


class SignUpResource(Resource, frozen=True):
    """The result of a sign-up."""

    email: str
    list: str
    verified: bool
    email_address: Annotated[str, _ITS_CONTRACT]
    list_name: Annotated[str, _ITS_CONTRACT]


class ColumnResource(Resource, frozen=True):
    """What a column of a file is used for."""

    name: str
    meaning: Meaning
    field: Annotated[str | None, Meta(description="The field that it fills.")]


class ImportResource(Resource, frozen=True):
    """The lines of a file, counted. Each line is added, updated or rejected.

    `unchanged` and `unsubscribed` are parts of `updated`: already on the list with the same
    values, and removed from the list. `confirmed` counts subscribers that are verified now and
    were not, `blocked` those blocked by their line or by a suppression, `suppressed` the addresses
    that the import suppressed: on every list after a hard bounce or a complaint, otherwise on this
    list. A key that is limited to selected lists suppresses on this list only. `created_fields`
    were declared for unknown columns. `errors` has up to 10,000 of the rejected lines. With
    `dry_run` nothing was written.
    """

    dry_run: bool
    tool: Annotated[str | None, Meta(description="The tool whose export was recognised.")]
    warning: Annotated[
        str | None, Meta(description="What to do if the export does not say who unsubscribed.")
    ]
    added: int
    updated: int
    unchanged: int
    unsubscribed: int
    blocked: int
    suppressed: int
    confirmed: int
    rejected: int
    columns: list[ColumnResource]
    ignored_columns: list[str]
    created_fields: list[str]
    reasons: Annotated[
        dict[str, int], Meta(description="Rejected lines by reason, without the values in it.")
    ]
    errors: list[RejectedLineResource]


def describe_import(report: ImportReport) -> ImportResource:
    return ImportResource(
        dry_run=report.dry_run,
        tool=report.tool or None,
        warning=report.warning or None,
        added=report.added,
        updated=report.updated + report.unchanged + report.unsubscribed,
        unchanged=report.unchanged,
        unsubscribed=report.unsubscribed,
        blocked=report.blocked,
        suppressed=report.suppressed,
        confirmed=report.confirmed,
        rejected=report.rejected,
        columns=[
            ColumnResource(each.name, each.meaning, each.field or None) for each in report.columns
        ],
        ignored_columns=report.ignored_columns,
        created_fields=report.created_fields,
        reasons=report.reasons,
        errors=[RejectedLineResource(each.line, each.email, each.reason) for each in report.errors],
    )
