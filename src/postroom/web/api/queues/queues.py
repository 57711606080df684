"""`/queues`: what is waiting in them, and moving poison messages back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path
from pydantic import AfterValidator, Field, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.errors import NoSuch
from postroom.domain.queues.queue_names import LONGEST, is_retry
from postroom.services.accounts.api_keys import Scope
from postroom.services.queues.queue_access import Right, hide_in_message
from postroom.services.resources.queues import (
    PutResource,
    QueueResource,
    RedriveResource,
    StoredMessageResource,
    describe_queue,
    describe_stored_message,
)
from postroom.storage import InvalidName
from postroom.storage.limits import QUEUE_SECONDS
from postroom.storage.names import check_queue_name
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import call, index_of, success
from postroom.web.api.field_types import WITHOUT_NUL, After, Body, Limit, Text, storable
from postroom.web.api.routing import (
    ApiRoute,
    context_of,
    key_of,
    respond,
    respond_with_items,
    services_of,
)

router = APIRouter(route_class=ApiRoute, tags=["Queues"])
LONGEST_TTL = 36_500 * 86_400.0  # seconds: a hundred years


def _queue(text: str) -> str:
    try:
        check_queue_name(text)
    except InvalidName as exc:
        raise NoSuch("queue", text) from exc
    if len(text) > LONGEST:
        raise NoSuch("queue", text)
    return text


QueuePath = Annotated[
    str,
    Path(description="The queue's name, percent-encoded: `mail%2Fsend`."),
    AfterValidator(_queue),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^[^\\u0000-\\u001f\\u007f-\\u009f]{{1,{LONGEST}}}$",
            "examples": ["shop/orders"],
        }
    ),
]


def _check_names(properties: dict[str, str]) -> dict[str, str]:
    for name in properties:
        storable(name)
    return properties


class NewQueueMessage(Body):
    body: Annotated[Text, Field(examples=["order 1"])]
    delay: Annotated[
        float,
        Field(
            ge=0, le=QUEUE_SECONDS, allow_inf_nan=False, description="Seconds until it is ready."
        ),
    ] = 0.0
    ttl: Annotated[
        float | None,
        Field(
            ge=1,
            le=LONGEST_TTL,
            allow_inf_nan=False,
            description="Seconds until it expires: after that it is not delivered.",
        ),
    ] = None
    properties: Annotated[
        dict[str, Text],
        AfterValidator(_check_names),
        WithJsonSchema(
            {
                "type": "object",
                "description": "Delivered with the body.",
                "propertyNames": WITHOUT_NUL,
                "additionalProperties": WITHOUT_NUL,
            }
        ),
    ] = Field(default_factory=dict)


class Redrive(Body):
    """All fields are optional: without them, all messages move back immediately."""

    id: Annotated[str | None, Field(description="Only this message.")] = None
    rate: Annotated[
        float | None,
        Field(ge=0.001, le=1_000_000, allow_inf_nan=False, description="Messages per second."),
    ] = None
    dead_letter_queue: Annotated[
        Text | None,
        Field(description="The sender's own dead-letter queue: only what was rejected into it."),
    ] = None


@router.get("/queues", **call(Scope.QUEUES, index_of(QueueResource), 404))
async def read_queues(request: Request, limit: Limit = 100, after: After = None) -> Response:
    """Return all queues, sorted by name, with their counts and the application of each.

    Subqueues (`;retry`, `;poison`, `;dead-letter`) are counted with their queue.
    """
    cursor = Cursor(after, IndexName.QUEUES)
    queues = await services_of(request).queue_overview.overview()
    found = [each for each in queues if each.name > (cursor.last or "")]
    last = found[limit - 1].name if len(found) > limit else None
    return respond_with_items(map(describe_queue, found[:limit]), cursor.next(last))


@router.get(
    "/queues/{name:path}/messages", **call(Scope.QUEUES, index_of(StoredMessageResource), 404)
)
async def read_queue(
    request: Request, name: QueuePath, limit: Limit = 100, after: After = None
) -> Response:
    """Return the messages of a queue in order of arrival, without receiving them.

    Delayed and leased messages are included; `is_ready` tells them apart. Poison messages are in
    `NAME;poison`. In `mail/confirm`, subscribers' GUIDs are hidden from keys without the scope
    `subscribers`. On Azure Storage only the next 32 ready messages can be shown.
    """
    cursor = Cursor(after, IndexName.QUEUE_MESSAGES, name)
    with cursor.checked():
        found = await services_of(request).queues.slice(
            name, limit=limit, after=cursor.last, principal=key_of(request).principal
        )
    now, messages = datetime.now(UTC), found.messages
    if not key_of(request).may(Scope.SUBSCRIBERS):
        messages = [
            msgspec.structs.replace(each, message=hide_in_message(each.message))
            for each in messages
        ]
    items = (describe_stored_message(each, now) for each in messages)
    return respond_with_items(items, cursor.next(found.next))


@router.post(
    "/queues/{name:path}/messages",
    **call(Scope.QUEUES, PutResource, 404, 409, status=201),
)
async def put_message(request: Request, name: QueuePath, body: NewQueueMessage) -> Response:
    """Put a message into a queue, which is created if it does not exist.

    Body and properties together have at most 48,000 bytes. Queues that control Postroom itself
    refuse messages.
    """
    message_id = await services_of(request).queues.put(
        name,
        body.body,
        delay=body.delay,
        ttl=body.ttl,
        properties=body.properties,
        principal=key_of(request).principal,
    )
    return respond(PutResource(message_id), 201)


@router.post(
    "/queues/{name:path}/redrive",
    **call(
        Scope.QUEUES,
        RedriveResource,
        404,
        409,
        also={202: success(RedriveResource, "Accepted: continues at the given rate.")},
    ),
)
async def redrive(request: Request, name: QueuePath, body: Redrive | None = None) -> Response:
    """Move poison messages back to their queue: all, or one by its id.

    `NAME;dead-letter`, named with its suffix, is redriven instead. With a rate, the call returns
    immediately and continues in the background.
    """
    services, principal = services_of(request), key_of(request).principal
    wanted = body or Redrive()
    source = None if wanted.dead_letter_queue is None else _queue(wanted.dead_letter_queue)
    if is_retry(name):
        raise NoSuch("poison queue", name)  # messages return from there automatically
    if wanted.rate is None or wanted.id is not None:
        moved = await services.queues.redrive(
            name, id=wanted.id, source=source, principal=principal
        )
        return respond(RedriveResource(moved, is_over=True))
    await services.access.check(principal, Right.MANAGE, name)
    if source is not None:
        await services.access.check(principal, Right.MANAGE, source)
    context_of(request).redrives.start(name, rate=wanted.rate, source=source)
    return respond(RedriveResource(0, is_over=False), 202)
