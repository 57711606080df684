"""`/lists/{name}/fields`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from fastapi import Body as InBody
from pydantic import Field as Limits
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import LONGEST_TEXT, MOST_FIELDS, Field
from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.list_fields import DeclaredFields
from postroom.services.resources.audience import FieldResource, describe_field
from postroom.web.api.documenting import IF_MATCH, call
from postroom.web.api.fields import Body, ListPath, Text
from postroom.web.api.routing import ApiRoute, etag_header, matched_etag, respond, services_of

router = APIRouter(route_class=ApiRoute, tags=["Lists"])


class NewField(Body):
    name: Annotated[Text, Limits(description="As rules and merge fields write it: `first_name`.")]
    type: Annotated[FieldType, Limits(strict=False)] = FieldType.TEXT
    label: Annotated[
        Text | dict[str, Text],
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
    choices: Annotated[list[Text], Limits(default_factory=list)]
    max_length: Annotated[int, Limits(ge=1, le=LONGEST_TEXT)] = LONGEST_TEXT


@router.get("/lists/{name}/fields", **call(Scope.LISTS, list[FieldResource], 404, with_etag=True))
async def read_fields(request: Request, name: ListPath) -> Response:
    """Return the fields that a list declares.

    Every list also has `email`, `first_name`, `last_name`, `language`, `source` and `joined`.
    """
    return _respond(await services_of(request).fields.get(name))


@router.put(
    "/lists/{name}/fields",
    **call(Scope.LISTS, list[FieldResource], 404, 409, 412, with_etag=True, headers=IF_MATCH),
)
async def declare_fields(
    request: Request,
    name: ListPath,
    body: Annotated[list[NewField], InBody(max_length=MOST_FIELDS)],
) -> Response:
    """Replace the fields of a list.

    The values of a field that is left out are hidden, and reappear with the field.
    """
    service = services_of(request).fields

    async def read() -> DeclaredFields:
        return await service.get(name)

    etag = await matched_etag(request, "list", name, read)
    fields = [Field(**{**each.model_dump(), "choices": tuple(each.choices)}) for each in body]
    return _respond(await service.declare(name, fields, etag))


def _respond(declared: DeclaredFields) -> Response:
    items = [describe_field(each) for each in declared.fields.declared]
    return respond(items, headers=etag_header(declared.etag))
