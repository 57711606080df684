"""`/personal-data`: everything about one person, to export or to erase it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.personal_data import (
    ErasureResource,
    TraceResource,
    describe_erasure,
    describe_trace,
)
from postroom.web.api.documenting import call
from postroom.web.api.field_types import Address, Body
from postroom.web.api.routing import ApiRoute, key_of, respond, services_of

router = APIRouter(route_class=ApiRoute, tags=["Personal data"])


class ErasureRequest(Body):
    email: Address


@router.get("/personal-data", **call(Scope.SUBSCRIBERS, TraceResource))
async def read_personal_data(
    request: Request, email: Annotated[Address, Query(description="The person's address.")]
) -> Response:
    """Return everything that is stored about an address, on all lists."""
    traced = await services_of(request).tracing.trace(email)
    may_act = key_of(request).may(Scope.SUBSCRIBERS)
    return respond(describe_trace(traced, with_guid=may_act))


@router.post("/personal-data/erase", **call(Scope.SUBSCRIBERS, ErasureResource))
async def erase_personal_data(request: Request, body: ErasureRequest) -> Response:
    """Erase everything that is stored about an address, on all lists. This cannot be undone.

    The totals of messages and the entries of the consent ledger stay, without the person. A
    suppressed address stays suppressed: only a digest of it is kept. The audit log does not name
    the address. Repeating it does no harm.
    """
    return respond(describe_erasure(await services_of(request).personal_data.erase(body.email)))
