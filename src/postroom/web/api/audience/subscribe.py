"""`/subscribe`: what a client's web site calls."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from postroom.services.accounts.api_keys import Scope
from postroom.services.idempotency import Begun
from postroom.web.api.docs.documenting import REPEATABLE, problems
from postroom.web.api.idempotency import once
from postroom.web.api.models import SignUp
from postroom.web.api.results import SignUpResult
from postroom.web.api.routing import ApiRoute, scoped, services_of

router = APIRouter(route_class=ApiRoute, tags=["Sign-up"])


@router.post(
    "/subscribe",
    status_code=202,
    response_model=SignUpResult,
    responses={
        200: {"model": SignUpResult, "description": "Is verified already: nothing is sent."},
        **problems(404, 409),
    },
    openapi_extra=scoped(Scope.SUBSCRIBE, **REPEATABLE),
)
async def subscribe(request: Request, body: SignUp) -> Response:
    """Ask the owner of an address to confirm that it shall be on a list.

    The confirmation email is on its way when this answers. Whoever signs up again before
    confirming gets the same link again; but nobody gets more than two confirmations of a list in
    five minutes or three a day, although the answer is the same.
    """

    async def work(_: Begun | None) -> tuple[int, dict[str, Any]]:
        asked = await services_of(request).subscriptions.subscribe(
            body.list_name, body.email_address, language=body.language or ""
        )
        content = {
            "email_address": body.email_address,
            "list_name": body.list_name,
            "verified": not asked,
        }
        return 202 if asked else 200, content

    return await once(request, work)
