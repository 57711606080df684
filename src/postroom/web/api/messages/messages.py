"""`/messages`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.messages.messages import FINAL, Message, MessageStatus, has_passed
from postroom.domain.messages.messages import LARGEST_BODY as LARGEST_MESSAGE_BODY
from postroom.services.accounts.api_keys import Scope
from postroom.services.idempotency import Begun
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.message_rows import MessagePage
from postroom.services.resources.messages import (
    BodiesResource,
    MessageResource,
    ScheduledMessageResource,
    describe_message,
    describe_scheduled_message,
)
from postroom.storage.codec import decode_token, encode_token
from postroom.storage.limits import EARLIEST
from postroom.web.api.documenting import (
    IDEMPOTENCY_KEY,
    IF_MATCH,
    LARGEST_BODY,
    PLACE,
    call,
    index_of,
    success,
)
from postroom.web.api.fields import (
    After,
    Body,
    Change,
    Limit,
    ListName,
    Moment,
    RefPath,
    Subject,
    Text,
)
from postroom.web.api.routing import (
    ApiRoute,
    Cursor,
    IndexName,
    matched_etag,
    once,
    respond,
    respond_with_etag,
    respond_with_items,
    services_of,
    with_quotable_etag,
)
from postroom.wiring import Services

router = APIRouter(route_class=ApiRoute, tags=["Messages"])
# Two bodies; JSON escapes some characters with two, and a little is left for the rest.
_WITH_BODIES: dict[str, Any] = {LARGEST_BODY: 4 * LARGEST_MESSAGE_BODY}
_MOST_READS = 1_000  # slices of messages for one response, of which a status may leave few

OPEN, DONE = "open", "done"


def _require_a_body(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [
        {"required": [name], "properties": {name: {"type": "string", "pattern": "\\S"}}}
        for name in ("html", "text")
    ]


class NewMessage(Body):
    """At least one of `html` and `text` is required. Neither may be blank."""

    model_config = ConfigDict(strict=True, extra="forbid", json_schema_extra=_require_a_body)

    list: ListName
    subject: Subject
    html: Annotated[
        Text | None,
        Field(
            description="May contain {{email}}, {{list_description}} and {{unsubscribe_url}}.",
            examples=["<p>Hello</p>"],
        ),
    ] = None
    text: Annotated[
        Text | None,
        Field(
            description="Generated from the HTML if it is left out; an empty text stays empty.",
            examples=["Hello"],
        ),
    ] = None
    scheduled_at: Moment | None = None


class MessageChange(Change):
    """Fields that are left out stay as they are, but a text that was generated from the HTML is
    generated again. An empty body is removed."""

    list: ListName | None = None
    subject: Subject | None = None
    html: Text | None = None
    text: Text | None = None
    scheduled_at: Moment | None = None


@router.post(
    "/messages",
    **call(
        Scope.MESSAGES,
        ScheduledMessageResource,
        404,
        409,
        status=201,
        with_etag=True,
        headers=IDEMPOTENCY_KEY,
        **_WITH_BODIES,
    ),
)
async def create_message(request: Request, body: NewMessage) -> Response:
    """Schedule a message to all verified subscribers of a list.

    Without `scheduled_at`, or with a time in the past, sending starts now; `note` says so for a
    time in the past.
    """
    services = services_of(request)

    async def work(begun: Begun | None) -> tuple[int, ScheduledMessageResource]:
        now = datetime.now(UTC) if begun is None else begun.at
        created = await services.messages.create(
            body.list,
            body.subject,
            NewBodies(body.html, body.text),
            _storable(body.scheduled_at, now) or now,
            ref=None if begun is None else begun.ref,
        )
        return 201, await _describe_scheduled(services, created, body.scheduled_at, now)

    return await once(request, work, lambda _, content: _respond_created(content))


@router.get("/messages", **call(Scope.MESSAGES, index_of(MessageResource), 404))
async def read_messages(
    request: Request,
    status: Annotated[MessageStatus | None, Query(description="Filter by status.")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Return all messages: unfinished ones by their time, then finished ones.

    A message that finishes while you read the index may appear twice.
    """
    services = services_of(request)
    cursor = Cursor(after, IndexName.MESSAGES)
    with cursor.checked():
        page = await _page(services, status, limit, cursor.last)
    items = await asyncio.gather(*(_describe(services, each) for each in page.messages))
    return respond_with_items(map(with_quotable_etag, items), cursor.next(page.next))


@router.get("/messages/{ref}", **call(Scope.MESSAGES, MessageResource, 404, with_etag=True))
async def read_message(request: Request, ref: RefPath) -> Response:
    """Return a message with the counts of its emails."""
    services = services_of(request)
    return respond_with_etag(await _describe(services, await services.messages.get(ref)))


@router.get("/messages/{ref}/bodies", **call(Scope.MESSAGES, BodiesResource, 404))
async def read_bodies(request: Request, ref: RefPath) -> Response:
    """Return the HTML and the text of a message, as they are sent."""
    services = services_of(request)
    bodies = await services.messages.bodies(await services.messages.get(ref))
    return respond(BodiesResource(bodies.html, bodies.text))


