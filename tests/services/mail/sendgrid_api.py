"""SendGrid's API, played by a real HTTP server on loopback."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.services.waiting import LOOPBACK, free_ports

Reply = Callable[[dict[str, Any]], Awaitable[web.StreamResponse]]


class SendgridApi:
    """Responds as scripted, and records the calls."""

    def __init__(self, port: int) -> None:
        self.host = f"{LOOPBACK}:{port}"
        self.calls: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        """The calls that were accepted."""
        self.keys: list[str] = []
        self.request: web.Request | None = None
        self.reply: Reply = self.accept
        self.scopes: web.Response = web.json_response({"scopes": ["mail.send"]})

    async def accept(self, call: dict[str, Any]) -> web.StreamResponse:
        self.sent.append(call)
        return web.Response(status=202, headers={"X-Message-Id": "abc"})

    async def on_send(self, request: web.Request) -> web.StreamResponse:
        self.request = request
        self.keys.append(request.headers["Authorization"])
        call = await request.json()
        self.calls.append(call)
        return await self.reply(call)

    async def on_scopes(self, request: web.Request) -> web.StreamResponse:
        return self.scopes

    def answers(self, status: int, *errors: tuple[str, str], **headers: str) -> None:
        async def reply(call: dict[str, Any]) -> web.StreamResponse:
            body = {"errors": [{"field": field, "message": text} for field, text in errors]}
            shown = {name.replace("_", "-"): value for name, value in headers.items()}
            return web.json_response(body, status=status, headers=shown)

        self.reply = reply


@asynccontextmanager
async def running_sendgrid_api() -> AsyncIterator[SendgridApi]:
    [port] = free_ports(1)
    api = SendgridApi(port)
    app = web.Application(client_max_size=50_000_000)
    app.router.add_post("/v3/mail/send", api.on_send)
    app.router.add_get("/v3/scopes", api.on_scopes)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()
    try:
        yield api
    finally:
        await runner.cleanup()
