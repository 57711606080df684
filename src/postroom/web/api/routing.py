"""What every call does before and after its own work: scope, body, idempotency, audit log, ETags,
response."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Protocol
from urllib.parse import quote, unquote

import msgspec
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as ScopeOfCall

from postroom.domain.errors import DomainError, Invalid, NoSuch, Overtaken
from postroom.errors import PostroomError
from postroom.services.accounts.api_keys import ApiKey, Scope
from postroom.services.idempotency import FIELD as IDEMPOTENCY_KEY
from postroom.services.idempotency import Begun, fingerprint_of
from postroom.services.resources import Index
from postroom.storage import InvalidRequest, InvalidValue
from postroom.storage.codec import decode_token, encode_token
from postroom.web.api.documenting import LARGEST_BODY, SCOPE
from postroom.web.api.middleware import KEY_IN_SCOPE
from postroom.web.api.problems import problem
from postroom.web.context import WebContext
from postroom.wiring import Services

DEFAULT_LARGEST = 2 * 1024 * 1024  # bytes
# A client that is still sending does not read: this much is read from it before it is refused.
_DRAINED = 16 * 1024 * 1024

_SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"  # allowed between quotes, less '%', our escape
_TAGS = re.compile(r'(?:W/)?"([^"]*)"')
_LONGEST_HEADER = 1000  # characters; our own ETags are far shorter

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Check = Callable[[Request, Handler], Awaitable[Response]]
Work = Callable[[Begun | None], Awaitable[tuple[int, Any]]]
Respond = Callable[[int, Any], Response]
_NOT_OURS = "must be the 'next' of an earlier response of this collection"


class ApiRoute(APIRoute):
    """A call that needs the scope in its `openapi_extra`; `read` allows all GET requests, too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.app = shortened(self, self._checked, self.app)

    def get_route_handler(self) -> Handler:
        extra = self.openapi_extra or {}
        self._scope = Scope(extra[SCOPE])
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
        if self.body_field is not None:
            body = await _read_body(request, self._largest)
            if body is None:
                return problem(413, f"the body has more than {self._largest:,} bytes")
            if body and not _is_json(request):
                return problem(415, "send the body as application/json")
            request = Request(request.scope, _replaying(body))
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
    """Return the store's ETag as it can stand between quotes; Azure's contain quotes."""
    return quote(etag, safe=_SAFE)


def _etags(given: str) -> set[str]:
    if len(given) > _LONGEST_HEADER:
        return set()
    return {unquote(tag) for tag in _TAGS.findall(given)} or {unquote(given.strip())}


# -- request bodies -------------------------------------------------------------------------------


async def _read_body(request: Request, largest: int) -> bytes | None:
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


def _replaying(body: bytes) -> Callable[[], Awaitable[Message]]:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _missing_scope(scope: Scope, reading: bool) -> Response:
    needed = f"{scope.value!r} or {Scope.READ.value!r}" if reading else repr(scope.value)
    return problem(403, f"this key lacks the scope {needed}")


def shortened(route: APIRoute, check: Check, whole: ASGIApp) -> ASGIApp:
    """Return a quicker application for a call that takes nothing but a JSON body, such as a
    sign-up; for other calls, return FastAPI's `whole`.

    FastAPI works out the arguments of every call from all places where they could be, with a stack
    of resources to close, which takes about as long as a sign-up's own work. Here the body is read
    straight into its model. If that fails, FastAPI gets the request and reports what is wrong with
    it.
    """
    found = _body_of(route)
    if found is None:
        return whole
    request_name, body_name, model = found
    endpoint = route.endpoint

    async def handle(request: Request) -> Response:
        content = await request.body()
        try:
            body = model.model_validate(msgspec.json.decode(content))
        except (ValueError, RecursionError):
            raise _LeftToFastApi(content) from None
        response: Response = await endpoint(**{request_name: request, body_name: body})
        return response

    async def call(scope: ScopeOfCall, receive: Receive, send: Send) -> None:
        try:
            response = await check(Request(scope, receive), handle)
        except _LeftToFastApi as left:
            await whole(scope, _replaying(left.body), send)
        else:
            await response(scope, receive, send)

    return call


class _LeftToFastApi(PostroomError):
    """A body that does not fit its model."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.body = body


def _body_of(route: APIRoute) -> tuple[str, str, type[BaseModel]] | None:
    """Return the names of the parameters for request and body, and the body's model.

    None for a call that has other parameters.
    """
    takes = route.dependant
    has_more = (
        takes.path_params
        or takes.query_params
        or takes.header_params
        or takes.cookie_params
        or takes.dependencies
        or takes.background_tasks_param_name
        or takes.response_param_name
        or takes.security_scopes_param_name
        or takes.http_connection_param_name
    )
    if has_more or takes.request_param_name is None or len(takes.body_params) != 1:
        return None
    [field] = takes.body_params
    model = field.field_info.annotation
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return None
    return takes.request_param_name, field.name, model


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


# -- indexes, part by part -------------------------------------------------------------------------


class IndexName(StrEnum):
    LISTS = "lists"
    SUBSCRIBERS = "subscribers"
    SEGMENTS = "segments"
    MESSAGES = "messages"
    EMAILS = "emails"
    MEDIA = "media"
    QUEUES = "queues"
    QUEUE_MESSAGES = "queue-messages"
    APPS = "apps"


class Cursor:
    """Where a response of one index begins: `last` is what the one before ended with.

    The `next` of an index names the index and its owner: `["subscribers", "news", …]`. So the token
    of another index is refused instead of being taken for a place in this one.
    """

    def __init__(self, after: str | None, index: IndexName, *owner: str) -> None:
        self._names = (index.value, *owner)
        self.last = None if after is None else self._last(after)

    def next(self, last: str | None) -> str | None:
        """Return the token to continue after `last`; None at the end."""
        return None if last is None else encode_token(*self._names, last)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Refuse a `last` that the store never gave, around the code that reads from it."""
        try:
            yield
        except InvalidValue as exc:
            if self.last is None:
                raise
            raise Invalid("after", _NOT_OURS) from exc

    def _last(self, after: str) -> str:
        parts = _parts(after)
        if tuple(parts[:-1]) != self._names:
            raise Invalid("after", _NOT_OURS)
        return parts[-1]


def _parts(after: str) -> list[str]:
    """Return the contents of a token of any index.

    The OpenAPI document describes what tokens look like, not which exist: one that only looks right
    is 'not found'.
    """
    for length in (3, 2, 1):
        try:
            return decode_token(after, length)
        except InvalidValue:
            continue
    if after.startswith(_BEGINNINGS):  # one of ours, cut off
        raise Invalid("after", _NOT_OURS)
    raise NoSuch("page after", after)


# Base64 of `["lists`: six bits to a character, and the last ones depend on what follows.
_BEGINNINGS = tuple(encode_token(index)[: (len(index) + 2) * 8 // 6] for index in IndexName)
