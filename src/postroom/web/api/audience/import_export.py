"""`/lists/{name}/import` and `/export`: CSV of any length, in constant memory."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Coroutine
from email.message import Message
from typing import Annotated, Any, BinaryIO, TypeVar

from fastapi import APIRouter, Query
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.services.accounts.api_keys import Scope
from postroom.services.audience.files.columns.column_names import EMAIL_NAMES
from postroom.services.audience.files.columns.columns import read_choices
from postroom.services.audience.files.columns.dates import DateOrder
from postroom.services.audience.files.import_report import Existing
from postroom.services.resources.audience import ImportResource, describe_import
from postroom.web.api.documenting import call
from postroom.web.api.field_types import Flag, ListPath, SegmentName
from postroom.web.api.key_rights import is_limited
from postroom.web.api.middleware import wants_body
from postroom.web.api.problems import problem
from postroom.web.api.routing import ApiRoute, respond, services_of

LARGEST_FILE = 2 * 1024**3
CSV, ZIP = "text/csv", "application/zip"
_WRITE_SIZE = 1024 * 1024
_MOST_CHOSEN = 1000

router = APIRouter(route_class=ApiRoute, tags=["Subscribers"])
_FILE = {
    "required": True,
    "content": {
        CSV: {
            # Without a pattern: a schema cannot say which header lines are understood.
            "schema": {
                "type": "string",
                "description": "A header line and a line for each address. Columns are separated"
                " by commas, semicolons or tabs, in any order; the column of addresses is called"
                f" {', '.join(EMAIL_NAMES[:5])} or similar, in upper or lower case.",
            },
            "example": "email,verified\r\nann@example.com,true\r\nbob@example.com,false\r\n",
        },
        ZIP: {
            "schema": {
                "type": "string",
                "format": "binary",
                "description": "An archive of CSV files, such as the export of Mailchimp.",
            }
        },
    },
}


_Verified = Annotated[
    Flag,
    Query(description="Whether subscribers are verified if their line does not say so."),
]
_EvenUnsubscribed = Annotated[
    Flag,
    Query(description="Whether to re-subscribe people who unsubscribed from the list."),
]
_Existing = Annotated[
    Existing,
    Query(
        description="What happens to the fields of existing subscribers: `overwrite` them with"
        " the values of the line, `fill_gaps`, or `keep` them. An empty cell never removes a"
        " value."
    ),
]
_CreateFields = Annotated[
    Flag,
    Query(description="Whether to create text fields for unknown columns."),
]
_Columns = Annotated[
    list[str],
    Query(
        description="What a column is used for, as `NAME=USE`; repeat it for each column. `USE`"
        " is `skip`, `address`, `status`, `joined`, `note`, `field:NAME` for a field of the"
        " list, or `new:TYPE` for a new one, such as `new:integer`.",
        examples=[["Shoe size=new:integer", "Wohnort=field:city"]],
        max_length=_MOST_CHOSEN,
    ),
]
_DateOrder = Annotated[
    DateOrder,
    Query(
        description="How dates such as 2/3/2026 are read. With `year_first`, they are refused:"
        " dates are written 2026-01-31 or 31.1.2026, which is understood in any order."
    ),
]
_DryRun = Annotated[
    Flag,
    Query(description="Whether to write nothing and only report what would happen."),
]


@router.post(
    "/lists/{name}/import",
    **call(Scope.SUBSCRIBERS, ImportResource, 404, 409, right=ListRight.MANAGE, requestBody=_FILE),
)
async def import_subscribers(
    request: Request,
    name: ListPath,
    verified: _Verified = None,
    even_unsubscribed: _EvenUnsubscribed = None,
    existing: _Existing = Existing.OVERWRITE,
    create_fields: _CreateFields = None,
    column: _Columns = [],  # noqa: B006 - never changed
    date_order: _DateOrder = DateOrder.YEAR_FIRST,
    dry_run: _DryRun = None,
) -> Response:
    """Import the addresses of a CSV file into a list.

    The header line has a column `email` and may have `verified` (true or false), `blocked` (the
    reason), and `status` or `state` with the values of other tools: `unsubscribed` removes an
    address from the list; `blocklisted`, `cleaned` and `bounced` suppress it. Columns that have the
    name or label of a field are imported into it. A wrong value rejects its line. The result names
    the columns that were not used. Exports of Mailchimp (including the whole archive), listmonk,
    Substack, Ghost, Buttondown, Brevo, phpList and Keila are recognised by their columns. The file
    is in UTF-8 or in the encoding that its type names: `text/csv; charset=windows-1252`. Lines that
    cannot be used, and lines of people who have unsubscribed from the list, are reported and do not
    stop the others. An address that is already on the list keeps its links; `verified` in its line
    is applied. A line has at most 131,072 characters.

    The import stops if the client disconnects, and with status 422 if more than 10,000 lines, and
    more than a tenth of all lines, cannot be used. To finish an interrupted import, import the file
    again.
    """
    media_type, encoding = _format(request)
    if media_type not in (CSV, ZIP):
        return problem(415, f"send the file as {CSV} or {ZIP}")
    services = services_of(request)
    await services.lists.get(name)  # before a large file is received
    with tempfile.TemporaryFile() as file:
        if not await _save_body(request, file):
            return problem(413, f"the file has more than {LARGEST_FILE:,} bytes")
        report = await while_connected(
            request,
            services.imports.import_csv(
                name,
                file,
                encoding=encoding,
                verified=verified or False,
                even_unsubscribed=even_unsubscribed or False,
                existing=existing,
                create_fields=create_fields or False,
                columns=read_choices(column),
                date_order=date_order,
                dry_run=dry_run or False,
                on_every_list=not is_limited(request),
            ),
        )
    return respond(describe_import(report))


@router.get(
    "/lists/{name}/export",
    **call(
        Scope.SUBSCRIBERS,
        None,
        404,
        right=ListRight.MANAGE,
        also={
            200: {
                "content": {CSV: {"schema": {"type": "string"}}},
                "description": "Columns email, verified, blocked (the reason), created_at, and one"
                " for each field.",
            }
        },
    ),
)
async def export_subscribers(
    request: Request,
    name: ListPath,
    segment: Annotated[
        SegmentName | None, Query(description="Only subscribers of this segment.")
    ] = None,
) -> Response:
    """Export the subscribers of a list, or of a segment, as a CSV file, sorted by address.

    Importing the file again changes nothing; in another list, blocked addresses stay blocked. Cells
    that a spreadsheet would interpret as a formula start with an apostrophe, which import removes.
    """
    pieces = services_of(request).exports.export_csv(name, segment or "")
    first = await anext(pieces)  # before the response begins: the list may not exist

    async def whole() -> AsyncIterator[str]:
        yield first
        if wants_body(request):
            async for piece in pieces:
                yield piece

    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return StreamingResponse(whole(), media_type=CSV, headers=headers)


def _format(request: Request) -> tuple[str, str | None]:
    """Return media type and charset. None stands for UTF-8, with or without a byte order mark."""
    message = Message()
    message["content-type"] = request.headers.get("content-type", "")
    charset = message.get_content_charset()
    return message.get_content_type(), None if charset in (None, "utf-8", "utf8") else charset


async def _save_body(request: Request, file: BinaryIO) -> bool:
    """Write the body to disk, to be read twice; return False if it is too large."""
    waiting = bytearray()
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > LARGEST_FILE:
            return False
        waiting += piece
        if len(waiting) >= _WRITE_SIZE:
            await asyncio.to_thread(file.write, bytes(waiting))
            waiting.clear()
    await asyncio.to_thread(file.write, bytes(waiting))
    return True


T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. If the client disconnects before, cancel it and raise
    `ClientDisconnect`. The request's body must have been read."""
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait([working, watching], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        watching.cancel()
        working.cancel()
        await asyncio.wait([working, watching])


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
