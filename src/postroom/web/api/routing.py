"""What every call does before and after its own work: scope, body, idempotency, audit log, ETags,
response."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import quote, unquote

import msgspec
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import DomainError, Invalid, Overtaken
from postroom.services.accounts.api_keys import ApiKey, Scope
from postroom.services.idempotency import FIELD as IDEMPOTENCY_KEY
from postroom.services.idempotency import Begun, fingerprint_of
from postroom.services.resources import Index
from postroom.storage import InvalidRequest
from postroom.web.api.documenting import LARGEST_BODY, RIGHT, SCOPE
from postroom.web.api.key_rights import check_lists
from postroom.web.api.middleware import KEY_IN_SCOPE
from postroom.web.api.problems import problem
from postroom.web.api.short_calls import Handler, replaying, shortened
from postroom.web.context import WebContext
from postroom.wiring import Services

DEFAULT_LARGEST = 2 * 1024 * 1024  # bytes
# A client that is still sending does not read: this much is read from it before it is refused.
_DRAINED = 16 * 1024 * 1024

_KEY_IS_LIMITED = (
    "this key is limited to selected lists and cannot make this call: use a key for all lists"
)
_SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"  # allowed between quotes, less '%', our escape
_TAGS = re.compile(r'(?:W/)?"([^"]*)"')
_LONGEST_HEADER = 1000  # characters; our own ETags are far shorter

Work = Callable[[Begun | None], Awaitable[tuple[int, Any]]]
Respond = Callable[[int, Any], Response]


class ApiRoute(APIRoute):
    """A call that needs the scope in its `openapi_extra`; `read` allows all GET requests, too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.app = shortened(self, self._checked, self.app)

    def get_route_handler(self) -> Handler:
        extra = self.openapi_extra or {}
        self._scope = Scope(extra[SCOPE])
        right = extra.get(RIGHT)
        self._right = None if right is None else ListRight(right)
        self._largest = int(extra.get(LARGEST_BODY, DEFAULT_LARGEST))
        self._reading = self.methods == {"GET"}
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            return await self._checked(request, handle)

        return checked

    async def _checked(self, request: Request, handle: Handler) -> Response:
        """Handle a request that this key may make, and record it."""
        if not key_of(request).may(self._scope, reading=self._reading):
            return _missing_scope(self._scope, self._reading)
        body = b""
        if self.body_field is not None:
            given = await read_body(request, self._largest)
            if given is None:
                return problem(413, f"the body has more than {self._largest:,} bytes")
            if given and not _is_json(request):
                return problem(415, "send the body as application/json")
            body = given
            request = Request(request.scope, replaying(body))
        if key_of(request).only_lists:
            if self._right is None:
                return problem(403, _KEY_IS_LIMITED)
            await check_lists(request, self.path, self._right, body)
        response = await handle(request)
        # A sign-up is not an administrator's action, and there may be thousands per second.
        is_audited = not self._reading and self._scope is not Scope.SUBSCRIBE
        if is_audited and response.status_code < 400:
            await _audit(request)
        return response


async def _audit(request: Request) -> None:
    place = request.client.host if request.client else ""
    action = f"{request.method} {request.url.path}"
    await services_of(request).audit.record(key_of(request).principal, action, place=place)


def key_of(request: Request) -> ApiKey:
    key: ApiKey = request.scope[KEY_IN_SCOPE]
    return key


def author_of(request: Request) -> str:
    """Return who saved a draft, for its versions: the key by its name."""
    return f"API key {key_of(request).name}"


def context_of(request: Request) -> WebContext:
    context: WebContext = request.app.state.context
    return context


def services_of(request: Request) -> Services:
    return context_of(request).services


# -- responses ------------------------------------------------------------------------------------


