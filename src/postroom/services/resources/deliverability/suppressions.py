"""Suppressions, as the API and the command line show them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from postroom.domain.audience.suppressions import Suppression
from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.services.audience.suppression.bounce_history import RecordedBounce
from postroom.services.audience.suppression.suppression_files import SuppressionImport
from postroom.services.resources import Resource, Time, describe_time
from postroom.services.resources.rejected_lines import RejectedLineResource

_MOST_ERRORS = 100


class SuppressionResource(Resource, frozen=True):
    """An address that must not receive email."""

    email: Annotated[str, Meta(description="Empty if the address was erased.")]
    list: Annotated[str | None, Meta(description="Null if it applies to every list.")]
    reason: Annotated[
        str,
        Meta(
            description="`hard bounce`, `repeated bounces`, `complaint`, `request`, or any other"
            " text."
        ),
    ]
    source: Annotated[str, Meta(description="Who or what suppressed it.")]
    created_at: Time
    expires_at: Annotated[Time | None, Meta(description="Null if it does not end automatically.")]
    message: Annotated[str | None, Meta(description="The reference of the message that bounced.")]
    diagnostic: Annotated[str, Meta(description="The text of the bounce.")]


def describe_suppression(suppression: Suppression) -> SuppressionResource:
    return SuppressionResource(
        email=suppression.address,
        list=suppression.list_name,
        reason=suppression.reason,
        source=suppression.source,
        created_at=describe_time(suppression.created_at),
        expires_at=describe_time(suppression.expires_at),
        message=suppression.ref,
        diagnostic=suppression.diagnostic,
    )


class BounceResource(Resource, frozen=True):
    """What was reported about an email after it was sent. Its outcome stays as it is."""

    kind: Annotated[
        BounceKind,
        Meta(
            description="`gone`: the mailbox does not exist; `policy`: the provider rejects"
            " our email; `complaint`: the recipient marked it as spam."
        ),
    ]
    at: Time
    status: Annotated[str, Meta(description="The enhanced status code, such as `5.1.1`.")]
    text: str
    source: str


def describe_bounce(bounce: RecordedBounce) -> BounceResource:
    return BounceResource(
        kind=bounce.kind,
        at=describe_time(bounce.at),
        status=bounce.status,
        text=bounce.diagnostic,
        source=bounce.source,
    )


class SuppressionImportResource(Resource, frozen=True):
    """What an import did. `unchanged` addresses were suppressed before; `errors` has the first
    100 rejected lines."""

    lines: int
    added: int
    unchanged: int
    rejected: int
    errors: list[RejectedLineResource]


def describe_suppression_import(report: SuppressionImport) -> SuppressionImportResource:
    return SuppressionImportResource(
        lines=report.lines,
        added=report.added,
        unchanged=report.unchanged,
        rejected=len(report.rejected),
        errors=[
            RejectedLineResource(each.line, each.email, each.reason)
            for each in report.rejected[:_MOST_ERRORS]
        ],
    )


class ReceivedBounceResource(Resource, frozen=True):
    """An email that was stored and queued. It is read and recorded a moment later."""

    id: Annotated[str, Meta(description="The name of the blob in `bounces` until it is recorded.")]
