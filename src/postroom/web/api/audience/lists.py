"""`/lists`."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter
from pydantic import AfterValidator, Field, WithJsonSchema, create_model
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_property import Input, ListProperty
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import PROPERTIES, MailingList
from postroom.services.accounts.api_keys import Scope
from postroom.services.resources.audience import ListResource, describe_list
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import IF_MATCH, IF_NONE_MATCH, PLACE, call, index_of
from postroom.web.api.field_types import (
    Address,
    After,
    Body,
    Change,
    Limit,
    ListPath,
    NewListName,
    checked_text,
    line,
    lines,
)
from postroom.web.api.key_rights import lists_of
from postroom.web.api.routing import (
    ApiRoute,
    matched_etag,
    respond_unless_known,
    respond_with_etag,
    respond_with_items,
    services_of,
    with_quotable_etag,
)

router = APIRouter(route_class=ApiRoute, tags=["Lists"])


_COLOUR = "^(#?([0-9A-Fa-f]{6}|[0-9A-Fa-f]{3}))?$"


def _type(of: ListProperty) -> Any:
    described = Field(description=of.help)
    match of.input:
        case Input.LINE:
            return line(of.longest, of.help, of.example)
        case Input.LINES:
            return lines(of.longest, of.help, of.example)
        case Input.ADDRESS if of.is_required:
            return Annotated[Address, described]
        case Input.COLOUR:
            return checked_text(of.check, of.longest, of.help, of.example, pattern=_COLOUR)
        case Input.ADDRESS | Input.LINK | Input.LINKS:
            return checked_text(of.check, of.longest, of.help, of.example)
        case Input.CHOICE:
            schema = {"type": "string", "enum": list(of.choices), "description": of.help}
            return Annotated[str, AfterValidator(of.check), WithJsonSchema(schema)]
        case Input.FLAG:
            return Annotated[bool, described]


_IN_API = {name: each for name, each in PROPERTIES.items() if each.in_api}

_new: dict[str, Any] = {
    name: (_type(each), ... if each.is_required else each.default) for name, each in _IN_API.items()
}
_changes: dict[str, Any] = {name: (_type(each) | None, None) for name, each in _IN_API.items()}
NewList: Any = create_model("NewList", __base__=Body, name=(NewListName, ...), **_new)
ListChange: Any = create_model(
    "ListChange",
    __base__=Change,
    __doc__="Fields that are left out stay as they are.",
    **_changes,
)


@router.post("/lists", **call(Scope.LISTS, ListResource, 409, status=201, with_etag=True))
async def create_list(request: Request, body: NewList) -> Response:
    """Create a list."""
    created = await services_of(request).lists.create(**body.model_dump())
    location = f"{PLACE}/lists/{quote(created.name)}"
    return respond_with_etag(describe_list(created), 201, {"Location": location})


@router.get("/lists", **call(Scope.LISTS, index_of(ListResource), 404, right=ListRight.VIEW))
async def read_lists(request: Request, limit: Limit = 100, after: After = None) -> Response:
    """Return all lists, sorted by name."""
    cursor = Cursor(after, IndexName.LISTS)
    with cursor.checked():
        found = await lists_of(request).slice(limit=limit, after=cursor.last)
    items = (with_quotable_etag(describe_list(each)) for each in found.lists)
    return respond_with_items(items, cursor.next(found.next))


@router.get(
    "/lists/{name}",
    **call(
        Scope.LISTS, ListResource, 404, right=ListRight.VIEW, with_etag=True, headers=IF_NONE_MATCH
    ),
)
async def read_list(request: Request, name: ListPath) -> Response:
    """Return a list."""
    return respond_unless_known(request, describe_list(await services_of(request).lists.get(name)))


@router.patch(
    "/lists/{name}",
    **call(
        Scope.LISTS,
        ListResource,
        404,
        409,
        412,
        right=ListRight.MANAGE,
        with_etag=True,
        headers=IF_MATCH,
    ),
)
async def change_list(request: Request, name: ListPath, body: ListChange) -> Response:
    """Change a list."""
    etag = await _matched(request, name)
    changes = body.model_dump(exclude_unset=True)
    lists = services_of(request).lists
    saved = await lists.edit(name, etag=etag, **changes) if changes else await lists.get(name)
    return respond_with_etag(describe_list(saved))


@router.delete(
    "/lists/{name}",
    **call(Scope.LISTS, None, 404, 409, 412, right=ListRight.MANAGE, headers=IF_MATCH),
)
async def delete_list(request: Request, name: ListPath) -> Response:
    """Delete a list with all its subscribers. Refused while one of its messages is unfinished."""
    await services_of(request).lists.delete(name, await _matched(request, name))
    return Response(status_code=204)


async def _matched(request: Request, name: str) -> str | None:
    async def read() -> MailingList:
        return await services_of(request).lists.get(name)

    return await matched_etag(request, "list", name, read)
