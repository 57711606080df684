"""`/queues`: what waits in them, and the way back of what was put aside."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path
from pydantic import AfterValidator, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.errors import NoSuch
from postroom.domain.queues.queue_names import LONGEST, is_retry
from postroom.services import shapes
from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.guid_hiding import hide_in_message
from postroom.services.queues.queue_access import Right
from postroom.storage import InvalidName
from postroom.storage.names import check_queue_name
from postroom.web.api.docs.documenting import problems
from postroom.web.api.fields import After, Limit
from postroom.web.api.models import NewQueueMessage, Redrive
from postroom.web.api.paging import Kind, Place
from postroom.web.api.results import (
    Index,
    PutResult,
    QueueMessageResult,
    QueueResult,
    RedriveResult,
)
from postroom.web.api.routing import (
    ApiRoute,
    answer,
    context_of,
    index,
    key_of,
    scoped,
    services_of,
)

router = APIRouter(route_class=ApiRoute, tags=["Queues"])
_NEEDS: dict[str, Any] = scoped(Scope.QUEUES)


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


@router.get(
    "/queues",
    response_model=Index[QueueResult],
    responses=problems(404),
    openapi_extra=_NEEDS,
)
async def read_queues(request: Request, limit: Limit = 100, after: After = None) -> Response:
    """The queues in the order of their names: what waits in them, and which application takes it.

    Subqueues (`;retry`, `;poison`, `;dead-letter`) are counted with their queue.
    """
    place = Place(after, Kind.QUEUES)
    queues = await services_of(request).queue_overview.overview()
    found = [each for each in queues if each.name > (place.last or "")]
    last = found[limit - 1].name if len(found) > limit else None
    return index(map(shapes.of_queue_overview, found[:limit]), place.next(last))


@router.get(
    "/queues/{name:path}/messages",
    response_model=Index[QueueMessageResult],
    responses=problems(404),
    openapi_extra=_NEEDS,
)
async def read_queue(
    request: Request, name: QueuePath, limit: Limit = 100, after: After = None
) -> Response:
    """The messages of a queue in the order of their arrival, untouched.

    Those that are delayed, or in somebody's hands, are there, too: `is_ready` tells them apart.
    Poison messages are in `NAME;poison`. In `mail/confirm`, subscribers' GUIDs are hidden from keys
    without the scope `subscribers`. A store on Azure can only show the next 32 that are ready.
    """
    place = Place(after, Kind.QUEUE_MESSAGES, name)
    with place.checked():
        page = await services_of(request).queues.page(
            name, limit=limit, after=place.last, principal=key_of(request).principal
        )
    now, messages = datetime.now(UTC), page.messages
    if not key_of(request).may(Scope.SUBSCRIBERS):
        messages = [
            msgspec.structs.replace(each, message=hide_in_message(each.message))
            for each in messages
        ]
    shown = (shapes.of_stored_message(each, now) for each in messages)
    return index(shown, place.next(page.next))


@router.post(
    "/queues/{name:path}/messages",
    status_code=201,
    response_model=PutResult,
    responses=problems(404, 409),
    openapi_extra=_NEEDS,
)
async def put_message(request: Request, name: QueuePath, body: NewQueueMessage) -> Response:
    """Put a message into a queue, which is made if it is not there.

    Body and properties together have up to 48,000 bytes. Queues that control Postroom itself take
    no messages.
    """
    made = await services_of(request).queues.put(
        name,
        body.body,
        delay=body.delay,
        ttl=body.ttl,
        properties=body.properties,
        principal=key_of(request).principal,
    )
    return answer({"id": made}, 201)


@router.post(
    "/queues/{name:path}/redrive",
    response_model=RedriveResult,
    responses={
        202: {"model": RedriveResult, "description": "Goes on at the rate that was asked for."},
        **problems(404, 409),
    },
    openapi_extra=_NEEDS,
)
async def redrive(request: Request, name: QueuePath, body: Redrive | None = None) -> Response:
    """Bring poison messages back to their queue: all, or one by its id.

    Named with its suffix, `NAME;dead-letter` is redriven instead. With a rate this answers at once,
    and goes on by itself.
    """
    services, principal = services_of(request), key_of(request).principal
    wanted = body or Redrive()
    source = None if wanted.dead_letter_queue is None else _queue(wanted.dead_letter_queue)
    if is_retry(name):
        raise NoSuch("poison queue", name)  # messages come back from there by themselves
    if wanted.rate is None or wanted.id is not None:
        moved = await services.queues.redrive(
            name, id=wanted.id, source=source, principal=principal
        )
        return answer({"redriven": moved, "is_over": True})
    await services.access.check(principal, Right.MANAGE, name)
    if source is not None:
        await services.access.check(principal, Right.MANAGE, source)
    context_of(request).redrives.start(name, rate=wanted.rate, source=source)
    return answer({"redriven": 0, "is_over": False}, 202)
