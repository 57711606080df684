"""listmonk's API, played by a real HTTP server on loopback."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.services.waiting import LOOPBACK, free_ports

USER, TOKEN = "postroom", "a-secret-token"
MOST_PER_PAGE = 50


class ListmonkServer:
    """Has lists and subscribers, and answers as listmonk documents it: 50 per page at most."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{LOOPBACK}:{port}"
        self.lists: list[dict[str, Any]] = []
        self.subscribers: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.delete_before_page = 0
        """The page before which a subscriber is deleted, once."""

    def add_list(self, name: str, optin: str = "double") -> int:
        number = len(self.lists) + 1
        self.lists.append({"id": number, "name": name, "type": "public", "optin": optin})
        return number

    def add(self, email: str, lists: dict[int, str], **more: Any) -> dict[str, Any]:
        number = len(self.subscribers) + 1
        new = {
            "id": number,
            "uuid": f"5d9f5a6c-0f3e-4c55-9b1d-{number:012}",
            "email": email,
            "name": "",
            "attribs": {},
            "status": "enabled",
            "created_at": "2020-02-10T23:07:16.199433+01:00",
            "updated_at": "2020-02-10T23:07:16.199433+01:00",
            "lists": [{"id": each, "subscription_status": how} for each, how in lists.items()],
            **more,
        }
        self.subscribers.append(new)
        return new

    async def on_lists(self, request: web.Request) -> web.Response:
        return self._page(request, self.lists)

    async def on_subscribers(self, request: web.Request) -> web.Response:
        if self.delete_before_page == int(request.query["page"]):
            self.delete_before_page = 0
            del self.subscribers[0]
        wanted = int(request.query["list_id"])
        found = [
            each for each in self.subscribers if any(on["id"] == wanted for on in each["lists"])
        ]
        return self._page(request, found)

    def _page(self, request: web.Request, everything: list[dict[str, Any]]) -> web.Response:
        self.requests.append(request.path_qs)
        known = base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {known}":
            return web.json_response({"message": "invalid API credentials"}, status=403)
        size = min(int(request.query["per_page"]), MOST_PER_PAGE)
        page = int(request.query["page"])
        results = everything[(page - 1) * size : page * size]
        data = {"results": results, "total": len(everything), "per_page": size, "page": page}
        return web.json_response({"data": data})


@asynccontextmanager
async def running_listmonk() -> AsyncIterator[ListmonkServer]:
    [port] = free_ports(1)
    server = ListmonkServer(port)
    app = web.Application()
    app.router.add_get("/api/lists", server.on_lists)
    app.router.add_get("/api/subscribers", server.on_subscribers)
    app.router.add_get("/elsewhere/api/lists", _redirected)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()
    try:
        yield server
    finally:
        await runner.cleanup()


async def _redirected(request: web.Request) -> web.Response:
    raise web.HTTPFound("/api/lists")
