"""What every call does before its own work: the scope, the format and the size of its body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

import msgspec
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from postroom.services.accounts.api_keys import ApiKey, Scope
from postroom.web.api.etags import is_known, shown_etag
from postroom.web.api.guarding import KEY_IN_SCOPE
from postroom.web.api.problems import problem
from postroom.web.api.short_path import shortened
from postroom.web.context import WebContext
from postroom.wiring import Services

SCOPE = "x-scope"
LARGEST_BODY = "x-largest-body"
DEFAULT_LARGEST = 2 * 1024 * 1024  # bytes
# A client that is still sending does not read: so much more is taken off it before it is refused.
_DRAINED = 16 * 1024 * 1024


def scoped(scope: Scope, **extra: Any) -> dict[str, Any]:
    """For `openapi_extra`: the document says what the route enforces."""
    return {SCOPE: scope.value, **extra}


class ApiRoute(APIRoute):
    """A call that needs the scope in its `openapi_extra`; reading is also allowed by `read`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = shortened(self, super().get_route_handler())
        extra = self.openapi_extra or {}
        scope = Scope(extra[SCOPE])
        largest = int(extra.get(LARGEST_BODY, DEFAULT_LARGEST))
        reading = self.methods == {"GET"}
        takes_json = self.body_field is not None

        async def checked(request: Request) -> Response:
            if not key_of(request).may(scope, reading=reading):
                return _missing(scope, reading)
            if takes_json:
                body = await read_body(request, largest)
                if body is None:
                    return problem(413, f"the body has more than {largest:,} bytes")
                if body and not _is_json(request):
                    return problem(415, "send the body as application/json")
                request = Request(request.scope, _replaying(body))
            response = await handle(request)
            # A sign-up is no administrator's deed, and there may be thousands a second.
            if not reading and scope is not Scope.SUBSCRIBE and response.status_code < 400:
                await _audit(request)
            return response

        return checked


async def _audit(request: Request) -> None:
    place = request.client.host if request.client else ""
    did = f"{request.method} {request.url.path}"
    await services_of(request).audit.record(key_of(request).principal, did, place=place)


def key_of(request: Request) -> ApiKey:
    key: ApiKey = request.scope[KEY_IN_SCOPE]
    return key


def context_of(request: Request) -> WebContext:
    context: WebContext = request.app.state.context
    return context


def services_of(request: Request) -> Services:
    return context_of(request).services


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(content),
        status,
        headers=None if headers is None else dict(headers),
        media_type="application/json",
    )


def resource(
    shape: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """One thing that can be changed: its ETag is in the content and in the header."""
    tagged = with_shown_etag(shape)
    return answer(tagged, status, {**(headers or {}), "ETag": f'"{tagged["etag"]}"'})


def unless_known(request: Request, shape: dict[str, Any]) -> Response:
    """One thing as it is now, or 304 without a body if the client has this version already.

    Only for what cannot change without its ETag: a message's counts can.
    """
    if is_known(request, shape["etag"]):
        return Response(status_code=304, headers={"ETag": f'"{shown_etag(shape["etag"])}"'})
    return resource(shape)


def index(shapes: Iterable[dict[str, Any]], following: str | None) -> Response:
    """Some of many."""
    return answer({"items": list(shapes), "next": following})


def with_shown_etag(shape: dict[str, Any]) -> dict[str, Any]:
    return {**shape, "etag": shown_etag(shape["etag"])}


async def read_body(request: Request, largest: int) -> bytes | None:
    """All of the body, or None if it is larger than that."""
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size <= largest:
            pieces.append(piece)
        elif size > largest + _DRAINED:
            break
    return b"".join(pieces) if size <= largest else None


def _is_json(request: Request) -> bool:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type == "application/json" or (
        media_type.startswith("application/") and media_type.endswith("+json")
    )


def _replaying(body: bytes) -> Callable[[], Awaitable[Message]]:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _missing(scope: Scope, reading: bool) -> Response:
    needed = f"{scope.value!r} or {Scope.READ.value!r}" if reading else repr(scope.value)
    return problem(403, f"this key has not the scope {needed}")
