"""`/bounces`: emails that came back, from a program that receives them."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.messages.delivery.bounces import BounceSource
from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.bounces.intake import LARGEST
from postroom.services.resources.deliverability.suppressions import ReceivedBounceResource
from postroom.web.api.documenting import call
from postroom.web.api.problems import problem
from postroom.web.api.routing import ApiRoute, read_body, respond, services_of

MAIL: Final = "message/rfc822"

router = APIRouter(route_class=ApiRoute, tags=["Bounces"])
_MAIL: dict[str, Any] = {
    "required": True,
    "content": {
        MAIL: {
            "schema": {
                "type": "string",
                "format": "binary",
                "minLength": 1,
                "description": f"The whole email, with its headers: at most {LARGEST:,} bytes.",
            }
        }
    },
}


@router.post(
    "/bounces",
    **call(Scope.SUBSCRIBERS, ReceivedBounceResource, 413, 415, status=202, requestBody=_MAIL),
)
async def receive_bounce(request: Request) -> Response:
    """Receive an email that came back: a bounce, a complaint or an automatic reply.

    The response means that it is stored and queued; it is read a moment later. Any email may be
    sent here: one that is not about an email sent by Postroom changes nothing. The same bounce
    may be sent again.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != MAIL:
        return problem(415, f"send the email as {MAIL}")
    content = await read_body(request, LARGEST)
    if content is None:
        return problem(413, f"the email has more than {LARGEST:,} bytes")
    name = await services_of(request).bounce_intake.keep(content, BounceSource.API)
    return respond(ReceivedBounceResource(name), 202)
