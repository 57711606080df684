"""`/media`: pictures for messages."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from fastapi import APIRouter, Path, Query
from pydantic import AfterValidator, WithJsonSchema
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import Invalid
from postroom.domain.messages.pictures import LARGEST_FILE, LONGEST_ALT, Picture, parse_hash
from postroom.services.accounts.api_keys import Scope
from postroom.services.messages.media.picture_files import FIELD
from postroom.services.resources.pictures import (
    PictureDetailsResource,
    PictureResource,
    describe_picture,
    describe_picture_details,
)
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import IF_MATCH, PLACE, call, index_of, success
from postroom.web.api.field_types import After, AltText, Change, Limit, in_path, storable
from postroom.web.api.key_rights import messages_of
from postroom.web.api.problems import problem
from postroom.web.api.routing import (
    ApiRoute,
    context_of,
    key_of,
    matched_etag,
    respond_with_etag,
    respond_with_items,
    services_of,
    with_quotable_etag,
)
from postroom.web.requests.forms import limited, read_form

router = APIRouter(route_class=ApiRoute, tags=["Pictures"])

LARGEST_UPLOAD: Final = 6 * 1024 * 1024
"""Bytes of a form: more than of a picture, so that one that is a little too large is named."""
_MULTIPART: Final = "multipart/form-data"
_LONGEST_SEARCH: Final = 200

_FORM: dict[str, Any] = {
    "required": True,
    "content": {
        _MULTIPART: {
            "schema": {
                "type": "object",
                "required": [FIELD],
                "additionalProperties": False,
                "properties": {
                    FIELD: {
                        "type": "string",
                        "format": "binary",
                        "description": f"A JPEG, PNG, GIF or WebP picture of at most"
                        f" {LARGEST_FILE:,} bytes.",
                    },
                    "alt": {
                        "type": "string",
                        "maxLength": LONGEST_ALT,
                        "description": "What it shows, for people who cannot see it.",
                    },
                },
            }
        }
    },
}
_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}

HashPath = Annotated[
    str,
    Path(description="The SHA-256 of the picture."),
    AfterValidator(in_path("picture", parse_hash)),
    WithJsonSchema(_HASH),
]
Search = Annotated[
    str,
    AfterValidator(storable),
    Query(
        max_length=_LONGEST_SEARCH,
        description="Part of the name or the alternative text, in upper or lower case.",
    ),
]


class PictureChange(Change):
    """Fields that are left out stay as they are. Null removes the alternative text."""

    nullable: ClassVar[frozenset[str]] = frozenset({"alt"})

    alt: AltText | None = None


@router.post(
    "/media",
    **call(
        Scope.MESSAGES,
        PictureResource,
        409,
        right=ListRight.EDIT,
        status=201,
        with_etag=True,
        also={200: success(PictureResource, "The same picture was uploaded before.")},
        requestBody=_FORM,
    ),
)
async def upload_picture(request: Request) -> Response:
    """Upload a picture.

    It is stored as JPEG, PNG or GIF: turned upright, without metadata, at most 1,200 pixels wide.
    Animations stay animated. A picture that is already stored is returned with status 200.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != _MULTIPART:
        return problem(415, f"send the picture as {_MULTIPART}, in a field called {FIELD}")
    try:
        form = await read_form(
            Request(request.scope, limited(request, LARGEST_UPLOAD)), max_files=1, max_fields=5
        )
    except HTTPException as exc:
        return problem(exc.status_code, exc.detail)
    try:
        picture, is_new = await _upload(request, form)
    finally:
        await form.close()
    location = {"Location": f"{PLACE}/media/{picture.hash}"}
    return respond_with_etag(_resource(request, picture), 201 if is_new else 200, location)


@router.get("/media", **call(Scope.MESSAGES, index_of(PictureResource), 404, right=ListRight.VIEW))
async def read_pictures(
    request: Request, q: Search = "", limit: Limit = 100, after: After = None
) -> Response:
    """Return pictures, newest first."""
    cursor = Cursor(after, IndexName.MEDIA)
    with cursor.checked():
        found = await services_of(request).pictures.slice(search=q, limit=limit, after=cursor.last)
    items = (with_quotable_etag(_resource(request, each)) for each in found.pictures)
    return respond_with_items(items, cursor.next(found.next))


@router.get(
    "/media/{hash}",
    **call(Scope.MESSAGES, PictureDetailsResource, 404, right=ListRight.VIEW, with_etag=True),
)
async def read_picture(request: Request, hash: HashPath) -> Response:
    """Return a picture, and the messages and templates that use it."""
    pictures = services_of(request).pictures
    picture = await pictures.get(hash)
    uses = await pictures.uses(picture, sees=messages_of(request).sees_lists)
    base_url = context_of(request).base_url
    return respond_with_etag(describe_picture_details(picture, uses, base_url))


@router.patch(
    "/media/{hash}",
    **call(
        Scope.MESSAGES,
        PictureResource,
        404,
        409,
        412,
        right=ListRight.EDIT,
        with_etag=True,
        headers=IF_MATCH,
    ),
)
async def change_picture(
    request: Request,
    hash: HashPath,
    body: PictureChange,
) -> Response:
    """Change the alternative text of a picture."""
    pictures = services_of(request).pictures
    etag = await matched_etag(request, "picture", hash, lambda: pictures.get(hash))
    if "alt" not in body.model_fields_set:
        return respond_with_etag(_resource(request, await pictures.get(hash)))
    saved = await pictures.describe(hash, body.alt or "", etag)
    return respond_with_etag(_resource(request, saved))


@router.delete("/media/{hash}", **call(Scope.MESSAGES, None, 404, 409))
async def delete_picture(request: Request, hash: HashPath) -> Response:
    """Delete a picture. Refused while a message or a template uses it."""
    await services_of(request).pictures.delete(hash)
    return Response(status_code=204)


async def _upload(request: Request, form: FormData) -> tuple[Picture, bool]:
    for name in form:
        if name not in (FIELD, "alt"):
            raise Invalid(name[:40], f"is not a field of this form: send {FIELD} and alt")
    file, alt = form.get(FIELD), form.get("alt", "")
    if not isinstance(file, UploadFile):
        raise Invalid(FIELD, "is missing: send the picture as a file")
    if not isinstance(alt, str):
        raise Invalid("alt", "must be text, not a file")
    return await services_of(request).pictures.upload(
        await file.read(), file.filename or "", alt, by=key_of(request).principal
    )


def _resource(request: Request, picture: Picture) -> PictureResource:
    return describe_picture(picture, context_of(request).base_url)
