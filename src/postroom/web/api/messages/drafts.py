"""`/messages/{ref}/…`: schedule a draft, unschedule, duplicate, follow up, and send tests."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.messages import (
    MessageResource,
    ScheduledMessageResource,
    TestResource,
    describe_tests,
)
from postroom.web.api.documenting import IF_MATCH, call
from postroom.web.api.field_types import ListPath, RefPath
from postroom.web.api.messages.message_models import NewFollowUp, Schedule, Test, WinBack, storable
from postroom.web.api.messages.messages import (
    describe,
    describe_scheduled,
    matched,
    respond_created,
)
from postroom.web.api.routing import (
    ApiRoute,
    author_of,
    context_of,
    respond,
    respond_with_etag,
    services_of,
)
from postroom.wiring import send_test_emails

router = APIRouter(route_class=ApiRoute, tags=["Messages"])


@router.post(
    "/messages/{ref}/schedule",
    **call(
        Scope.MESSAGES,
        ScheduledMessageResource,
        404,
        409,
        412,
        right=ListRight.SEND,
        with_etag=True,
        headers=IF_MATCH,
    ),
)
async def schedule_message(request: Request, ref: RefPath, body: Schedule) -> Response:
    """Schedule a draft. Sending starts now without a time, or with a time in the past.

    If the draft is incomplete, `errors` names everything that is missing.
    """
    services = services_of(request)
    now = datetime.now(UTC)
    etag = await matched(request, ref)
    at = storable(body.scheduled_at, now)
    if body.require_recipients:
        draft = await services.messages.get(ref)
        _ = await services.composing.checked(draft)
        await services.estimates.check_has_recipients(draft.list_name, draft.audience)
    scheduled = await services.composing.schedule(ref, at, etag=etag)
    asked = body.scheduled_at or scheduled.scheduled_at
    return respond_with_etag(await describe_scheduled(services, scheduled, asked, now))


@router.post(
    "/messages/{ref}/unschedule",
    **call(
        Scope.MESSAGES,
        MessageResource,
        404,
        409,
        412,
        right=ListRight.SEND,
        with_etag=True,
        headers=IF_MATCH,
    ),
)
async def unschedule_message(request: Request, ref: RefPath) -> Response:
    """Make a scheduled message a draft again. Possible until its sending starts."""
    services = services_of(request)
    etag = await matched(request, ref)
    draft = await services.composing.unschedule(ref, etag=etag)
    return respond_with_etag(await describe(services, draft))


@router.post(
    "/messages/{ref}/duplicate",
    **call(Scope.MESSAGES, MessageResource, 404, right=ListRight.EDIT, status=201, with_etag=True),
)
async def duplicate_message(request: Request, ref: RefPath) -> Response:
    """Create a draft with the content of a message."""
    services = services_of(request)
    draft = await services.composing.duplicate(ref, author_of(request))
    return respond_created(await describe(services, draft))


@router.post(
    "/messages/{ref}/follow-up",
    **call(
        Scope.MESSAGES, MessageResource, 404, 409, right=ListRight.EDIT, status=201, with_etag=True
    ),
)
async def follow_up_message(request: Request, ref: RefPath, body: NewFollowUp) -> Response:
    """Create a draft with the content of a sent message, another subject, and a part of its
    audience. `unclicked` requires that the message was sent with personal tracking."""
    services = services_of(request)
    draft = await services.follow_ups.create(ref, body.to, body.subject, author_of(request))
    return respond_created(await describe(services, draft))


@router.post(
    "/lists/{name}/inactive/win-back",
    **call(Scope.MESSAGES, MessageResource, 404, right=ListRight.EDIT, status=201, with_etag=True),
)
async def win_back_inactive(request: Request, name: ListPath, body: WinBack) -> Response:
    """Create a draft to the inactive subscribers of a list: those who agreed to personal tracking
    and have neither opened nor clicked an email for a while. Those who respond to it are active
    again."""
    services = services_of(request)
    draft = await services.inactive.win_back(name, body.days, author_of(request))
    return respond_created(await describe(services, draft))


@router.post(
    "/messages/{ref}/test", **call(Scope.MESSAGES, TestResource, 404, 409, right=ListRight.EDIT)
)
async def test_message(request: Request, ref: RefPath, body: Test) -> Response:
    """Send a message to up to ten addresses now, with `[Test]` in its subject.

    `results` says what the mail server replied for each address.
    """
    settings = context_of(request).settings
    results = await send_test_emails(services_of(request), settings, ref, body.to, body.subscriber)
    return respond(describe_tests(results))
