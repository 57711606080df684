"""Who calls: the key of each request, before anything else is looked at."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom.errors import PostroomError
from postroom.services.accounts.api_keys import ApiKey, ApiKeyService
from postroom.web.api.problems import from_error, problem
from postroom.web.api.throttling import Bucket

OPEN_PATHS = frozenset({"/openapi.json"})
KEY_IN_SCOPE = "postroom.key"


class Guard:
    """Refuses calls without a valid key and calls that come too often; counts the others.

    Plain ASGI: it adds a few microseconds to a call and does not touch its body.
    """

    def __init__(self, app: ASGIApp, *, keys: ApiKeyService, rate: float) -> None:
        self._app = app
        self._keys = keys
        self._rate = rate
        self._buckets: dict[str, Bucket] = {}  # of keys that exist, so there are not many

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _path(scope) in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        shown = _bearer(scope)
        try:
            key = None if shown is None else await self._keys.find(shown)
        except PostroomError as exc:
            await from_error(exc, etag_was_named=False)(scope, receive, send)
            return
        if key is None:
            await _refuse(shown is not None, scope, receive, send)
            return
        await self._counted(key, scope, receive, send)

    async def _counted(self, key: ApiKey, scope: Scope, receive: Receive, send: Send) -> None:
        bucket = self._buckets.get(key.id)
        if bucket is None:
            bucket = self._buckets[key.id] = Bucket(self._rate)
        may = bucket.take()
        headers = bucket.headers()

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        if may:
            scope[KEY_IN_SCOPE] = key
            await self._app(scope, receive, send_counted)
            return
        wait = str(bucket.seconds_until_next)
        refusal = problem(
            429, f"this key has no calls left: wait {wait} s", headers={"Retry-After": wait}
        )
        await refusal(scope, receive, send_counted)


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _bearer(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, text = value.decode("latin-1").partition(" ")
            return text.strip() if scheme.lower() == "bearer" else None
    return None


async def _refuse(was_shown: bool, scope: Scope, receive: Receive, send: Send) -> None:
    challenge = 'Bearer realm="postroom"'
    detail = "send an API key as 'Authorization: Bearer KEY'"
    if was_shown:
        challenge += ', error="invalid_token"'
        detail = "this API key is not valid: it was revoked, or copied incompletely"
    refusal = problem(401, detail, headers={"WWW-Authenticate": challenge})
    await refusal(scope, receive, send)
