"""`/messages`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.messages.messages import FINAL, Message, MessageStatus, has_passed
from postroom.domain.messages.messages import LARGEST_BODY as LARGEST_MESSAGE_BODY
from postroom.services.accounts.api_keys import Scope
from postroom.services.idempotency import Begun
from postroom.services.messages.drafts.draft_contents import Content
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.message_rows import MessagePart, MessageSlice
from postroom.services.messages.visible_messages import VisibleMessages
from postroom.services.resources.messages import (
    BodiesResource,
    MessageResource,
    ScheduledMessageResource,
    describe_bodies,
    describe_message,
    describe_scheduled_message,
)
from postroom.storage import InvalidValue
from postroom.storage.codec import decode_token, encode_token
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import (
    IDEMPOTENCY_KEY,
    IF_MATCH,
    LARGEST_BODY,
    PLACE,
    call,
    index_of,
    success,
)
from postroom.web.api.field_types import After, Limit, RefPath
from postroom.web.api.key_rights import is_limited, messages_of, require_right
from postroom.web.api.messages.attachment_models import LARGEST_BODY as LARGEST_ATTACHMENTS
from postroom.web.api.messages.attachment_models import read_attachments
from postroom.web.api.messages.message_models import (
    MessageChange,
    NewMessage,
    content_change,
    storable,
)
from postroom.web.api.routing import (
    ApiRoute,
    author_of,
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
_WITH_BODIES: dict[str, Any] = {LARGEST_BODY: 4 * LARGEST_MESSAGE_BODY + LARGEST_ATTACHMENTS}
_MOST_READS = 1_000  # slices of messages for one response, of which a status may leave few


@router.post(
    "/messages",
    **call(
        Scope.MESSAGES,
        ScheduledMessageResource,
        404,
        409,
        right=ListRight.EDIT,
        status=201,
        with_etag=True,
        headers=IDEMPOTENCY_KEY,
        **_WITH_BODIES,
    ),
)
async def create_message(request: Request, body: NewMessage) -> Response:
    """Schedule a message to the confirmed subscribers of a list, or create a draft.

    With `more_lists`, subscribers of these lists get it, too, each person once: from the first of
    the lists that they are on, whose name and links are in the email.

    With `segment`, only subscribers of that segment get it; those of `exclude_segments` and
    `exclude_lists` do not. Who belongs to them is decided when sending starts.

    Without `scheduled_at`, or with a time in the past, sending starts now; `note` says so for a
    time in the past.

    A message is scheduled even if nobody would receive it now, unless `require_recipients` is set.
    """
    services = services_of(request)
    body.check()
    others = (*(body.more_lists or ()), *(body.exclude_lists or ()))
    concerned = filter(None, (body.list, *others))
    require_right(request, ListRight.EDIT if body.draft else ListRight.SEND, *concerned)

    async def work(begun: Begun | None) -> tuple[int, ScheduledMessageResource]:
        now = datetime.now(UTC) if begun is None else begun.at
        attachments, files = read_attachments(body.attachments or ())
        change = msgspec.structs.replace(content_change(body, now), attachments=attachments)
        ref = None if begun is None else begun.ref
        if body.draft:
            draft = await services.composing.create(
                change, author_of(request), ref=ref, files=files
            )
            return 201, await describe_scheduled(services, draft, None, now)
        if body.require_recipients:
            content = Content(**change.given)
            await services.lists.get(content.list_name)
            await services.estimates.check_has_recipients(content.list_name, content.audience)
        created = await services.composing.create_scheduled(
            change,
            NewBodies(body.html if body.body is None else body.body, body.text),
            storable(body.scheduled_at, now) or now,
            ref=ref,
            files=files,
        )
        return 201, await describe_scheduled(services, created, body.scheduled_at, now)

    return await once(request, work, lambda _, content: respond_created(content))


@router.get(
    "/messages", **call(Scope.MESSAGES, index_of(MessageResource), 404, right=ListRight.VIEW)
)
async def read_messages(
    request: Request,
    status: Annotated[MessageStatus | None, Query(description="Filter by status.")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Return all messages: drafts, then unfinished ones by their time, then finished ones.

    A message that is scheduled or finishes while you read the collection may appear twice.
    """
    services = services_of(request)
    cursor = Cursor(after, IndexName.MESSAGES)
    with cursor.checked():
        page = await _page(messages_of(request), status, limit, cursor.last)
    items = await asyncio.gather(*(describe(services, each) for each in page.messages))
    return respond_with_items(map(with_quotable_etag, items), cursor.next(page.next))


