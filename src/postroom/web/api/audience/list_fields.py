"""`/lists/{name}/fields` and `/fields`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path
from fastapi import Body as InBody
from pydantic import Field as Limits
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import LONGEST_TEXT, MOST_FIELDS, Field
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import EVERY_LIST
from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.fields.list_fields import DeclaredFields
from postroom.services.resources.audience import FieldResource, describe_field
from postroom.web.api.documenting import IF_MATCH, call
from postroom.web.api.field_types import Body, ListPath, Text
from postroom.web.api.routing import ApiRoute, etag_header, matched_etag, respond, services_of

FieldPath = Annotated[str, Path(description="The current name of the field.")]

_RENAMING_SECONDS: Final = 2.0

router = APIRouter(route_class=ApiRoute, tags=["Lists"])


class NewField(Body):
    name: Annotated[Text, Limits(description="As rules and merge fields write it: `first_name`.")]
    type: Annotated[FieldType, Limits(strict=False)] = FieldType.TEXT
    label: Annotated[
        Text | dict[str, Text] | None,
        Limits(
            description="What forms show; by default derived from the name. An object has a text"
            ' for each language: `{"en": "City", "de": "Stadt"}`.'
        ),
    ] = ""
    required: bool = False
    public: Annotated[bool, Limits(description="Whether subscribers see it and may change it.")] = (
        False
    )
    default: Annotated[
        Any, Limits(description="What emails show for subscribers without a value.")
    ] = None
    choices: list[Text] | None = None
    max_length: Annotated[int, Limits(ge=1, le=LONGEST_TEXT)] = LONGEST_TEXT


@router.get(
    "/lists/{name}/fields",
    **call(Scope.LISTS, list[FieldResource], 404, right=ListRight.VIEW, with_etag=True),
)
async def read_fields(request: Request, name: ListPath) -> Response:
    """Return the fields that a list declares itself; `GET /fields` returns those of all lists.

    Every list also has `email`, `first_name`, `last_name`, `language`, `source` and `joined`.
    """
    return _respond(await services_of(request).fields.get(name))


@router.put(
    "/lists/{name}/fields",
    **call(
        Scope.LISTS,
        list[FieldResource],
        404,
        409,
        412,
        right=ListRight.MANAGE,
        with_etag=True,
        headers=IF_MATCH,
    ),
)
async def declare_fields(
    request: Request,
    name: ListPath,
    body: Annotated[list[NewField], InBody(max_length=MOST_FIELDS)],
) -> Response:
    """Replace the fields of a list.

    The values of a field that is left out are hidden, and reappear with the field.
    """
    return await _declare(request, name, body)


async def _declare(request: Request, name: str, body: list[NewField]) -> Response:
    service = services_of(request).fields

    async def read() -> DeclaredFields:
        return await service.get(name)

    etag = await matched_etag(request, "list", name, read)
    fields = [
        Field(
            **{
                **each.model_dump(),
                "label": each.label or "",
                "choices": tuple(each.choices or ()),
            }
        )
        for each in body
    ]
    return _respond(await service.declare(name, fields, etag))


class NewName(Body):
    """The new name of a field."""

    name: Annotated[Text, Limits(description="As rules and merge fields write it.")]


@router.post(
    "/lists/{name}/fields/{field}/rename",
    **call(Scope.LISTS, FieldResource, 404, 409, right=ListRight.MANAGE),
)
async def rename_field(
    request: Request, name: ListPath, field: FieldPath, body: NewName
) -> Response:
    """Rename a field, with its values and in the rules of segments.

    The values of many subscribers are renamed in the background; until then, both names find them.
    """
    return await _rename(request, name, field, body)


async def _rename(request: Request, name: str, field: str, body: NewName) -> Response:
    changes = services_of(request).field_changes
    renamed = await changes.rename(name, field, body.name)
    with contextlib.suppress(TimeoutError):  # the scheduler finishes it
        async with asyncio.timeout(_RENAMING_SECONDS):
            await changes.finish_rename(name)
    return respond(describe_field(renamed))


@router.get("/fields", **call(Scope.LISTS, list[FieldResource], with_etag=True))
async def read_shared_fields(request: Request) -> Response:
    """Return the fields of all lists, which apply to each of them."""
    return _respond(await services_of(request).fields.get(EVERY_LIST))


@router.put(
    "/fields", **call(Scope.LISTS, list[FieldResource], 409, 412, with_etag=True, headers=IF_MATCH)
)
async def declare_shared_fields(
    request: Request, body: Annotated[list[NewField], InBody(max_length=MOST_FIELDS)]
) -> Response:
    """Replace the fields of all lists. No list may declare a field with the same name.

    The values of a field that is left out are hidden, and reappear with the field.
    """
    return await _declare(request, EVERY_LIST, body)


@router.post("/fields/{field}/rename", **call(Scope.LISTS, FieldResource, 404, 409))
async def rename_shared_field(request: Request, field: FieldPath, body: NewName) -> Response:
    """Rename a field of all lists, with its values and in the rules of segments."""
    return await _rename(request, EVERY_LIST, field, body)


def _respond(declared: DeclaredFields) -> Response:
    items = [describe_field(each) for each in declared.fields.own]
    return respond(items, headers=etag_header(declared.etag))
