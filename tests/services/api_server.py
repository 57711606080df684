"""The API behind a real web server on loopback, in a thread of the test run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import uvicorn
from starlette.applications import Starlette

from postroom.settings import load_settings
from postroom.storage import open_store
from postroom.web.api.app import make_api, mounted
from postroom.web.context import WebContext
from postroom.web.serving.monitoring import health_routes
from postroom.wiring import Services, make_keyring
from tests.services.waiting import LOOPBACK, wait_until

T = TypeVar("T")


class ApiServer:
    """What is served at `url`; `services` live in the server's own event loop."""

    def __init__(self, url: str, services: Services, loop: asyncio.AbstractEventLoop) -> None:
        self.url = url
        self.services = services
        self._loop = loop
        self.key = self.run(lambda s: s.keys.create("of the tests")).secret

    def run(self, work: Callable[[Services], Coroutine[Any, Any, T]]) -> T:
        """Do something with the services, where they live."""
        return asyncio.run_coroutine_threadsafe(work(self.services), self._loop).result(60)

    def key_for(self, *scopes: str) -> str:
        return self.run(lambda s: s.keys.create("", scopes)).secret

    def client(self, key: str | None = None) -> httpx2.Client:
        """Calls with a key: the one that may do everything, or another; `""` is none."""
        shown = self.key if key is None else key
        headers = {"Authorization": f"Bearer {shown}"} if shown else {}
        # It speaks plain HTTP; to load the certificates of this machine takes 60 ms of CPU time.
        return httpx2.Client(
            base_url=f"{self.url}/api/v1", headers=headers, timeout=60, verify=False
        )


@contextmanager
def serving_api(store_url: str, folder: Path, **settings: str) -> Iterator[ApiServer]:
    """The API on this store, until the block ends."""
    given = {f"POSTROOM_{name.upper()}": value for name, value in settings.items()}
    offline = {"POSTROOM_ONLINE_CHECKS": "no"}
    found = load_settings({**offline, **given, "POSTROOM_STORE": store_url}, folder)
    started: dict[str, Any] = {}

    async def serve() -> None:
        async with await open_store(store_url) as store:
            services = Services(store, make_keyring(found))
            context = WebContext(services, found, b"secret of the tests")
            app = Starlette(
                routes=[*health_routes(context), mounted(make_api(context))],
                lifespan=_settling(services),
            )
            config = uvicorn.Config(app, host=LOOPBACK, port=0, log_level="warning")
            server = uvicorn.Server(config)
            started.update(server=server, services=services, loop=asyncio.get_running_loop())
            await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="api-server", daemon=True)
    thread.start()
    try:
        wait_until(
            lambda: bool(started and started["server"].started) or not thread.is_alive(),
            seconds=60,
            what="the API answers",
        )
        port = started["server"].servers[0].sockets[0].getsockname()[1]
        url = f"http://{LOOPBACK}:{port}"
        yield ApiServer(url, started["services"], started["loop"])
    finally:
        if "server" in started:
            started["server"].should_exit = True
        thread.join(30)


def _settling(services: Services) -> Callable[[Starlette], Any]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await services.keys.settle()

    return lifespan
