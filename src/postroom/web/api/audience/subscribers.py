"""`/lists/{name}/subscribers`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.consent import BY_API
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import Subscriber
from postroom.domain.errors import Invalid
from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.subscriber_search import SubscriberState
from postroom.services.resources.audience import SubscriberResource, describe_subscriber
from postroom.storage import InvalidKey
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import IF_MATCH, IF_NONE_MATCH, PLACE, call, index_of
from postroom.web.api.field_types import (
    Address,
    AddressPath,
    After,
    Attributes,
    Body,
    Change,
    Flag,
    Limit,
    ListPath,
    Note,
    Reason,
    SegmentName,
)
from postroom.web.api.routing import (
    ApiRoute,
    key_of,
    matched_etag,
    respond_unless_known,
    respond_with_etag,
    respond_with_items,
    services_of,
    with_quotable_etag,
)

router = APIRouter(route_class=ApiRoute, tags=["Subscribers"])


def _address_part(description: str) -> Any:
    return Query(max_length=254, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", description=description)


Prefix = Annotated[str, _address_part("Addresses that begin with this, in upper or lower case.")]
Part = Annotated[str, _address_part("Addresses that contain this, in upper or lower case.")]
_SEARCH_SECONDS = 2.0  # for one response


class NewSubscriber(Body):
    email: Address
    verified: Annotated[
        bool, Field(description="Whether the owner has agreed: no confirmation email is sent.")
    ] = False
    attributes: Annotated[Attributes, Field(default_factory=dict)]


class SubscriberChange(Change):
    """Fields that are left out stay as they are."""

    nullable = frozenset({"blocked"})

    email: Annotated[Address | None, Field(description="The subscriber's new address.")] = None
    verified: bool | None = None
    blocked: Reason | None = None
    attributes: Annotated[
        Attributes | None,
        Field(description="Values of fields to change; null removes one. Other values stay."),
    ] = None
    note: Note | None = None


def _describe(request: Request, subscriber: Subscriber) -> SubscriberResource:
    may_act = key_of(request).may(Scope.SUBSCRIBERS)
    return describe_subscriber(subscriber, with_guid=may_act)


@router.post(
    "/lists/{name}/subscribers",
    **call(
        Scope.SUBSCRIBERS,
        SubscriberResource,
        404,
        409,
        right=ListRight.MANAGE,
        status=201,
        with_etag=True,
    ),
)
async def add_subscriber(request: Request, name: ListPath, body: NewSubscriber) -> Response:
    """Add an address to a list, without a confirmation email. For that, use `/subscribe`."""
    added = await services_of(request).subscriptions.add(
        name, body.email, verified=body.verified, attributes=body.attributes, source=BY_API
    )
    address = quote(added.address, safe="@")
    location = f"{PLACE}/lists/{quote(added.list_name)}/subscribers/{address}"
    return respond_with_etag(_describe(request, added), 201, {"Location": location})


@router.get(
    "/lists/{name}/subscribers",
    **call(Scope.SUBSCRIBERS, index_of(SubscriberResource), 404, right=ListRight.VIEW),
)
async def read_subscribers(
    request: Request,
    name: ListPath,
    verified: Annotated[
        Flag, Query(description="Only confirmed subscribers, or only those who have not confirmed.")
    ] = None,
    prefix: Prefix = "",
    q: Part = "",
    segment: Annotated[
        SegmentName | None, Query(description="Only subscribers of this segment.")
    ] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Return the subscribers of a list, sorted by address.

    With `q` or `segment`, a large list is searched for up to two seconds: there may be fewer items
    than `limit`, or none, although `next` leads to more.
    """
    cursor = Cursor(after, IndexName.SUBSCRIBERS, name)
    try:
        with cursor.checked():
            if q or segment is not None:
                return await _search(request, name, cursor, segment, q, prefix, verified, limit)
            found = await services_of(request).subscriptions.slice(
                name, verified=verified, prefix=prefix, limit=limit, after=cursor.last
            )
    except InvalidKey as exc:
        raise Invalid("prefix", "must be the beginning of an address") from exc
    return _respond_with(request, found.subscribers, cursor.next(found.next))


async def _search(
    request: Request,
    name: str,
    cursor: Cursor,
    segment: str | None,
    part: str,
    prefix: str,
    verified: bool | None,
    limit: int,
) -> Response:
    state = None
    if verified is not None:
        state = SubscriberState.VERIFIED if verified else SubscriberState.UNVERIFIED
    services = services_of(request)
    find = (
        services.search.find if segment is None else partial(services.segments.find, name=segment)
    )
    found = await find(
        name,
        state=state,
        prefix=prefix,
        contains=part,
        limit=limit,
        after=cursor.last or "",
        seconds=_SEARCH_SECONDS,
    )
    return _respond_with(request, found.subscribers, cursor.next(found.next))


def _respond_with(
    request: Request, subscribers: Iterable[Subscriber], following: str | None
) -> Response:
    items = (with_quotable_etag(_describe(request, each)) for each in subscribers)
    return respond_with_items(items, following)


@router.get(
    "/lists/{name}/subscribers/{email:path}",
    **call(
        Scope.SUBSCRIBERS,
        SubscriberResource,
        404,
        right=ListRight.VIEW,
        with_etag=True,
        headers=IF_NONE_MATCH,
    ),
)
async def read_subscriber(request: Request, name: ListPath, email: AddressPath) -> Response:
    """Return a subscriber."""
    found = await services_of(request).subscriptions.get(name, email)
    return respond_unless_known(request, _describe(request, found))


@router.patch(
    "/lists/{name}/subscribers/{email:path}",
    **call(
        Scope.SUBSCRIBERS,
        SubscriberResource,
        404,
        409,
        412,
        right=ListRight.MANAGE,
        with_etag=True,
        headers=IF_MATCH,
    ),
)
async def change_subscriber(
    request: Request,
    name: ListPath,
    email: AddressPath,
    body: SubscriberChange,
) -> Response:
    """Verify, block or unblock a subscriber, or change their attributes, note or address.

    With a new address, the subscriber's links still work.
    """
    subscriptions = services_of(request).subscriptions
    etag = await _matched(request, name, email)
    if not body.model_fields_set:
        return respond_with_etag(_describe(request, await subscriptions.get(name, email)))
    if body.email is not None:
        moved = await subscriptions.change_address(name, email, body.email, etag, BY_API)
        email, etag = moved.address, moved.etag
    unblocks = "blocked" in body.model_fields_set and body.blocked is None
    saved = await subscriptions.edit(
        name,
        email,
        verified=body.verified,
        blocked="" if unblocks else body.blocked,
        attributes=body.attributes,
        note=body.note,
        etag=etag,
        source=BY_API,
    )
    return respond_with_etag(_describe(request, saved))


@router.delete(
    "/lists/{name}/subscribers/{email:path}",
    **call(Scope.SUBSCRIBERS, None, 404, 409, 412, right=ListRight.MANAGE, headers=IF_MATCH),
)
async def remove_subscriber(request: Request, name: ListPath, email: AddressPath) -> Response:
    """Remove an address from a list."""
    etag = await _matched(request, name, email)
    await services_of(request).subscriptions.remove(name, email, etag, BY_API)
    return Response(status_code=204)


async def _matched(request: Request, name: str, email: str) -> str | None:
    async def read() -> Subscriber:
        return await services_of(request).subscriptions.get(name, email)

    return await matched_etag(request, "subscriber", email, read)
