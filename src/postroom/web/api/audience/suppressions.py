"""`/suppressions`: addresses that must not receive email."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.suppression.suppression_files import (
    MOST_LINES,
    export_suppressions,
    import_suppressions,
)
from postroom.services.resources.deliverability.suppressions import (
    SuppressionImportResource,
    SuppressionResource,
    describe_suppression,
    describe_suppression_import,
)
from postroom.web.api.cursors import Cursor, IndexName
from postroom.web.api.documenting import PLACE, call, index_of
from postroom.web.api.field_types import (
    Address,
    After,
    Body,
    Limit,
    ListName,
    Moment,
    SuppressedPath,
    WhySuppressed,
)
from postroom.web.api.middleware import wants_body
from postroom.web.api.problems import problem
from postroom.web.api.routing import (
    DEFAULT_LARGEST,
    ApiRoute,
    read_body,
    respond,
    respond_with_items,
    services_of,
)

CSV: Final = "text/csv"
_SOURCE: Final = "api"


class _SuppressedConvertor(PathConvertor):
    """An address in a path. `import` and `export` are not, so that only their own routes match."""

    regex = "(?!(?:import|export)$).*"


register_url_convertor("suppressed", _SuppressedConvertor())

router = APIRouter(route_class=ApiRoute, tags=["Suppressions"])

OneList = Annotated[
    ListName | None,
    Query(alias="list", description="The suppression of this list, not that of every list."),
]
Part = Annotated[
    str,
    Query(
        max_length=254,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]*$",
        description="Addresses that contain this, in upper or lower case.",
    ),
]


class NewSuppression(Body):
    email: Address
    reason: WhySuppressed
    list: Annotated[
        ListName | None, Field(description="Suppress it on this list only; null: on every list.")
    ] = None
    expires_at: Annotated[
        Moment | None, Field(description="When it ends, in the future; null: when it is lifted.")
    ] = None


@router.post(
    "/suppressions",
    **call(Scope.SUBSCRIBERS, SuppressionResource, 404, 409, status=201),
)
async def suppress_address(request: Request, body: NewSuppression) -> Response:
    """Suppress an address on every list, or on one. It is blocked there, even when it is added or
    imported later, until the suppression is lifted or expires."""
    created = await services_of(request).suppressions.suppress(
        body.email,
        body.reason,
        source=_SOURCE,
        list_name=body.list,
        expires_at=body.expires_at,
    )
    location = f"{PLACE}/suppressions/{quote(created.address, safe='@')}"
    if created.list_name is not None:
        location += f"?list={quote(created.list_name)}"
    return respond(describe_suppression(created), 201, {"Location": location})


@router.get("/suppressions", **call(Scope.SUBSCRIBERS, index_of(SuppressionResource), 404))
async def read_suppressions(
    request: Request, q: Part = "", limit: Limit = 100, after: After = None
) -> Response:
    """Return the suppressions, newest first.

    With `q`, up to 20,000 are searched for one response: there may be fewer items than `limit`, or
    none, although `next` leads to more.
    """
    cursor = Cursor(after, IndexName.SUPPRESSIONS)
    with cursor.checked():
        found = await services_of(request).suppressions.slice(
            contains=q, limit=limit, after=cursor.last
        )
    items = map(describe_suppression, found.suppressions)
    return respond_with_items(items, cursor.next(found.next))


@router.get(
    "/suppressions/export",
    **call(
        Scope.SUBSCRIBERS,
        None,
        also={
            200: {
                "content": {CSV: {"schema": {"type": "string"}}},
                "description": "Columns email, list, reason, source, created_at, expires_at.",
            }
        },
    ),
)
async def export_all(request: Request) -> Response:
    """Export all suppressions as a CSV file, newest first. It can be imported again."""

    async def whole() -> AsyncIterator[str]:
        if wants_body(request):
            async for piece in export_suppressions(services_of(request).suppressions):
                yield piece

    headers = {"Content-Disposition": 'attachment; filename="suppressions.csv"'}
    return StreamingResponse(whole(), media_type=CSV, headers=headers)


_FILE: Final[dict[str, Any]] = {
    "required": True,
    "content": {
        CSV: {
            "schema": {
                "type": "string",
                "description": "One address per line, or a header line with the columns email,"
                " list, reason and expires_at, of which only email is required.",
            },
            "example": "email,reason\r\nann@example.com,complaint\r\n",
        }
    },
}


@router.post(
    "/suppressions/import",
    **call(Scope.SUBSCRIBERS, SuppressionImportResource, 413, 415, requestBody=_FILE),
)
async def import_all(request: Request) -> Response:
    """Suppress the addresses of a CSV file in UTF-8 with up to 5,000 lines.

    Addresses that are already suppressed stay as they are. Lines that cannot be used are reported
    and do not stop the others.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != CSV:
        return problem(415, f"send the file as {CSV}")
    content = await read_body(request, DEFAULT_LARGEST)
    if content is None:
        return problem(413, f"the file has more than {DEFAULT_LARGEST:,} bytes")
    report = await import_suppressions(
        services_of(request).suppressions, content, source=_SOURCE, most=MOST_LINES
    )
    return respond(describe_suppression_import(report))


@router.get("/suppressions/{email:suppressed}", **call(Scope.SUBSCRIBERS, SuppressionResource, 404))
async def read_suppression(
    request: Request, email: SuppressedPath, list_name: OneList = None
) -> Response:
    """Return the suppression of an address."""
    found = await services_of(request).suppressions.get(email, list_name)
    return respond(describe_suppression(found))


@router.delete("/suppressions/{email:suppressed}", **call(Scope.SUBSCRIBERS, None, 404, 409))
async def lift_suppression(
    request: Request, email: SuppressedPath, list_name: OneList = None
) -> Response:
    """Lift the suppression of an address. The bounces that led to it no longer count."""
    await services_of(request).suppressions.lift(email, list_name)
    return Response(status_code=204)
