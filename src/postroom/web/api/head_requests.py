"""HEAD: the answer to GET without its body (RFC 9110, 9.3.2), for every call at once."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_WITHOUT_BODY = "postroom.without_body"


class Heads:
    """Does what GET does, which changes nothing, and keeps the body back.

    The document does not list HEAD: whoever knows GET knows it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET", _WITHOUT_BODY: True}, receive, send_head)


def wants_body(request: Request) -> bool:
    """Whether anybody will see the body: one that takes long need not be made otherwise."""
    return _WITHOUT_BODY not in request.scope
