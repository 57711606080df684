"""`/messages/{ref}/results`, `/messages/{ref}/people` and `/results`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.results import (
    MessageResultsResource,
    PersonResource,
    SegmentsResultsResource,
    describe_person,
    describe_results,
    describe_segment_results,
)
from postroom.services.resources.results_over_time import (
    ResultsOverTimeResource,
    describe_results_over_time,
)
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import call, index_of
from postroom.web.api.field_types import After, Limit, ListName, RefPath
from postroom.web.api.key_rights import is_limited, lists_of, messages_of, rule_check
from postroom.web.api.routing import ApiRoute, respond, respond_with_items, services_of

router = APIRouter(route_class=ApiRoute, tags=["Messages"])

OneList = Annotated[ListName | None, Query(alias="list", description="Only messages to this list.")]


@router.get(
    "/messages/{ref}/results",
    **call(Scope.MESSAGES, MessageResultsResource, 404, right=ListRight.VIEW),
)
async def read_results(request: Request, ref: RefPath) -> Response:
    """Return the results of a message: bounces and spam reports by kind and provider, people who
    unsubscribed with its links and, if they are measured, opens and clicks. `comparison` has the
    medians of the list's last ten messages before this one."""
    services = services_of(request)
    message = await services.messages.get(ref)
    sees = messages_of(request).sees
    return respond(describe_results(await services.results.compared(message, sees=sees)))


@router.get(
    "/messages/{ref}/results/segments",
    **call(Scope.MESSAGES, SegmentsResultsResource, 404, right=ListRight.VIEW),
)
async def read_segment_results(request: Request, ref: RefPath) -> Response:
    """Return the results of a message by segment of its first list. All of its subscribers are
    read: a long list takes some seconds."""
    services = services_of(request)
    message = await services.messages.get(ref)
    segments = await services.segment_results.segments(message, rule_check(request))
    found = await services.segment_results.read(message, segments)
    return respond(describe_segment_results(message, found.figures))


@router.get("/results", **call(Scope.MESSAGES, ResultsOverTimeResource, 404, right=ListRight.VIEW))
async def read_results_over_time(request: Request, list_name: OneList = None) -> Response:
    """Return the numbers and rates of the last 50 messages, their medians, when people opened them,
    how providers received them, and how many subscribers joined and left in the last 90 days."""
    services = services_of(request)
    name = None if list_name is None else (await services.lists.get(list_name)).name
    only = await lists_of(request).names() if is_limited(request) else None
    sees = messages_of(request).sees
    found = await services.results_over_time.read(name, sees=sees, only=only)
    return respond(describe_results_over_time(found))


@router.get(
    "/messages/{ref}/people",
    **call(Scope.MESSAGES, index_of(PersonResource), 404, right=ListRight.VIEW),
)
async def read_people(
    request: Request, ref: RefPath, limit: Limit = 100, after: After = None
) -> Response:
    """Return who opened a message and clicked its links, in no particular order: subscribers who
    agree to personal tracking. A response may have fewer than `limit` even if `next` is set."""
    services = services_of(request)
    message = await services.messages.get(ref)
    cursor = Cursor(after, IndexName.PEOPLE, message.ref)
    with cursor.checked():
        page = await services.personal_hits.people(message, limit=limit, after=cursor.last)
    return respond_with_items(map(describe_person, page.people), cursor.next(page.next))