@router.get(
    "/messages/{ref}",
    **call(Scope.MESSAGES, MessageResource, 404, right=ListRight.VIEW, with_etag=True),
)
async def read_message(request: Request, ref: RefPath) -> Response:
    """Return a message with the counts of its emails."""
    services = services_of(request)
    return respond_with_etag(await describe(services, await services.messages.get(ref)))


@router.get(
    "/messages/{ref}/bodies", **call(Scope.MESSAGES, BodiesResource, 404, right=ListRight.VIEW)
)
async def read_bodies(request: Request, ref: RefPath) -> Response:
    """Return the source, the HTML and the text of a message.

    HTML and text are as they are sent. A draft has only what its author wrote.
    """
    services = services_of(request)
    message = await services.messages.get(ref)
    return respond(describe_bodies(message, await services.messages.bodies(message)))


@router.patch(
    "/messages/{ref}",
    **call(
        Scope.MESSAGES,
        ScheduledMessageResource,
        404,
        409,
        412,
        right=ListRight.EDIT,
        with_etag=True,
        headers=IF_MATCH,
        **_WITH_BODIES,
    ),
)
async def change_message(request: Request, ref: RefPath, body: MessageChange) -> Response:
    """Change a message while it is Draft or Pending, or Paused and none of it has been sent.

    Once its recipients are prepared (`queued_at` is set), list, audience and time cannot change.
    `published` alone can be changed at any time.
    """
    services = services_of(request)
    body.check()
    named = (body.list, *(body.more_lists or ()), *(body.exclude_lists or ()))
    await _require_right_to_change(request, ref, *filter(None, named))
    if "list" in body.model_fields_set and not body.list:
        require_right(request, ListRight.EDIT)  # nobody else would see a draft without a list
    etag = await matched(request, ref)
    now = datetime.now(UTC)
    if body.model_fields_set:
        change = content_change(body, now)
        files: dict[str, bytes] = {}
        if body.attachments is not None:
            known = (await services.messages.get(ref)).attachments
            attachments, files = read_attachments(body.attachments, known)
            change = msgspec.structs.replace(change, attachments=attachments)
        saved = await services.composing.change(
            ref, change, author_of(request), etag=etag, files=files
        )
    else:
        saved = await services.messages.get(ref)
    return respond_with_etag(await describe_scheduled(services, saved, body.scheduled_at, now))


@router.delete(
    "/messages/{ref}",
    **call(Scope.MESSAGES, None, 404, 409, 412, right=ListRight.EDIT, headers=IF_MATCH),
)
async def delete_message(request: Request, ref: RefPath) -> Response:
    """Delete a message while it is Draft or Pending."""
    await _require_right_to_change(request, ref)
    await services_of(request).messages.delete(ref, await matched(request, ref))
    return Response(status_code=204)


async def _require_right_to_change(request: Request, ref: str, *new_lists: str) -> None:
    """Raise `NoListRight` unless the key may change a message: one that is not a draft is
    scheduled, and only those who may send to its lists, old and new, decide about it."""
    if not is_limited(request):
        return
    message = await services_of(request).messages.get(ref)
    if message.status is not MessageStatus.DRAFT:
        require_right(request, ListRight.SEND, *message.all_lists, *new_lists)


_CHANGED = call(Scope.MESSAGES, MessageResource, 404, 409, right=ListRight.SEND, with_etag=True)


