"""Around every call: its key, its rate limit, and HEAD requests. Plain ASGI, for speed."""

from __future__ import annotations

import math

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom.domain.rate_limits import RateLimit, RateLimiter
from postroom.errors import PostroomError
from postroom.services.accounts.api_keys import ApiKeyService
from postroom.web.api.problems import problem, problem_of

OPEN_PATHS = frozenset({"/openapi.json"})
KEY_IN_SCOPE = "postroom.key"
WINDOW_SECONDS = 60
"""A client that was quiet may make the calls of this time at once."""

_WITHOUT_BODY = "postroom.without_body"


class KeyGuard:
    """Refuses calls without a valid key and calls above the rate limit; handles HEAD as GET."""

    def __init__(self, app: ASGIApp, *, keys: ApiKeyService, rate: float) -> None:
        self._app = app
        self._keys = keys
        self._limiter = RateLimiter(RateLimit(int(rate * WINDOW_SECONDS), 1 / rate))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope, send = _head_as_get(scope, send)
        if scope["type"] != "http" or _path(scope) in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        given = _bearer(scope)
        try:
            key = None if given is None else await self._keys.find(given)
        except PostroomError as exc:
            await problem_of(exc, etag_was_named=False)(scope, receive, send)
            return
        if key is None:
            await _refuse(given is not None, scope, receive, send)
            return
        wait = self._limiter.take(key.id)
        headers = _rate_limit_headers(self._limiter, key.id)

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        if wait:
            refusal = problem(
                429,
                f"this key has reached its rate limit: retry in {wait} s",
                headers={"Retry-After": str(wait)},
            )
            await refusal(scope, receive, send_counted)
            return
        scope[KEY_IN_SCOPE] = key
        await self._app(scope, receive, send_counted)


def _rate_limit_headers(limiter: RateLimiter, key: str) -> list[tuple[bytes, bytes]]:
    """Return the limit, what is left of it, and the seconds until all of it is available again."""
    return [
        (b"ratelimit-limit", b"%d" % limiter.limit.burst),
        (b"ratelimit-remaining", b"%d" % limiter.left(key)),
        (b"ratelimit-reset", b"%d" % math.ceil(limiter.seconds_until_full(key))),
    ]


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _bearer(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, text = value.decode("latin-1").partition(" ")
            return text.strip() if scheme.lower() == "bearer" else None
    return None


async def _refuse(was_given: bool, scope: Scope, receive: Receive, send: Send) -> None:
    challenge = 'Bearer realm="postroom"'
    detail = "send an API key as 'Authorization: Bearer KEY'"
    if was_given:
        challenge += ', error="invalid_token"'
        detail = "this API key is not valid: it was revoked or not copied completely"
    refusal = problem(401, detail, headers={"WWW-Authenticate": challenge})
    await refusal(scope, receive, send)


def _head_as_get(scope: Scope, send: Send) -> tuple[Scope, Send]:
    """Turn HEAD into GET without the body (RFC 9110, 9.3.2); leave other requests alone.

    The OpenAPI document does not list HEAD: clients expect it wherever there is GET.
    """
    if scope["type"] != "http" or scope["method"] != "HEAD":
        return scope, send

    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return {**scope, "method": "GET", _WITHOUT_BODY: True}, send_head


def wants_body(request: Request) -> bool:
    """Return whether the body will be sent: otherwise, a long one need not be created."""
    return _WITHOUT_BODY not in request.scope
