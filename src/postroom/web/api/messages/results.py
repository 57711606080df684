"""`/messages/{ref}/results`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.list_rights import ListRight
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.results import MessageResultsResource, describe_results
from postroom.web.api.documenting import call
from postroom.web.api.fields import RefPath
from postroom.web.api.routing import ApiRoute, respond, services_of

router = APIRouter(route_class=ApiRoute, tags=["Messages"])


@router.get(
    "/messages/{ref}/results",
    **call(Scope.MESSAGES, MessageResultsResource, 404, right=ListRight.VIEW),
)
async def read_results(request: Request, ref: RefPath) -> Response:
    """Return what became of a message: bounces and spam reports by kind and provider, people who
    unsubscribed with its links and, if they are measured, opens and clicks."""
    services = services_of(request)
    message = await services.messages.get(ref)
    return respond(describe_results(await services.results.of_message(message)))
