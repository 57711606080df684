"""`/messages/{ref}/render` and `/messages/{ref}/preflight`."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.messages import (
    PreflightResource,
    RenderedResource,
    describe_preflight,
)
from postroom.web.api.documenting import call
from postroom.web.api.field_types import Address, RefPath
from postroom.web.api.routing import ApiRoute, context_of, key_of, respond

_SECONDS: Final = 5.0
router = APIRouter(route_class=ApiRoute, tags=["Messages"])


@router.get(
    "/messages/{ref}/render", **call(Scope.MESSAGES, RenderedResource, 404, right=ListRight.VIEW)
)
async def render_message(
    request: Request,
    ref: RefPath,
    email: Annotated[
        Address | None, Query(description="A subscriber of the list; if omitted, an example.")
    ] = None,
) -> Response:
    """Return a message as a subscriber gets it, with merge fields and footer.

    The links in it are the subscriber's own if the key has the scope `subscribers`. If a draft is
    incomplete, `errors` names everything that is missing.
    """
    may_act = key_of(request).may(Scope.SUBSCRIBERS)
    mail = await context_of(request).renderer.render(ref, email, with_guid=may_act)
    return respond(RenderedResource(mail.subject, mail.html, mail.text))


@router.get(
    "/messages/{ref}/preflight",
    **call(Scope.MESSAGES, PreflightResource, 404, right=ListRight.VIEW),
)
async def read_preflight(request: Request, ref: RefPath) -> Response:
    """Return what is wrong with a message, and how many subscribers will receive it.

    If a finding has the level `error`, it cannot or should not be sent. Links and DNS records
    are checked in the background: `checking` says how many take longer than five seconds.
    """
    found = await context_of(request).preflight.check(ref, seconds=_SECONDS)
    return respond(describe_preflight(found))