@router.post("/messages/{ref}/pause", **_CHANGED)
async def pause_message(request: Request, ref: RefPath) -> Response:
    """Pause a message. Emails already in progress finish."""
    return await _changed(request, ref, services_of(request).message_states.pause)


@router.post("/messages/{ref}/resume", **_CHANGED)
async def resume_message(request: Request, ref: RefPath) -> Response:
    """Resume a paused message."""
    return await _changed(request, ref, services_of(request).message_states.resume)


@router.post("/messages/{ref}/cancel", **_CHANGED)
async def cancel_message(request: Request, ref: RefPath) -> Response:
    """Cancel a message permanently. Emails not sent yet will not be sent."""
    return await _changed(request, ref, services_of(request).message_states.cancel)


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
        right=ListRight.SEND,
        with_etag=True,
        also={201: success(MessageResource, "Created.", with_etag=True, is_new=True)},
    ),
)
async def retry_message(request: Request, ref: RefPath) -> Response:
    """Retry deferred emails now, or the refused ones of a finished message.

    For the latter, a new message is created (201): only one, however often this is called.
    """
    services = services_of(request)
    retried = await services.retries.retry(ref)
    described = await describe(services, retried)
    if retried.ref == ref:
        return respond_with_etag(described)
    return respond_created(described)


async def _changed(
    request: Request, ref: str, change: Callable[[str], Awaitable[Message]]
) -> Response:
    return respond_with_etag(await describe(services_of(request), await change(ref)))


def respond_created(content: Any) -> Response:
    """Return a new message: a resource, or its content as an earlier request stored it."""
    ref = content["ref"] if isinstance(content, dict) else content.ref
    return respond_with_etag(content, 201, {"Location": f"{PLACE}/messages/{ref}"})


async def describe(services: Services, message: Message) -> MessageResource:
    state = await services.message_holds.sending_state(message)
    return describe_message(message, state, await services.results.of_message(message))


async def describe_scheduled(
    services: Services, message: Message, wanted: datetime | None, now: datetime
) -> ScheduledMessageResource:
    state = await services.message_holds.sending_state(message)
    passed = wanted is not None and has_passed(wanted, now)
    results = await services.results.of_message(message)
    return describe_scheduled_message(message, state, results, has_passed=passed)


async def matched(request: Request, ref: str) -> str | None:
    async def read() -> Message:
        return await services_of(request).messages.get(ref)

    return await matched_etag(request, "message", ref, read)


def _parts(status: MessageStatus | None) -> tuple[MessagePart, ...]:
    """Return the parts of the index in which messages with this status are."""
    if status is None:
        return tuple(MessagePart)
    if status is MessageStatus.DRAFT:
        return (MessagePart.DRAFTS,)
    # Finished messages are moved to the last part.
    return (MessagePart.OPEN, MessagePart.DONE) if status in FINAL else (MessagePart.OPEN,)


async def _page(
    messages: VisibleMessages, status: MessageStatus | None, limit: int, after: str | None
) -> MessageSlice:
    """Return drafts, then unfinished messages, then finished ones: most messages move in this
    direction, so that none of them is missed."""
    parts = _parts(status)
    part, inner = (parts[0], "")
    if after is not None:
        named, inner = decode_token(after, 2)
        if named not in set(MessagePart):
            raise InvalidValue("the continuation token does not belong to this collection")
        part = MessagePart(named)
    found: list[Message] = []
    seen: set[str] = set()
    for _ in range(_MOST_READS):
        some = await messages.slice(part, limit=limit - len(found), after=inner or None)
        fitting = [m for m in some.messages if (status in (None, m.status)) and m.ref not in seen]
        found += fitting
        seen |= {message.ref for message in fitting}
        inner = some.next or ""
        if not inner:
            following = parts[parts.index(part) + 1 :] if part in parts else ()
            if not following:
                return MessageSlice(found, None)
            part = following[0]
        if len(found) >= limit or messages.has_read_enough:
            break
    return MessageSlice(found, encode_token(part, inner))
