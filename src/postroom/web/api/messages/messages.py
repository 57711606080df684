"""`/messages`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.messages.messages import (
    FINAL,
    LARGEST_BODY,
    Message,
    MessageStatus,
    has_passed,
)
from postroom.services import shapes
from postroom.services.accounts.api_keys import Scope
from postroom.services.idempotency import Begun
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.message_rows import MessagePage
from postroom.storage.limits import EARLIEST
from postroom.storage.tokens import decode_token, encode_token
from postroom.web.api.docs.documenting import IF_MATCH, REPEATABLE, problems, tagged
from postroom.web.api.etags import matched_etag
from postroom.web.api.fields import After, Limit, RefPath
from postroom.web.api.idempotency import once
from postroom.web.api.models import MessageChange, NewMessage
from postroom.web.api.paging import Kind, Place
from postroom.web.api.results import BodiesResult, Index, MessageResult, ScheduledResult
from postroom.web.api.routing import (
    LARGEST_BODY as LARGEST,
)
from postroom.web.api.routing import (
    ApiRoute,
    answer,
    index,
    resource,
    scoped,
    services_of,
    with_shown_etag,
)
from postroom.wiring import Services

router = APIRouter(route_class=ApiRoute, tags=["Messages"])
_NEEDS: dict[str, Any] = scoped(Scope.MESSAGES)
# Two bodies; JSON writes some characters with two, and a little is left for the rest.
_WITH_BODIES: dict[str, Any] = scoped(Scope.MESSAGES, **{LARGEST: 4 * LARGEST_BODY})
_LOOKED_AT = 1_000  # messages for one answer, of which a status may leave few

OPEN, DONE = "open", "done"


@router.post(
    "/messages",
    status_code=201,
    response_model=ScheduledResult,
    responses=tagged(201, problems(404, 409), located=True),
    openapi_extra={**_WITH_BODIES, **REPEATABLE},
)
async def create_message(request: Request, body: NewMessage) -> Response:
    """Schedule a message to all verified subscribers of a list.

    Without `scheduled_at`, or with a time that has passed, it goes out now; of the latter `note`
    says so.
    """
    services = services_of(request)

    async def work(begun: Begun | None) -> tuple[int, dict[str, Any]]:
        now = datetime.now(UTC) if begun is None else begun.at
        made = await services.messages.create(
            body.list,
            body.subject,
            NewBodies(body.html, body.text),
            _keepable(body.scheduled_at, now) or now,
            ref=None if begun is None else begun.ref,
        )
        return 201, await _scheduled(services, made, body.scheduled_at, now)

    return await once(request, work, lambda _, content: _made(content))


@router.get(
    "/messages",
    response_model=Index[MessageResult],
    responses=problems(404),
    openapi_extra=_NEEDS,
)
async def read_messages(
    request: Request,
    status: Annotated[MessageStatus | None, Query(description="Only those.")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """The messages: those that are not done by their time, then those that are.

    A message that is done while you go through them may come twice.
    """
    services = services_of(request)
    place = Place(after, Kind.MESSAGES)
    with place.checked():
        page = await _page(services, status, limit, place.last)
    shown = await asyncio.gather(*(_shape(services, each) for each in page.messages))
    return index(map(with_shown_etag, shown), place.next(page.next))


@router.get(
    "/messages/{ref}",
    response_model=MessageResult,
    responses=tagged(200, problems(404)),
    openapi_extra=_NEEDS,
)
async def read_message(request: Request, ref: RefPath) -> Response:
    """One message, with what has become of its emails."""
    services = services_of(request)
    return resource(await _shape(services, await services.messages.get(ref)))


@router.get(
    "/messages/{ref}/bodies",
    response_model=BodiesResult,
    responses=problems(404),
    openapi_extra=_NEEDS,
)
async def read_bodies(request: Request, ref: RefPath) -> Response:
    """The HTML and the text of a message, as they are sent."""
    services = services_of(request)
    bodies = await services.messages.bodies(await services.messages.get(ref))
    return answer({"html": bodies.html, "text": bodies.text})


@router.patch(
    "/messages/{ref}",
    response_model=ScheduledResult,
    responses=tagged(200, problems(404, 409, 412)),
    openapi_extra={**_WITH_BODIES, **IF_MATCH},
)
async def change_message(request: Request, ref: RefPath, body: MessageChange) -> Response:
    """Change a message while it is Pending, or Paused and none of it was sent.

    Once its recipients have been planned (`queued_at` is set), list and time stay as they are.
    """
    services = services_of(request)
    etag = await _matched(request, ref)
    now = datetime.now(UTC)
    if body.model_fields_set:
        saved = await services.messages.edit(
            ref,
            list_name=body.list,
            subject=body.subject,
            bodies=NewBodies(body.html, body.text),
            scheduled_at=_keepable(body.scheduled_at, now),
            etag=etag,
        )
    else:
        saved = await services.messages.get(ref)
    return resource(await _scheduled(services, saved, body.scheduled_at, now))


@router.delete(
    "/messages/{ref}",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409, 412),
    openapi_extra={**_NEEDS, **IF_MATCH},
)
async def delete_message(request: Request, ref: RefPath) -> Response:
    """Delete a message while it is Pending."""
    await services_of(request).messages.delete(ref, await _matched(request, ref))
    return Response(status_code=204)


_CHANGED: dict[str, Any] = {
    "response_model": MessageResult,
    "responses": tagged(200, problems(404, 409)),
    "openapi_extra": _NEEDS,
}


@router.post("/messages/{ref}/pause", **_CHANGED)
async def pause_message(request: Request, ref: RefPath) -> Response:
    """Stop for now: senders obey within a second or a page."""
    return await _changed(request, ref, services_of(request).messages.pause)


@router.post("/messages/{ref}/resume", **_CHANGED)
async def resume_message(request: Request, ref: RefPath) -> Response:
    """Go on where the message was paused."""
    return await _changed(request, ref, services_of(request).messages.resume)


@router.post("/messages/{ref}/cancel", **_CHANGED)
async def cancel_message(request: Request, ref: RefPath) -> Response:
    """End a message for good: whoever has not got it yet will not."""
    return await _changed(request, ref, services_of(request).messages.cancel)


@router.post("/messages/{ref}/try-now", **_CHANGED)
async def try_message_now(request: Request, ref: RefPath) -> Response:
    """Try now whether the cause of a message's holds is gone, with a single email for each."""
    return await _changed(request, ref, services_of(request).message_holds.try_now)


