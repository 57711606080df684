"""`/messages/{ref}/results` and `/messages/{ref}/people`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.list_rights import ListRight
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.results import (
    MessageResultsResource,
    PersonResource,
    describe_person,
    describe_results,
)
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import call, index_of
from postroom.web.api.fields import After, Limit, RefPath
from postroom.web.api.routing import ApiRoute, respond, respond_with_items, services_of

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


@router.get(
    "/messages/{ref}/people",
    **call(Scope.MESSAGES, index_of(PersonResource), 404, right=ListRight.VIEW),
)
async def read_people(
    request: Request, ref: RefPath, limit: Limit = 100, after: After = None
) -> Response:
    """Return who opened a message and clicked its links, in no particular order: subscribers who
    agree that it is recorded. A response may have fewer than `limit` even if `next` is set."""
    services = services_of(request)
    message = await services.messages.get(ref)
    cursor = Cursor(after, IndexName.PEOPLE, message.ref)
    with cursor.checked():
        page = await services.personal_hits.people(message, limit=limit, after=cursor.last)
    return respond_with_items(map(describe_person, page.people), cursor.next(page.next))
