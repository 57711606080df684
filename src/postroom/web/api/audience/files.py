"""`/lists/{name}/import` and `/export`: CSV in and out, any number of lines, in flat memory."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from email.message import Message
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from postroom.services import shapes
from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.files.columns import EMAIL_NAMES
from postroom.web.api.docs.documenting import problems
from postroom.web.api.fields import IsVerified, ListPath
from postroom.web.api.head_requests import wants_body
from postroom.web.api.problems import problem
from postroom.web.api.results import ImportResult
from postroom.web.api.routing import ApiRoute, answer, scoped, services_of
from postroom.web.serving.disconnecting import while_connected

LARGEST_FILE = 2 * 1024**3
CSV = "text/csv"
_WRITTEN_AT_ONCE = 1024 * 1024

router = APIRouter(route_class=ApiRoute, tags=["Subscribers"])
_NEEDS: dict[str, Any] = scoped(Scope.SUBSCRIBERS)
_FILE = {
    "requestBody": {
        "required": True,
        "content": {
            CSV: {
                # Without a pattern: names and order of the columns are for code to understand.
                "schema": {
                    "type": "string",
                    "description": "A header line and a line for each address. Columns come in any"
                    " order, between commas, semicolons or tabs; the one of addresses is called"
                    f" {', '.join(EMAIL_NAMES[:5])} or the like, in any case.",
                },
                "example": "email,verified\r\nann@example.com,true\r\nbob@example.com,false\r\n",
            }
        },
    }
}


@router.post(
    "/lists/{name}/import",
    response_model=ImportResult,
    responses=problems(404, 409),
    openapi_extra={**_NEEDS, **_FILE},
)
async def import_subscribers(
    request: Request,
    name: ListPath,
    verified: Annotated[
        IsVerified,
        Query(description="Whether everybody has agreed to get mail whose line does not say so."),
    ] = None,
    even_unsubscribed: Annotated[
        IsVerified,
        Query(description="Whether those come back who have unsubscribed from the list."),
    ] = None,
    dry_run: Annotated[
        IsVerified,
        Query(description="Only report what the import would do; nothing is written."),
    ] = None,
) -> Response:
    """Put the addresses of a CSV file on a list.

    It has a header line with a column `email`, and perhaps one `verified` (true or false), one
    `blocked` (why) and one `status` or `state` with the words of other tools: people who are
    `unsubscribed` there leave the list, and those who are `blocklisted`, `cleaned` or `bounced` are
    blocked. Other columns are not used; the result names them. It is in UTF-8, or in the encoding
    that the type names: `text/csv; charset=windows-1252`. Lines that cannot be used are reported
    and do not stop the others; so are those of people who have unsubscribed from the list. An
    address that is on the list keeps its links; where its line says true or false, that counts.
    The import stops if the client disconnects, and with status 422 if more than 10,000 lines, and
    more than a tenth of them all, cannot be used. A line has at most 131,072 characters. An
    interrupted import is finished by importing again.
    """
    media_type, encoding = _format(request)
    if media_type != CSV:
        return problem(415, f"send the file as {CSV}")
    services = services_of(request)
    await services.lists.get(name)  # before a large file is taken in
    with tempfile.TemporaryFile() as file:
        if not await _keep(request, file):
            return problem(413, f"the file has more than {LARGEST_FILE:,} bytes")
        report = await while_connected(
            request,
            services.imports.import_csv(
                name,
                file,
                encoding=encoding,
                verified=verified or False,
                even_unsubscribed=even_unsubscribed or False,
                dry_run=dry_run or False,
            ),
        )
    return answer(shapes.of_import(report))


@router.get(
    "/lists/{name}/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {CSV: {"schema": {"type": "string"}}},
            "description": "Columns email, verified, blocked (why), created_at.",
        },
        **problems(404),
    },
    openapi_extra=_NEEDS,
)
async def export_subscribers(request: Request, name: ListPath) -> Response:
    """All subscribers of a list as a CSV file, in the order of their addresses.

    Importing it again changes nobody, and blocked ones stay blocked on another list, too. Cells
    that a spreadsheet would take for a formula get an apostrophe in front; import removes it.
    """
    pieces = services_of(request).exports.export_csv(name)
    first = await anext(pieces)  # before the answer begins: there may be no such list

    async def whole() -> AsyncIterator[str]:
        yield first
        if wants_body(request):
            async for piece in pieces:
                yield piece

    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return StreamingResponse(whole(), media_type=CSV, headers=headers)


def _format(request: Request) -> tuple[str, str | None]:
    """Media type and charset. UTF-8 is what the file is taken for anyway, with or without mark."""
    message = Message()
    message["content-type"] = request.headers.get("content-type", "")
    charset = message.get_content_charset()
    return message.get_content_type(), None if charset in (None, "utf-8", "utf8") else charset


async def _keep(request: Request, file: BinaryIO) -> bool:
    """The body on disk, to be read twice; False if it is too large."""
    waiting = bytearray()
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > LARGEST_FILE:
            return False
        waiting += piece
        if len(waiting) >= _WRITTEN_AT_ONCE:
            await asyncio.to_thread(file.write, bytes(waiting))
            waiting.clear()
    await asyncio.to_thread(file.write, bytes(waiting))
    return True