@router.post(
    "/messages/{ref}/retry",
    response_model=MessageResult,
    responses={
        **tagged(200, problems(404, 409)),
        **tagged(201, {}, located=True),
    },
    openapi_extra=_NEEDS,
)
async def retry_message(request: Request, ref: RefPath) -> Response:
    """Retry deferred emails at once, or, once the message is done, those that were refused.

    For the latter another message is created, one however often this is called: 201.
    """
    services = services_of(request)
    made = await services.retries.retry(ref)
    shape = await _shape(services, made)
    return resource(shape) if made.ref == ref else _made(shape)


async def _changed(
    request: Request, ref: str, change: Callable[[str], Awaitable[Message]]
) -> Response:
    return resource(await _shape(services_of(request), await change(ref)))


def _made(shape: dict[str, Any]) -> Response:
    return resource(shape, 201, {"Location": f"/api/v1/messages/{shape['ref']}"})


async def _shape(services: Services, message: Message) -> dict[str, Any]:
    return shapes.of_message(message, await services.message_holds.standing(message))


async def _scheduled(
    services: Services, message: Message, wanted: datetime | None, now: datetime
) -> dict[str, Any]:
    standing = await services.message_holds.standing(message)
    passed = wanted is not None and has_passed(wanted, now)
    return shapes.of_scheduled(message, standing, has_passed=passed)


async def _matched(request: Request, ref: str) -> str | None:
    async def read() -> Message:
        return await services_of(request).messages.get(ref)

    return await matched_etag(request, "message", ref, read)


def _keepable(moment: datetime | None, now: datetime) -> datetime | None:
    """A time before all that the store can keep has passed, and so means now."""
    return now if moment is not None and moment <= EARLIEST else moment


async def _page(
    services: Services, status: MessageStatus | None, limit: int, after: str | None
) -> MessagePage:
    """Open messages first: none goes back there, so whoever goes through both misses none."""
    part, inner = decode_token(after, 2) if after is not None else (OPEN, "")
    found: list[Message] = []
    seen: set[str] = set()
    for _ in range(_LOOKED_AT):
        page = await services.messages.page(
            done=part == DONE, limit=limit - len(found), after=inner or None
        )
        fitting = [m for m in page.messages if (status in (None, m.status)) and m.ref not in seen]
        found += fitting
        seen |= {message.ref for message in fitting}
        inner = page.next or ""
        if not inner:
            # Only a message that is done is in the second part.
            if part == DONE or (status is not None and status not in FINAL):
                return MessagePage(found, None)
            part = DONE
        if len(found) >= limit:
            break
    return MessagePage(found, encode_token(part, inner))
