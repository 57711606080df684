"""`/lists/{name}/subscribers`."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists import Subscriber
from postroom.domain.errors import Invalid
from postroom.services import shapes
from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.subscriber_search import SubscriberState
from postroom.storage import InvalidKey
from postroom.web.api.docs.documenting import IF_MATCH, IF_NONE_MATCH, problems, readable, tagged
from postroom.web.api.etags import matched_etag
from postroom.web.api.fields import AddressPath, After, IsVerified, Limit, ListPath
from postroom.web.api.models import NewSubscriber, SubscriberChange
from postroom.web.api.paging import Kind, Place
from postroom.web.api.results import Index, SubscriberResult
from postroom.web.api.routing import (
    ApiRoute,
    index,
    key_of,
    resource,
    scoped,
    services_of,
    unless_known,
    with_shown_etag,
)

router = APIRouter(route_class=ApiRoute, tags=["Subscribers"])
_NEEDS: dict[str, Any] = scoped(Scope.SUBSCRIBERS)

Prefix = Annotated[
    str,
    Query(
        max_length=254,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]*$",
        description="Only addresses that begin with this, in upper or lower case.",
    ),
]
Part = Annotated[
    str,
    Query(
        max_length=254,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]*$",
        description="Only addresses that have this anywhere, in upper or lower case.",
    ),
]
_SECONDS = 2.0  # of one look through a list for a part of an address


def _shown(request: Request, subscriber: Subscriber) -> dict[str, Any]:
    may_act = key_of(request).may(Scope.SUBSCRIBERS)
    return shapes.of_subscriber(subscriber, with_guid=may_act)


@router.post(
    "/lists/{name}/subscribers",
    status_code=201,
    response_model=SubscriberResult,
    responses=tagged(201, problems(404, 409), located=True),
    openapi_extra=_NEEDS,
)
async def add_subscriber(request: Request, name: ListPath, body: NewSubscriber) -> Response:
    """Put an address on a list. Nobody is asked: for that there is `/subscribe`."""
    added = await services_of(request).subscriptions.add(name, body.email, verified=body.verified)
    address = quote(added.address, safe="@")
    location = f"/api/v1/lists/{quote(added.list_name)}/subscribers/{address}"
    return resource(_shown(request, added), 201, {"Location": location})


@router.get(
    "/lists/{name}/subscribers",
    response_model=Index[SubscriberResult],
    responses=problems(404),
    openapi_extra=_NEEDS,
)
async def read_subscribers(
    request: Request,
    name: ListPath,
    verified: IsVerified = None,
    prefix: Prefix = "",
    q: Part = "",
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Return the subscribers of a list, in the order of their addresses.

    With `q`, a large list is searched for up to two seconds: there may be fewer items than `limit`,
    or none, although `next` leads to more.
    """
    place = Place(after, Kind.SUBSCRIBERS, name)
    try:
        with place.checked():
            if q:
                return await _search(request, name, place, q, prefix, verified, limit)
            page = await services_of(request).subscriptions.page(
                name, verified=verified, prefix=prefix, limit=limit, after=place.last
            )
    except InvalidKey as exc:
        raise Invalid("prefix", "no address begins like this") from exc
    shown = (with_shown_etag(_shown(request, each)) for each in page.subscribers)
    return index(shown, place.next(page.next))


async def _search(
    request: Request,
    name: str,
    place: Place,
    part: str,
    prefix: str,
    verified: bool | None,
    limit: int,
) -> Response:
    state = None
    if verified is not None:
        state = SubscriberState.VERIFIED if verified else SubscriberState.UNVERIFIED
    found = await services_of(request).search.find(
        name,
        state=state,
        prefix=prefix,
        contains=part,
        limit=limit,
        after=place.last or "",
        seconds=_SECONDS,
    )
    shown = (with_shown_etag(shapes.of_subscriber(each)) for each in found.subscribers)
    return index(shown, place.next(found.next))


@router.get(
    "/lists/{name}/subscribers/{email:path}",
    response_model=SubscriberResult,
    responses=readable(problems(404)),
    openapi_extra={**_NEEDS, **IF_NONE_MATCH},
)
async def read_subscriber(request: Request, name: ListPath, email: AddressPath) -> Response:
    """One subscriber."""
    found = await services_of(request).subscriptions.get(name, email)
    return unless_known(request, _shown(request, found))


@router.patch(
    "/lists/{name}/subscribers/{email:path}",
    response_model=SubscriberResult,
    responses=tagged(200, problems(404, 409, 412)),
    openapi_extra={**_NEEDS, **IF_MATCH},
)
async def change_subscriber(
    request: Request,
    name: ListPath,
    email: AddressPath,
    body: SubscriberChange,
) -> Response:
    """Verify, block or unblock a subscriber, or give it another address.

    Its links go on working with another address.
    """
    subscriptions = services_of(request).subscriptions
    etag = await _matched(request, name, email)
    if not body.model_fields_set:
        return resource(_shown(request, await subscriptions.get(name, email)))
    if body.email is not None:
        moved = await subscriptions.change_address(name, email, body.email, etag)
        email, etag = moved.address, moved.etag
    unblocks = "blocked" in body.model_fields_set and body.blocked is None
    saved = await subscriptions.edit(
        name,
        email,
        verified=body.verified,
        blocked="" if unblocks else body.blocked,
        etag=etag,
    )
    return resource(_shown(request, saved))


@router.delete(
    "/lists/{name}/subscribers/{email:path}",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409, 412),
    openapi_extra={**_NEEDS, **IF_MATCH},
)
async def remove_subscriber(request: Request, name: ListPath, email: AddressPath) -> Response:
    """Take an address off a list."""
    etag = await _matched(request, name, email)
    await services_of(request).subscriptions.remove(name, email, etag)
    return Response(status_code=204)


async def _matched(request: Request, name: str, email: str) -> str | None:
    async def read() -> Subscriber:
        return await services_of(request).subscriptions.get(name, email)

    return await matched_etag(request, "subscriber", email, read)
