"""A running site and visitors to it, for tests over HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2

from postroom.encryption import Keyring
from postroom.services.accounts.users import Role, User
from postroom.settings import load_settings
from postroom.storage import Entity, open_store
from postroom.web.context import WebContext
from postroom.web.requests.cookies import CsrfKind, csrf_token
from postroom.web.serving.connection_guard import ConnectionLimits
from postroom.web.serving.server import bound_socket, serve
from postroom.wiring import Services
from tests.web.forms import forms_in

PASSWORD = "correct horse battery staple"
SECRET = b"a secret key of the tests, long enough"


class Visitor:
    """A browser: it keeps its cookies and sends the token of its forms."""

    def __init__(self, site: Site, *, token: str = "", user: User | None = None) -> None:
        self.site = site
        self.user = user
        # It speaks plain HTTP; to load the certificates of this machine takes 60 ms of CPU time.
        self.http = httpx2.AsyncClient(
            base_url=site.url, follow_redirects=False, timeout=60, verify=False
        )
        self._names = site.context.cookies
        self.http.cookies.set(self._names.visitor, "a-visitor-of-the-tests", domain="127.0.0.1")
        self.use(token)

    def use(self, session: str) -> None:
        """Be logged in with this session from now on, or not at all."""
        if self.session:
            self.http.cookies.delete(self._names.session)
        if session:
            self.http.cookies.set(self._names.session, session, domain="127.0.0.1")

    @property
    def session(self) -> str:
        """The session cookie."""
        return self.http.cookies.get(self._names.session) or ""

    async def csrf(self) -> str:
        """The token that this visitor's forms carry."""
        token = self.http.cookies.get(self._names.session)
        found = await self.site.services.sessions.find(token) if token else None
        visitor = self.http.cookies.get(self._names.visitor) or ""
        secret = self.site.context.secret
        if found is not None:
            return csrf_token(secret, CsrfKind.SESSION, found[1].forms_id)
        return csrf_token(secret, CsrfKind.VISITOR, visitor)

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.http.get(path, **options)

    async def post(
        self, path: str, data: Mapping[str, Any] | None = None, **options: Any
    ) -> httpx2.Response:
        """Send a form as a page of ours would."""
        return await self.http.post(
            path, data={"csrf": await self.csrf(), **(data or {})}, **options
        )

    async def said(self, response: httpx2.Response) -> str:
        """What the page says that a form leads to."""
        assert response.status_code == 303, (response.status_code, problem_in(response))
        page = await self.get(response.headers["location"])
        flash = r'<p class="flash(?:-text"|" role="status")>(.+?)</p>'
        found = re.search(flash, page.text, re.DOTALL)
        return found[1] if found else ""

    async def undo(self, response: httpx2.Response) -> str:
        """Press Undo on the page that a form leads to; what the next page says."""
        assert response.status_code == 303, (response.status_code, problem_in(response))
        page = await self.get(response.headers["location"])
        toast = page.text.partition('id="toast"')[2].partition("</div>")[0]
        [form] = forms_in(toast, "")
        assert ">Undo</button>" in toast
        return await self.said(await self.post(form.action, dict(form.fields)))


class Site:
    def __init__(self, url: str, context: WebContext) -> None:
        self.url = url
        self.context = context
        self.services: Services = context.services
        self._visitors: list[Visitor] = []

    def visitor(self) -> Visitor:
        """Return a visitor who is not logged in."""
        return self._known(Visitor(self))

    async def user(self, role: Role = Role.ADMINISTRATOR, email: str = "") -> Visitor:
        """Create a user with this role and return their browser, logged in."""
        user = await self.services.users.create(email or f"{role}@example.org", PASSWORD, role)
        return await self.log_in(user)

    async def log_in(self, user: User) -> Visitor:
        """Another browser of this user."""
        token = await self.services.sessions.start(user, "127.0.0.1", "a test")
        return self._known(Visitor(self, token=token, user=user))

    async def outlast_confirmation(self, visitor: Visitor) -> None:
        """Make it as long ago as a cookie may be old that this user last entered the password."""
        found = await self.services.sessions.find(visitor.session)
        assert found is not None
        rows = self.services.store.table("sessions")
        long_ago = datetime.now(UTC) - timedelta(minutes=11)
        partition = visitor.session.partition(".")[0]
        await rows.merge(Entity(partition, found[1].id, {"ConfirmedAt": long_ago}))

    def _known(self, visitor: Visitor) -> Visitor:
        self._visitors.append(visitor)
        return visitor

    async def close(self) -> None:
        for visitor in self._visitors:
            await visitor.http.aclose()


def problem_in(response: httpx2.Response) -> str:
    """The text of a page, as far as it helps to see why a test fails."""
    return " ".join(re.sub(r"<[^>]+>", " ", response.text).split())[:500]


@asynccontextmanager
async def running_site(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    limits: ConnectionLimits | None = None,
) -> AsyncIterator[Site]:
    """A real server on a free port of the loopback address, in the event loop of the test.

    Settings are given in lower case, as in `{"base_url": "https://…"}`.
    """
    given = {"data": str(folder / "data"), "port": "0", "online_checks": "no", **(settings or {})}
    loaded = load_settings({}, folder, given)
    listener = bound_socket(loaded)
    stopping = asyncio.Event()
    async with await open_store(loaded.storage.url) as store:
        services = Services(store, Keyring(lambda: [SECRET]), given.get("base_url", ""))
        context = WebContext(services, loaded, SECRET)
        serving = asyncio.create_task(serve(context, listener, stopping, limits))
        site = Site(f"http://127.0.0.1:{listener.getsockname()[1]}", context)
        try:
            yield site
        finally:
            await site.close()
            stopping.set()
            await serving
            await site.services.events.settle()
