"""`/r/TOKEN/N` and `/o/TOKEN.gif`: links and pixels of messages that measure clicks and opens.

The address has a number, not a target, so nobody can make a link of ours that leads elsewhere. A
person follows a link and sees a page if it does not work; a pixel has no reader.
HEAD requests and prefetching count for nothing.
"""

from __future__ import annotations

import base64
import time
from contextlib import suppress
from typing import Final
from urllib.parse import quote

import jinja2
import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from postroom.domain.errors import NoSuch
from postroom.domain.messages.hits import OPENED
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.tracking import Track
from postroom.mail.tracking.link_tracking import TRAP
from postroom.mail.tracking.tracking_tokens import TrackedLink
from postroom.storage import StoreError
from postroom.web.context import WebContext
from postroom.web.public.links import broken_link
from postroom.web.public.visitor import Visitor, public
from postroom.web.requests.visit import Visit
from postroom.wiring import Services

# A transparent picture of one pixel: 43 bytes.
_PIXEL: Final = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==")
_RETRY: Final = {"Retry-After": "60"}
_NOT_STORED: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_PIXEL_HEADERS: Final = {**_NOT_STORED, "Cross-Origin-Resource-Policy": "cross-origin"}
_PREFETCH_HEADERS: Final = ("purpose", "sec-purpose", "x-purpose", "x-moz")
_PREFETCH: Final = ("prefetch", "preview", "prerender")
_TABLE_SECONDS: Final = 60.0
_MOST_TABLES: Final = 200
_MOST_TOKENS: Final = 10_000
_LONGEST_NUMBER: Final = 5
_SAFE: Final = ":/%#?=@[]!$&'()*+,;~"


class _Table(msgspec.Struct, frozen=True):
    """The targets of a message, as a header has them; None if it is unknown or does not track."""

    targets: tuple[str, ...] | None
    until: float


class _Targets:
    """Finds the messages and targets of links, and remembers them for a minute."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._links: dict[str, TrackedLink] = {}
        self._tables: dict[MessageRef, _Table] = {}

    def link(self, token: str) -> TrackedLink | None:
        """Return what a token was made for; None if it is not genuine."""
        link = self._links.get(token)
        if link is None and (link := self._services.link_tables.tokens.read(token)) is not None:
            if len(self._links) >= _MOST_TOKENS:
                self._links.clear()
            self._links[token] = link
        return link

    async def of(self, ref: MessageRef) -> tuple[str, ...] | None:
        now = time.monotonic()
        known = self._tables.get(ref)
        if known is None or now >= known.until:
            known = _Table(await self._read(ref), now + _TABLE_SECONDS)
            if len(self._tables) >= _MOST_TABLES:
                self._tables.clear()
            self._tables[ref] = known
        return known.targets

    async def _read(self, ref: MessageRef) -> tuple[str, ...] | None:
        try:
            message = await self._services.messages.get(ref)
        except NoSuch:
            return None
        if message.track in (None, Track.OFF):
            return None
        table = await self._services.link_tables.read(message)
        return None if table is None else tuple(quote(each, safe=_SAFE) for each in table)


def tracked_routes(context: WebContext, templates: jinja2.Environment) -> list[Route]:
    """Return the routes. They are public: the token is the permission."""
    targets = _Targets(context.services)

    def note(request: Request, link: TrackedLink, number: int) -> None:
        if request.method == "HEAD" or _is_prefetch(request):
            return
        place = request.client.host if request.client else ""
        context.hits.note(link, number, place, request.headers.get("user-agent", ""))

    @public
    async def explain(visitor: Visitor) -> Response:
        """Say why a link does not work; an outage of the store is explained by `public`."""
        link = targets.link(visitor.visit.request.path_params["token"])
        if link is not None:
            await targets.of(link.ref)
        return broken_link(visitor)

    async def redirection(request: Request) -> Response:
        # Up to thousands of these per second, so only a link that does not work gets a page.
        number = _number(request.path_params["number"])
        link = targets.link(request.path_params["token"])
        table: tuple[str, ...] | None = None
        with suppress(StoreError):
            table = None if link is None else await targets.of(link.ref)
        if link is None or table is None or number is None or number >= len(table):
            response = await explain(Visit(request, context, templates, None, None, ""))
            if response.status_code == 503:
                response.headers.update(_RETRY)
            response.headers.update(_NOT_STORED)
            return response
        note(request, link, number)
        if number == TRAP:
            return Response(status_code=204, headers=_NOT_STORED)
        return Response(status_code=302, headers={**_NOT_STORED, "Location": table[number]})

    async def pixel(request: Request) -> Response:
        link = targets.link(request.path_params["token"])
        try:
            if link is None or await targets.of(link.ref) is None:
                return PlainTextResponse("This link does not work.\n", 404, headers=_NOT_STORED)
        except StoreError:
            text = "There is a problem on our side. Please try again in a few minutes.\n"
            return PlainTextResponse(text, 503, headers=_RETRY)
        note(request, link, OPENED)
        return Response(_PIXEL, media_type="image/gif", headers=_PIXEL_HEADERS)

    return [
        Route("/r/{token}/{number}", redirection, methods=["GET"], name="tracked link"),
        Route("/o/{token}.gif", pixel, methods=["GET"], name="tracking pixel"),
    ]


def _is_prefetch(request: Request) -> bool:
    said = (request.headers.get(name, "").lower() for name in _PREFETCH_HEADERS)
    return any(word in each for each in said for word in _PREFETCH)


def _number(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if is_number else None
