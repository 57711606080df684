"""`/subscribe`: called by a client's web site."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import AliasChoices, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.consent import BY_API
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.services.accounts.api_keys import Scope
from postroom.services.idempotency import Begun
from postroom.services.resources.audience import SignUpResource
from postroom.web.api.documenting import IDEMPOTENCY_KEY, call, success
from postroom.web.api.field_types import Address, Attributes, Body, Language, ListName
from postroom.web.api.routing import ApiRoute, once, services_of

router = APIRouter(route_class=ApiRoute, tags=["Sign-up"])


def _document_both_names(schema: dict[str, Any]) -> None:
    properties = schema["properties"]
    properties["email"] = {**properties["email_address"], "title": "Email"}
    properties["list"] = {**properties["list_name"], "title": "List"}
    del schema["required"]
    schema["allOf"] = [
        {"oneOf": [{"required": ["email_address"]}, {"required": ["email"]}]},
        {"oneOf": [{"required": ["list_name"]}, {"required": ["list"]}]},
    ]
    schema["examples"] = [{"email_address": "ann@example.com", "list_name": "contoso1"}]


class SignUp(Body):
    """An address as `email_address` or `email`, and a list as `list_name` or `list`."""

    model_config = ConfigDict(strict=True, extra="forbid", json_schema_extra=_document_both_names)

    email: Annotated[Address, Field(validation_alias=AliasChoices("email_address", "email"))]
    list: Annotated[ListName, Field(validation_alias=AliasChoices("list_name", "list"))]
    language: Annotated[
        Language | None,
        Field(description="The language of the confirmation email; by default the list's."),
    ] = None
    attributes: Annotated[
        Attributes,
        Field(
            default_factory=dict,
            description="Values of the list's public fields. They apply once the address is"
            " confirmed; those of a subscriber who has already confirmed stay as they are.",
        ),
    ]


@router.post(
    "/subscribe",
    **call(
        Scope.SUBSCRIBE,
        SignUpResource,
        404,
        409,
        right=ListRight.MANAGE,
        status=202,
        headers=IDEMPOTENCY_KEY,
        also={200: success(SignUpResource, "Already verified: nothing is sent.")},
    ),
)
async def subscribe(request: Request, body: SignUp) -> Response:
    """Sign up an address for a list: its owner gets a confirmation email.

    The email is queued when this returns. A second sign-up before the confirmation sends the same
    link again, but at most two confirmation emails of a list go to an address in five minutes, and
    three per day; the response is the same.
    """

    async def work(_: Begun | None) -> tuple[int, SignUpResource]:
        is_asked = await services_of(request).subscriptions.subscribe(
            body.list,
            body.email,
            attributes=body.attributes,
            language=body.language or "",
            source=BY_API,
        )
        result = SignUpResource(
            email=body.email,
            list=body.list,
            verified=not is_asked,
            email_address=body.email,
            list_name=body.list,
        )
        return 202 if is_asked else 200, result

    return await once(request, work)