@router.patch(
    "/messages/{ref}",
    **call(
        Scope.MESSAGES,
        ScheduledMessageResource,
        404,
        409,
        412,
        with_etag=True,
        headers=IF_MATCH,
        **_WITH_BODIES,
    ),
)
async def change_message(request: Request, ref: RefPath, body: MessageChange) -> Response:
    """Change a message while it is Pending, or Paused and none of it has been sent.

    Once its recipients are planned (`queued_at` is set), list and time cannot change.
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
            scheduled_at=_storable(body.scheduled_at, now),
            etag=etag,
        )
    else:
        saved = await services.messages.get(ref)
    return respond_with_etag(await _describe_scheduled(services, saved, body.scheduled_at, now))


@router.delete("/messages/{ref}", **call(Scope.MESSAGES, None, 404, 409, 412, headers=IF_MATCH))
async def delete_message(request: Request, ref: RefPath) -> Response:
    """Delete a message while it is Pending."""
    await services_of(request).messages.delete(ref, await _matched(request, ref))
    return Response(status_code=204)


_CHANGED = call(Scope.MESSAGES, MessageResource, 404, 409, with_etag=True)


@router.post("/messages/{ref}/pause", **_CHANGED)
async def pause_message(request: Request, ref: RefPath) -> Response:
    """Pause a message. Emails already in progress finish."""
    return await _changed(request, ref, services_of(request).messages.pause)


@router.post("/messages/{ref}/resume", **_CHANGED)
async def resume_message(request: Request, ref: RefPath) -> Response:
    """Resume a paused message."""
    return await _changed(request, ref, services_of(request).messages.resume)


@router.post("/messages/{ref}/cancel", **_CHANGED)
async def cancel_message(request: Request, ref: RefPath) -> Response:
    """Cancel a message for good. Emails that are not sent yet are not sent."""
    return await _changed(request, ref, services_of(request).messages.cancel)


@router.post("/messages/{ref}/try-now", **_CHANGED)
async def try_message_now(request: Request, ref: RefPath) -> Response:
    """Probe each hold of a message now, with a single email."""
    return await _changed(request, ref, services_of(request).message_holds.try_now)


@router.post(
    "/messages/{ref}/retry",
    **call(
        Scope.MESSAGES,
        MessageResource,
        404,
        409,
        with_etag=True,
        also={201: success(MessageResource, "Created.", with_etag=True, is_new=True)},
    ),
)
async def retry_message(request: Request, ref: RefPath) -> Response:
    """Retry deferred emails now, or the refused ones of a finished message.

    For the latter a new message is created (201), only one however often this is called.
    """
    services = services_of(request)
    retried = await services.retries.retry(ref)
    described = await _describe(services, retried)
    if retried.ref == ref:
        return respond_with_etag(described)
    return _respond_created(described)


async def _changed(
    request: Request, ref: str, change: Callable[[str], Awaitable[Message]]
) -> Response:
    return respond_with_etag(await _describe(services_of(request), await change(ref)))


def _respond_created(content: Any) -> Response:
    """Return a new message: a resource, or its content as an earlier request stored it."""
    ref = content["ref"] if isinstance(content, dict) else content.ref
    return respond_with_etag(content, 201, {"Location": f"{PLACE}/messages/{ref}"})


async def _describe(services: Services, message: Message) -> MessageResource:
    return describe_message(message, await services.message_holds.sending_state(message))


async def _describe_scheduled(
    services: Services, message: Message, wanted: datetime | None, now: datetime
) -> ScheduledMessageResource:
    state = await services.message_holds.sending_state(message)
    passed = wanted is not None and has_passed(wanted, now)
    return describe_scheduled_message(message, state, has_passed=passed)


async def _matched(request: Request, ref: str) -> str | None:
    async def read() -> Message:
        return await services_of(request).messages.get(ref)

    return await matched_etag(request, "message", ref, read)


def _storable(moment: datetime | None, now: datetime) -> datetime | None:
    """Return now for a time in the past that the store cannot keep."""
    return now if moment is not None and moment <= EARLIEST else moment


async def _page(
    services: Services, status: MessageStatus | None, limit: int, after: str | None
) -> MessagePage:
    """Return unfinished messages first: none becomes unfinished again, so none is missed."""
    part, inner = decode_token(after, 2) if after is not None else (OPEN, "")
    found: list[Message] = []
    seen: set[str] = set()
    for _ in range(_MOST_READS):
        page = await services.messages.page(
            done=part == DONE, limit=limit - len(found), after=inner or None
        )
        fitting = [m for m in page.messages if (status in (None, m.status)) and m.ref not in seen]
        found += fitting
        seen |= {message.ref for message in fitting}
        inner = page.next or ""
        if not inner:
            # Only finished messages are in the second part.
            if part == DONE or (status is not None and status not in FINAL):
                return MessagePage(found, None)
            part = DONE
        if len(found) >= limit:
            break
    return MessagePage(found, encode_token(part, inner))
