"""Warm-up plans, as the API and the command line show them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from postroom.services.messages.sending.warm_ups import WarmUpStatus
from postroom.services.resources import Resource

Day = Annotated[str, Meta(extra_json_schema={"format": "date"})]


class WarmUpResource(Resource, frozen=True):
    """How many emails may be sent per day while a domain or an IP address is new."""

    domain: Annotated[str, Meta(description="The From domain; `all` for all emails.")]
    starts_on: Day
    ends_on: Annotated[Day, Meta(description="The first day without a limit.")]
    volumes: Annotated[list[int], Meta(description="Emails per day (UTC), from the first day on.")]
    today: Annotated[
        int | None, Meta(description="The volume of this day; null before and after the plan.")
    ]
    used_today: int


def describe_warm_up(status: WarmUpStatus) -> WarmUpResource:
    plan = status.plan
    return WarmUpResource(
        domain=plan.domain,
        starts_on=plan.starts.isoformat(),
        ends_on=plan.ends.isoformat(),
        volumes=list(plan.volumes),
        today=status.volume,
        used_today=status.used,
    )