def respond(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a resource as JSON."""
    return Response(
        msgspec.json.encode(content),
        status,
        headers=None if headers is None else dict(headers),
        media_type="application/json",
    )


def respond_with_etag(
    resource: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a resource that can be changed: its ETag is in the content and in a header."""
    content = with_quotable_etag(resource)
    return respond(content, status, {**(headers or {}), "ETag": f'"{content["etag"]}"'})


def etag_header(etag: str) -> dict[str, str]:
    return {"ETag": f'"{_quotable(etag)}"'}


def respond_unless_known(request: Request, resource: Any) -> Response:
    """Return a resource, or 304 without a body if the client has this version already.

    Only for resources that cannot change without their ETag: a message's counts can.
    """
    given = request.headers.get("if-none-match")
    if given is not None and (given.strip() == "*" or resource.etag in _etags(given)):
        return Response(status_code=304, headers=etag_header(resource.etag))
    return respond_with_etag(resource)


def respond_with_items(items: Iterable[Any], following: str | None) -> Response:
    """Return a part of an index; `following` is the token of the next part."""
    return respond(Index(list(items), following))


def with_quotable_etag(resource: Any) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.to_builtins(resource)
    return {**content, "etag": _quotable(content["etag"])}


# -- ETags ----------------------------------------------------------------------------------------


class HasEtag(Protocol):
    """Anything that can be changed under its ETag."""

    @property
    def etag(self) -> str: ...


async def matched_etag(
    request: Request, kind: str, name: str, read: Callable[[], Awaitable[HasEtag]]
) -> str | None:
    """Return the ETag that the client's `If-Match` allows to change, or None without one.

    `Overtaken` if the current ETag is not among those that the client names.
    """
    given = request.headers.get("if-match")
    if given is None or given.strip() == "*":
        return None
    current = (await read()).etag
    if current not in _etags(given):
        raise Overtaken(kind, name)
    return current


def _quotable(etag: str) -> str:
    """Return the store's ETag in a form that fits between quotes; Azure's contain quotes."""
    return quote(etag, safe=_SAFE)


def _etags(given: str) -> set[str]:
    if len(given) > _LONGEST_HEADER:
        return set()
    return {unquote(tag) for tag in _TAGS.findall(given)} or {unquote(given.strip())}


# -- request bodies -------------------------------------------------------------------------------


async def read_body(request: Request, largest: int) -> bytes | None:
    """Return the body, or None if it has more than `largest` bytes."""
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


def _missing_scope(scope: Scope, reading: bool) -> Response:
    needed = f"{scope.value!r} or {Scope.READ.value!r}" if reading else repr(scope.value)
    return problem(403, f"this key lacks the scope {needed}")


# -- repeated calls --------------------------------------------------------------------------------


def _plain_response(status: int, content: Any) -> Response:
    return respond(content, status)


async def once(request: Request, work: Work, response_of: Respond = _plain_response) -> Response:
    """Do `work`, or return the response of the first request with the same `Idempotency-Key`.

    A refusal is not kept: nothing happened, and the corrected request may use the same key. After
    a fault the record stays: nobody knows how far the work got.
    """
    client_key = request.headers.get(IDEMPOTENCY_KEY)
    if client_key is None:
        return response_of(*await work(None))
    if not re.fullmatch(r"[\x20-\x7e]{1,255}", client_key):
        raise Invalid(
            IDEMPOTENCY_KEY, "must have 1 to 255 printable ASCII characters, such as a UUID"
        )
    idempotency = services_of(request).idempotency
    call = f"{request.method} {request.url.path}"
    fingerprint = fingerprint_of(await request.body())
    begun = await idempotency.begin(key_of(request).id, f"{call} {client_key}", fingerprint)
    if not isinstance(begun, Begun):
        response = response_of(begun.status, msgspec.json.decode(begun.body))
        response.headers["Idempotent-Replayed"] = "true"
        return response
    try:
        status, content = await work(begun)
    except (DomainError, InvalidRequest):
        await idempotency.forget(begun)
        raise
    await idempotency.finish(begun, status, msgspec.json.encode(content).decode())
    return response_of(status, content)
