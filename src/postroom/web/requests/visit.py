"""One request for a page, with who asks and how to answer."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import jinja2
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from postroom.services.accounts.sessions import Session
from postroom.services.accounts.users import Role, User
from postroom.web.context import WebContext
from postroom.web.rendering.templating import render
from postroom.web.requests.form_reading import read_form
from postroom.web.requests.signing import Signer

_SAID_AGE = 60
LARGEST_PART = 11 * 1024 * 1024
"""Bytes of one field: a message's body that was typed."""


class Visit:
    """What an endpoint gets. `user` is None on pages for everyone."""

    def __init__(
        self,
        request: Request,
        context: WebContext,
        templates: jinja2.Environment,
        user: User | None,
        session: Session | None,
        csrf: str,
    ) -> None:
        self.request = request
        self.context = context
        self.services = context.services
        self.user = user
        self.session = session
        self.csrf = csrf
        self._templates = templates
        self._form: FormData | None = None
        self.is_audited = False
        self.new_token = ""

    async def renew_session(self) -> None:
        """Give the session a new token, which the answer takes to the browser (`routing.py`)."""
        if self.session is None:
            return
        renewed = await self.services.sessions.renew(self.session)
        if renewed is not None:
            self.new_token, self.session = renewed

    @property
    def who(self) -> User:
        """The user; only pages that need a login may ask."""
        if self.user is None:
            raise RuntimeError("this page is for everyone: it has no user")
        return self.user

    def may(self, role: Role) -> bool:
        return self.user is not None and self.user.role.includes(role)

    @property
    def path(self) -> str:
        return self.request.url.path

    @property
    def place(self) -> str:
        """The address that the visitor comes from; a proxy's word counts only if it is trusted."""
        client = self.request.client
        return client.host if client else ""

    async def audit(self, what: str, on: str = "", *, who: str = "") -> None:
        """Keep in the audit log that the user (or `who`, on pages for everyone) did this.

        A form that was sent by a user and accepted is recorded anyway, by its address: this says
        it better, as in `await visit.audit("deleted list", name)`.
        """
        self.is_audited = True
        await self.services.audit.record(who or self.who.email, what, on, place=self.place)

    def leaves_no_record(self) -> None:
        """This form has changed nothing, it only led to a question."""
        self.is_audited = True

    def parameter(self, name: str, default: str = "") -> str:
        """A part of the path or of the query."""
        value = self.request.path_params.get(name)
        return self.request.query_params.get(name, default) if value is None else str(value)

    @property
    def is_partial(self) -> bool:
        """htmx asks for a part of a page."""
        return self.request.headers.get("HX-Request") == "true"

    async def form(self) -> FormData:
        if self._form is None:
            self._form = await read_form(
                self.request, max_files=4, max_fields=2000, max_part_size=LARGEST_PART
            )
        return self._form

    async def text(self, field: str, default: str = "") -> str:
        """A field of the form as text; a file in its place counts as nothing."""
        value = (await self.form()).get(field, default)
        return value if isinstance(value, str) else default

    @property
    def field_names(self) -> list[str]:
        """Which fields the form had, as far as it was read."""
        names = set() if self._form is None else set(self._form)
        return sorted(each for each in names if each != "csrf" and not each.startswith("sudo_"))

    # — Answers —

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        said = self._said()
        html = render(
            self._templates,
            template,
            {
                "visit": self,
                "user": self.user,
                "csrf": self.csrf,
                "may": self.may,
                "Role": Role,
                "said": said,
                **values,
            },
        )
        response = HTMLResponse(html, status)
        if said is not None:
            self.context.cookies.delete(response, self.context.cookies.said)
        return response

    def redirect(self, to: str, said: str = "") -> Response:
        """Go on to another page of ours, which says once what was done."""
        if not to.startswith("/") or to.startswith(("//", "/\\")):
            to = "/"  # never to somebody else's site
        response = RedirectResponse(to, 303)
        if said:
            text = Signer(self.context.secret, "said").sign(said)
            self.context.cookies.set(response, self.context.cookies.said, text, _SAID_AGE)
        return response

    def _said(self) -> str | None:
        cookie = self.request.cookies.get(self.context.cookies.said)
        if not cookie:
            return None
        value = Signer(self.context.secret, "said").read(cookie, max_age=_SAID_AGE)
        return value if isinstance(value, str) else None

    async def has_valid_token(self) -> bool:
        """Whether the form came from a page of ours: from the field, or htmx's header."""
        given = self.request.headers.get("X-CSRF-Token") or await self.text("csrf")
        return hmac.compare_digest(given.encode(errors="replace"), self.csrf.encode())


Endpoint = Callable[[Visit], Awaitable[Response]]
