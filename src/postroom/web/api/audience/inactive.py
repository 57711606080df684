"""`/lists/{name}/inactive/remove`: remove inactive subscribers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.targeting.inactive_subscribers import DAYS
from postroom.services.resources.audience import RemovalResource, describe_removal
from postroom.web.api.documenting import call
from postroom.web.api.field_types import Body, InactiveDays, ListPath, Text
from postroom.web.api.routing import ApiRoute, respond, services_of

router = APIRouter(route_class=ApiRoute, tags=["Subscribers"])


class InactiveRemoval(Body):
    days: InactiveDays = DAYS
    received: Annotated[
        Text | None,
        Field(
            description="The reference of a win-back message: only those who received it are"
            " removed. Null: everyone who is inactive."
        ),
    ] = None


@router.post(
    "/lists/{name}/inactive/remove",
    **call(Scope.SUBSCRIBERS, RemovalResource, 404, right=ListRight.MANAGE),
)
async def remove_inactive(request: Request, name: ListPath, body: InactiveRemoval) -> Response:
    """Remove inactive subscribers from a list. A long list takes a while; if the request is
    interrupted, repeat it."""
    inactive = services_of(request).inactive
    segment = await inactive.segment(name, body.days, body.received)
    return respond(describe_removal(await inactive.remove(segment)))
