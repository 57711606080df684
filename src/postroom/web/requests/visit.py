"""A request for a page, with its user, its form, and ways to respond."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any

import jinja2
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from postroom.domain.audience.lists.list_rights import NO_ACCESS, ListAccess, ListRight
from postroom.domain.errors import NoListRight
from postroom.domain.messages.messages import Message
from postroom.services.accounts.presets import role_with
from postroom.services.accounts.sessions import Session
from postroom.services.accounts.users import Role, User
from postroom.services.audience.visible_lists import VisibleLists
from postroom.services.messages.visible_messages import VisibleMessages
from postroom.web.context import WebContext
from postroom.web.rendering import navigation
from postroom.web.rendering.templating import render
from postroom.web.requests.cookies import Signer
from postroom.web.requests.flash import LARGEST_COOKIE, Flash, Undo, packed, unpacked
from postroom.web.requests.forms import read_form

_FLASH_AGE = 60
LARGEST_PART = 11 * 1024 * 1024
"""Bytes of one form field: a message's body that was typed."""


class Visit:
    """What an endpoint gets. `user` is None if nobody is logged in.

    `access` says what the user may do with which lists, `named_lists` which ones the request is
    about. `lists` and `messages` are the lists and messages that exist for the user: pages read
    indexes there, never from the services.
    """

    def __init__(
        self,
        request: Request,
        context: WebContext,
        templates: jinja2.Environment,
        user: User | None,
        session: Session | None,
        csrf: str,
        access: ListAccess = NO_ACCESS,
    ) -> None:
        self.request = request
        self.context = context
        self.services = context.services
        self.user = user
        self.session = session
        self.csrf = csrf
        self.access = access
        self.named_lists: tuple[str, ...] = ()
        self._templates = templates
        self._form: FormData | None = None
        self.is_audited = False
        self.new_token = ""

    async def renew_session(self) -> None:
        """Give the session a new token, which the response sets as cookie (`views.py`)."""
        if self.session is None:
            return
        renewed = await self.services.sessions.renew(self.session)
        if renewed is not None:
            self.new_token, self.session = renewed

    @property
    def who(self) -> User:
        """The user, on pages that require a login."""
        if self.user is None:
            raise RuntimeError("a public page has no user")
        return self.user

    def may(self, what: Role | ListRight) -> bool:
        """Return whether the user has a role; or a right on the lists that the request is about.
        If it is about none, a right on some list is enough."""
        if self.user is None:
            return False
        role = what if isinstance(what, Role) else role_with(what)
        if self.user.role.includes(role):
            return True
        if isinstance(what, Role):
            return False
        if self.named_lists:
            return self.access.may(what, *self.named_lists)
        return self.access.may_somewhere(what)

    @property
    def lists(self) -> VisibleLists:
        return VisibleLists(self.services.lists, self.access)

    @cached_property
    def messages(self) -> VisibleMessages:
        return VisibleMessages(self.services.times, self.services.messages, self.access)

    def require(self, right: ListRight, message: Message) -> None:
        """Raise `NoListRight` unless the user has a right on each list of a message that the
        request did not name: it leads to it."""
        if not self.access.may(right, *message.all_lists):
            raise NoListRight(right, message.list_name)

    @property
    def path(self) -> str:
        return self.request.url.path

    @property
    def place(self) -> str:
        """The visitor's IP address; a trusted proxy may have reported it."""
        client = self.request.client
        return client.host if client else ""

    async def audit(self, what: str, on: str = "", *, who: str = "") -> None:
        """Record in the audit log that the user (or `who`, on public pages) did this.

        A successful form of a user is recorded anyway, by its URL. This describes it better, as in
        `await visit.audit("deleted list", name)`.
        """
        self.is_audited = True
        await self.services.audit.record(who or self.who.email, what, on, place=self.place)

    def skip_audit(self) -> None:
        """Keep this form out of the audit log: it changed nothing and only led to a question."""
        self.is_audited = True

    def parameter(self, name: str, default: str = "") -> str:
        """Return a parameter of the path or the query."""
        value = self.request.path_params.get(name)
        return self.request.query_params.get(name, default) if value is None else str(value)

    @property
    def is_partial(self) -> bool:
        """Whether htmx requests a fragment of a page."""
        return self.request.headers.get("HX-Request") == "true"

    async def form(self) -> FormData:
        if self._form is None:
            self._form = await read_form(
                self.request, max_files=4, max_fields=2000, max_part_size=LARGEST_PART
            )
        return self._form

    async def text(self, field: str, default: str = "") -> str:
        """Return a field of the form as text; a file counts as missing."""
        value = (await self.form()).get(field, default)
        return value if isinstance(value, str) else default

    @property
    def field_names(self) -> list[str]:
        """The names of the form's fields, if it was read."""
        names = set() if self._form is None else set(self._form)
        return sorted(each for each in names if each != "csrf" and not each.startswith("sudo_"))

    def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        flash = self._flash()
        html = render(
            self._templates,
            template,
            {
                "visit": self,
                "user": self.user,
                "csrf": self.csrf,
                "may": self.may,
                "Role": Role,
                "ListRight": ListRight,
                "flash": flash,
                "navigation": navigation,
                **values,
            },
        )
        response = HTMLResponse(html, status)
        if flash is not None:
            self.context.cookies.delete(response, self.context.cookies.flash)
        return response

    def redirect(self, to: str, flash: str = "", undo: Undo | None = None) -> Response:
        """Redirect to one of our pages, which shows the flash message once.

        With `undo` it has a button that reverts what was done, unless that is too much for a
        cookie.
        """
        if not to.startswith("/") or to.startswith(("//", "/\\")):
            to = "/"  # never to another site
        response = RedirectResponse(to, 303)
        if flash:
            signer = Signer(self.context.secret, "flash")
            text = signer.sign(packed(Flash(flash, undo)))
            if undo is not None and len(text) > LARGEST_COOKIE:
                text = signer.sign(packed(Flash(flash)))
            self.context.cookies.set(response, self.context.cookies.flash, text, _FLASH_AGE)
        return response

    def _flash(self) -> Flash | None:
        cookie = self.request.cookies.get(self.context.cookies.flash)
        if not cookie:
            return None
        value = Signer(self.context.secret, "flash").read(cookie, max_age=_FLASH_AGE)
        return unpacked(value)

    async def has_valid_token(self) -> bool:
        """Check the CSRF token, from the form or from htmx's header."""
        given = self.request.headers.get("X-CSRF-Token") or await self.text("csrf")
        return hmac.compare_digest(given.encode(errors="replace"), self.csrf.encode())


Endpoint = Callable[[Visit], Awaitable[Response]]
