"""`/lists/{name}/emails`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AfterValidator, WithJsonSchema
from pydantic import Field as Limits
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_emails import (
    LONGEST_SUBJECT,
    LONGEST_TEXT,
    ListEmailKind,
    parse_email_kind,
)
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.languages import LANGUAGES, parse_list_language
from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.list_emails import written_email
from postroom.services.resources.audience import ListEmailResource, describe_list_email
from postroom.web.api.documenting import call
from postroom.web.api.field_types import WITHOUT_NUL, Body, ListPath, in_path, storable
from postroom.web.api.routing import ApiRoute, respond, services_of

router = APIRouter(route_class=ApiRoute, tags=["Lists"])

KindPath = Annotated[
    str,
    Path(description="The email."),
    AfterValidator(in_path("email", parse_email_kind)),
    WithJsonSchema({"type": "string", "enum": list(ListEmailKind)}),
]
LanguagePath = Annotated[
    str,
    Path(description="The language of its text."),
    AfterValidator(in_path("language", parse_list_language)),
    WithJsonSchema({"type": "string", "enum": list(LANGUAGES)}),
]


class NewListEmail(Body):
    subject: Annotated[
        str,
        AfterValidator(storable),
        WithJsonSchema({**WITHOUT_NUL, "minLength": 1, "maxLength": LONGEST_SUBJECT}),
    ]
    text: Annotated[
        str,
        AfterValidator(storable),
        WithJsonSchema({**WITHOUT_NUL, "minLength": 1, "maxLength": LONGEST_TEXT}),
        Limits(description="Markdown. The confirmation must link to `{{ confirm_url }}`."),
    ]


@router.get(
    "/lists/{name}/emails", **call(Scope.LISTS, list[ListEmailResource], 404, right=ListRight.VIEW)
)
async def read_emails(request: Request, name: ListPath) -> Response:
    """Return the emails that a list sends automatically.

    Each has a text for every language. The welcome email is sent if the list's `welcome_email` is
    true.
    """
    found = await services_of(request).lists.get(name)
    return respond(
        [
            describe_list_email(written_email(found, kind, language))
            for kind in ListEmailKind
            for language in LANGUAGES
        ]
    )


@router.put(
    "/lists/{name}/emails/{kind}/{language}",
    **call(Scope.LISTS, ListEmailResource, 404, 409, right=ListRight.MANAGE),
)
async def write_email(
    request: Request, name: ListPath, kind: KindPath, language: LanguagePath, body: NewListEmail
) -> Response:
    """Replace the text of an email of a list."""
    parsed = parse_email_kind(kind)
    saved = await services_of(request).list_emails.save(
        name, parsed, language, body.subject, body.text
    )
    return respond(describe_list_email(written_email(saved, parsed, language)))


@router.delete(
    "/lists/{name}/emails/{kind}/{language}",
    **call(Scope.LISTS, ListEmailResource, 404, 409, right=ListRight.MANAGE),
)
async def reset_email(
    request: Request, name: ListPath, kind: KindPath, language: LanguagePath
) -> Response:
    """Reset an email of a list to the standard text, which is returned."""
    parsed = parse_email_kind(kind)
    saved = await services_of(request).list_emails.reset(name, parsed, language)
    return respond(describe_list_email(written_email(saved, parsed, language)))
