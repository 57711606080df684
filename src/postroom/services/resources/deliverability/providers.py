"""Providers, as the API and the command line show them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from postroom.services.audience.suppression.provider_overview import ProviderStatus
from postroom.services.resources import Resource, Time, describe_time
from postroom.services.resources.messages import HoldResource, describe_hold


class ProviderResource(Resource, frozen=True):
    """A mailbox provider, and how it receives your emails."""

    provider: Annotated[str, Meta(description="Its main domain.", examples=["gmail.com"])]
    per_second: Annotated[
        float | None, Meta(description="Emails per second that are sent now; null: no limit.")
    ]
    connections: Annotated[
        int | None, Meta(description="Emails in progress at the same time; null: no limit.")
    ]
    emails_per_connection: Annotated[
        int | None, Meta(description="Emails to it that one connection carries; null: any number.")
    ]
    rest_minutes: Annotated[
        int | None,
        Meta(
            description="How long it gets no emails after throttling them; null: a few seconds."
            " For yahoo.com, only a reply with [TSS04] counts."
        ),
    ]
    max_per_second: Annotated[float | None, Meta(description="Set by an administrator.")]
    max_connections: Annotated[int | None, Meta(description="Set by an administrator.")]
    max_emails_per_connection: Annotated[int | None, Meta(description="Set by an administrator.")]
    min_rest_minutes: Annotated[int | None, Meta(description="Set by an administrator.")]
    throttled: Annotated[int, Meta(description="How often it lowered the rate.")]
    throttled_at: Time | None
    reply: Annotated[str | None, Meta(description="Its last throttling reply.")]
    hold: HoldResource | None
    accepted: Annotated[int, Meta(description="Emails of the last 30 days.")]
    bounced: int
    complained: int


def describe_provider(status: ProviderStatus) -> ProviderResource:
    limit, figures = status.rate.limit, status.figures
    return ProviderResource(
        provider=status.provider,
        per_second=None if status.per_second is None else round(status.per_second, 3),
        connections=status.connections,
        emails_per_connection=status.emails_per_connection,
        rest_minutes=status.rate.rest_minutes,
        max_per_second=limit.per_second,
        max_connections=limit.connections,
        max_emails_per_connection=limit.emails_per_connection,
        min_rest_minutes=limit.rest_minutes,
        throttled=status.rate.throttled,
        throttled_at=describe_time(status.throttled_at),
        reply=status.rate.reply or None,
        hold=None if status.hold is None else describe_hold(status.hold),
        accepted=figures.accepted,
        bounced=figures.bounced,
        complained=figures.complained,
    )
