"""`/lists`."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists import MailingList
from postroom.services import shapes
from postroom.services.accounts.api_keys import Scope
from postroom.web.api.docs.documenting import IF_MATCH, IF_NONE_MATCH, problems, readable, tagged
from postroom.web.api.etags import matched_etag
from postroom.web.api.fields import After, Limit, ListPath
from postroom.web.api.models import ListChange, NewList
from postroom.web.api.paging import Kind, Place
from postroom.web.api.results import Index, MailingListResult
from postroom.web.api.routing import (
    ApiRoute,
    index,
    resource,
    scoped,
    services_of,
    unless_known,
    with_shown_etag,
)

router = APIRouter(route_class=ApiRoute, tags=["Lists"])
_NEEDS: dict[str, Any] = scoped(Scope.LISTS)


@router.post(
    "/lists",
    status_code=201,
    response_model=MailingListResult,
    responses=tagged(201, problems(409), located=True),
    openapi_extra=_NEEDS,
)
async def create_list(request: Request, body: NewList) -> Response:
    """Make a list."""
    services = services_of(request)
    made = await services.lists.create(
        body.name,
        body.description,
        body.from_address,
        public=body.public,
        language=body.language,
        postal_address=body.postal_address,
    )
    return resource(shapes.of_list(made), 201, {"Location": f"/api/v1/lists/{quote(made.name)}"})


@router.get(
    "/lists",
    response_model=Index[MailingListResult],
    responses=problems(404),
    openapi_extra=_NEEDS,
)
async def read_lists(request: Request, limit: Limit = 100, after: After = None) -> Response:
    """The lists, in the order of their names."""
    place = Place(after, Kind.LISTS)
    with place.checked():
        page = await services_of(request).lists.page(limit=limit, after=place.last)
    shown = (with_shown_etag(shapes.of_list(each)) for each in page.lists)
    return index(shown, place.next(page.next))


@router.get(
    "/lists/{name}",
    response_model=MailingListResult,
    responses=readable(problems(404)),
    openapi_extra={**_NEEDS, **IF_NONE_MATCH},
)
async def read_list(request: Request, name: ListPath) -> Response:
    """One list."""
    return unless_known(request, shapes.of_list(await services_of(request).lists.get(name)))


@router.patch(
    "/lists/{name}",
    response_model=MailingListResult,
    responses=tagged(200, problems(404, 409, 412)),
    openapi_extra={**_NEEDS, **IF_MATCH},
)
async def change_list(request: Request, name: ListPath, body: ListChange) -> Response:
    """Change a list."""
    etag = await _matched(request, name)
    if not body.model_fields_set:
        return resource(shapes.of_list(await services_of(request).lists.get(name)))
    saved = await services_of(request).lists.edit(
        name,
        description=body.description,
        from_address=body.from_address,
        public=body.public,
        language=body.language,
        postal_address=body.postal_address,
        etag=etag,
    )
    return resource(shapes.of_list(saved))


@router.delete(
    "/lists/{name}",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409, 412),
    openapi_extra={**_NEEDS, **IF_MATCH},
)
async def delete_list(request: Request, name: ListPath) -> Response:
    """Delete a list with all its subscribers: not while a message for it is not done."""
    await services_of(request).lists.delete(name, await _matched(request, name))
    return Response(status_code=204)


async def _matched(request: Request, name: str) -> str | None:
    async def read() -> MailingList:
        return await services_of(request).lists.get(name)

    return await matched_etag(request, "list", name, read)
