"""`/warm-ups`: how many emails per day a new domain or IP address sends."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from postroom import clock
from postroom.domain.messages.delivery.providers import PROVIDER_PATTERN
from postroom.domain.messages.delivery.warm_up import (
    MOST_DAYS,
    MOST_EMAILS,
    VOLUMES,
    WarmUpPlan,
    parse_warm_up_domain,
)
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.deliverability.warm_ups import WarmUpResource, describe_warm_up
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import call, index_of
from postroom.web.api.field_types import After, Body, Limit, in_path, whole_number
from postroom.web.api.routing import ApiRoute, respond, respond_with_items, services_of

router = APIRouter(route_class=ApiRoute, tags=["Providers"])

WarmUpPath = Annotated[
    str,
    Path(description="The From domain, or `all` for all emails."),
    AfterValidator(in_path("warm-up plan", parse_warm_up_domain)),
    WithJsonSchema(
        {"type": "string", "pattern": f"^({PROVIDER_PATTERN}|all)$", "examples": ["example.com"]}
    ),
]
_Volume = Annotated[int, Field(ge=1, le=MOST_EMAILS), BeforeValidator(whole_number)]


def _day(value: object) -> object:
    """Read a day as RFC 3339 writes it, and nothing else."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        return date.fromisoformat(value)
    if value is not None:
        raise ValueError("must be a day such as 2027-01-31")
    return value


class NewWarmUp(Body):
    starts_on: Annotated[
        date | None,
        BeforeValidator(_day),
        Field(description="The first day (UTC); null: today."),
        WithJsonSchema({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}),
    ] = None
    volumes: Annotated[
        list[_Volume],
        Field(
            min_length=1,
            max_length=MOST_DAYS,
            default_factory=lambda: list(VOLUMES),
            description="Emails per day. Default: 50, 100, 500 … 1,000,000 in 15 days.",
        ),
    ]


@router.get("/warm-ups", **call(Scope.MESSAGES, index_of(WarmUpResource), 404))
async def read_warm_ups(request: Request, limit: Limit = 100, after: After = None) -> Response:
    """Return the warm-up plans, by domain."""
    cursor = Cursor(after, IndexName.WARM_UPS)
    every = await services_of(request).warm_ups.statuses()
    found = [each for each in every if each.plan.domain > (cursor.last or "")]
    last = found[limit - 1].plan.domain if len(found) > limit else None
    return respond_with_items(map(describe_warm_up, found[:limit]), cursor.next(last))


@router.get("/warm-ups/{domain}", **call(Scope.MESSAGES, WarmUpResource, 404))
async def read_warm_up(request: Request, domain: WarmUpPath) -> Response:
    """Return the warm-up plan of a domain."""
    return respond(describe_warm_up(await services_of(request).warm_ups.get(domain)))


@router.put("/warm-ups/{domain}", **call(Scope.MESSAGES, WarmUpResource, 404))
async def save_warm_up(request: Request, domain: WarmUpPath, body: NewWarmUp) -> Response:
    """Create or replace the warm-up plan of a domain. Emails beyond a day's volume wait."""
    service = services_of(request).warm_ups
    starts = body.starts_on or clock.now().date()
    await service.save(WarmUpPlan(domain, starts, tuple(body.volumes)))
    return respond(describe_warm_up(await service.get(domain)))


@router.delete("/warm-ups/{domain}", **call(Scope.MESSAGES, None, 404))
async def remove_warm_up(request: Request, domain: WarmUpPath) -> Response:
    """End a warm-up plan. Emails that wait for it are sent at their next attempt."""
    await services_of(request).warm_ups.remove(domain)
    return Response(status_code=204)
