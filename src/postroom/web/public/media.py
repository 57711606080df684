"""`/media/HASH.EXT`: the pictures of messages, for everyone who has a message."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response, StreamingResponse

from postroom.domain.errors import Invalid
from postroom.domain.messages.pictures import parse_file_name
from postroom.storage import NotFound
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_HEADERS: Final = {
    # The name is a digest of the content, which therefore never changes.
    "Cache-Control": "public, max-age=31536000, immutable",
    # If a browser shows it as a document, nothing in it may run or load anything.
    "Content-Security-Policy": "default-src 'none'; sandbox",
    # Webmail shows it on pages of other sites.
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}


async def media(visit: Visit) -> Response:
    name = visit.parameter("name")
    try:
        digest, kind = parse_file_name(name)
    except Invalid:
        return _unknown()
    pictures = visit.services.pictures
    info = await pictures.blob(name)
    if info is None:
        return _unknown()
    etag = f'"{digest}"'
    headers = {**_HEADERS, "ETag": etag}
    if etag in _etags(visit.request.headers.get("if-none-match", "")):
        return Response(status_code=304, headers=headers)
    pieces = pictures.stream(name)
    try:
        first = await anext(pieces)
    except (NotFound, StopAsyncIteration):  # deleted in the meantime
        return _unknown()

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    headers["Content-Length"] = str(info.size)
    return StreamingResponse(whole(), media_type=kind.content_type, headers=headers)


def _etags(header: str) -> set[str]:
    return {each.strip().removeprefix("W/") for each in header[:1000].split(",")}


def _unknown() -> Response:
    return Response("There is no such picture.\n", 404, media_type="text/plain")


VIEWS = (View("/media/{name}", media, is_public=True, protected=False),)
