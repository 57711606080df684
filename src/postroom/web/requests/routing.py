"""Routes of pages: each says who may see it, and nothing else decides that."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from urllib.parse import quote

import jinja2
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow, Overtaken
from postroom.errors import PostroomError
from postroom.services.accounts.sessions import SESSION_AGE, Session
from postroom.services.accounts.users import Role, User
from postroom.storage import StoreOutage
from postroom.web.context import WebContext
from postroom.web.requests.bodies import limited
from postroom.web.requests.signing import CsrfKind, csrf_token
from postroom.web.requests.sudo import unless_confirmed
from postroom.web.requests.visit import Endpoint, Visit

# A message's two bodies with the files that they are uploaded from.
LARGEST_FORM = 12 * 1024 * 1024
_FIELDS_SHOWN = 12
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Page:
    """A page: where it is, what answers, and which role it needs (None: everyone).

    `protected=False` is for forms that carry their own proof (links from mails, forms on a client's
    site): no session acts there, so there is nothing that a forged form could borrow, and visitors
    get no cookie.
    A page that can be got also answers HEAD: its endpoint sees a GET, so that it only looks.
    `audited=False` is for forms that change nothing, such as a preview. `max_body` is how many
    bytes of a request are taken; a larger one is answered with 413.
    `sudo=True` is for what decides who has access or what runs: its forms need a password that was
    entered a few minutes ago (`sudo.py`).
    """

    def __init__(
        self,
        path: str,
        endpoint: Endpoint,
        *,
        role: Role | None,
        methods: Sequence[str] = ("GET",),
        protected: bool = True,
        audited: bool = True,
        sudo: bool = False,
        max_body: int = LARGEST_FORM,
    ) -> None:
        self.path = path
        self.endpoint = endpoint
        self.role = role
        self.methods = tuple(methods)
        self.protected = protected
        self.audited = audited
        self.sudo = sudo
        self.max_body = max_body

    def route(self, context: WebContext, templates: jinja2.Environment) -> Route:
        async def answer(request: Request) -> Response:
            is_head = request.method == "HEAD"
            # In a copy: the server has to see that it is HEAD, or it would send a body.
            scope = {**request.scope, "method": "GET"} if is_head else request.scope
            request = Request(scope, limited(request, self.max_body))
            try:
                response = await self._answer(request, context, templates)
                return _head_of(response) if is_head else response
            except ClientDisconnect:
                return Response(status_code=400)  # whoever sent it is gone: nobody reads this
            finally:
                await request.close()  # files that were uploaded

        name = f"{self.endpoint.__module__}.{getattr(self.endpoint, '__name__', 'page')}"
        return Route(self.path, answer, methods=list(self.methods), name=name)

    async def _answer(
        self, request: Request, context: WebContext, templates: jinja2.Environment
    ) -> Response:
        visitor = request.cookies.get(context.cookies.visitor) or secrets.token_urlsafe(16)
        failure: PostroomError | None = None
        user, session = None, None
        try:
            user, session = await _who(request, context) or (None, None)
        except PostroomError as exc:
            failure = exc
        csrf = (
            csrf_token(context.secret, CsrfKind.VISITOR, visitor)
            if session is None
            else csrf_token(context.secret, CsrfKind.SESSION, session.forms_id)
        )
        visit = Visit(request, context, templates, user, session, csrf)
        response = refused(visit, failure) if failure else await self._checked(visit)
        await self._audit(visit, response)
        if visit.new_token and not _sets_cookie(response, context.cookies.session):
            age = int(SESSION_AGE.total_seconds())
            context.cookies.set(response, context.cookies.session, visit.new_token, age)
        if self.protected and session is None and context.cookies.visitor not in request.cookies:
            context.cookies.set(response, context.cookies.visitor, visitor)
        return response

    async def _checked(self, visit: Visit) -> Response:
        if self.role is not None:
            if visit.user is None:
                return _to_login(visit)
            if not visit.user.role.includes(self.role):
                return explain(
                    visit,
                    403,
                    "Not with your role",
                    f"This needs the role {self.role}; yours is {visit.user.role}."
                    " An administrator can change it.",
                )
        try:
            writes = self.protected and visit.request.method not in _READS
            if writes and not await visit.has_valid_token():
                return explain(
                    visit,
                    403,
                    "That form is too old",
                    "Nothing was changed. Go back, load the page again and repeat it.",
                )
            if writes and self.sudo and (question := await unless_confirmed(visit)) is not None:
                return question
            return await self.endpoint(visit)
        except HTTPException as exc:
            return explain(visit, exc.status_code, "That cannot be read", exc.detail)
        except PostroomError as exc:
            return refused(visit, exc)

    async def _audit(self, visit: Visit, response: Response) -> None:
        """What a user's form has done is on record, even if the page did not say it in words."""
        if (
            self.audited
            and visit.user is not None
            and visit.request.method not in _READS
            and response.status_code < 400
            and not visit.is_audited
        ):
            fields = ", ".join(visit.field_names[:_FIELDS_SHOWN])
            await visit.audit(f"{visit.request.method} {visit.path}", fields and f"with {fields}")


def _sets_cookie(response: Response, name: str) -> bool:
    """Whether a page has decided itself about this cookie: by logging in anew, or out."""
    begin = f"{name}=".encode()
    return any(
        header == b"set-cookie" and text.startswith(begin) for header, text in response.raw_headers
    )


def _head_of(response: Response) -> Response:
    """The answer without its body, which for some pages would never end."""
    head = Response(status_code=response.status_code, background=response.background)
    head.raw_headers = response.raw_headers
    return head


async def _who(request: Request, context: WebContext) -> tuple[User, Session] | None:
    token = request.cookies.get(context.cookies.session)
    return await context.services.sessions.find(token) if token else None


def _to_login(visit: Visit) -> Response:
    if visit.is_partial:
        # A part of a page cannot show the login form: the whole page goes there.
        return Response(status_code=401, headers={"HX-Redirect": "/login"})
    query = visit.request.url.query
    wanted = visit.path + (f"?{query}" if query else "")
    suffix = "" if wanted == "/" or visit.request.method != "GET" else f"?next={quote(wanted)}"
    return RedirectResponse(f"/login{suffix}", 303)


def explain(visit: Visit, status: int, title: str, text: str) -> Response:
    """A page that says what was wrong and what to do."""
    return visit.page("problem.html", status=status, title=title, text=text)


def refused(visit: Visit, error: PostroomError) -> Response:
    """The page for an error that the endpoint did not answer itself."""
    text = str(error)
    text = text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
    if isinstance(error, NoSuch):
        return explain(visit, 404, "Not here", text)
    if isinstance(error, Exists | Overtaken | NotNow):
        return explain(visit, 409, "Not now", text)
    if isinstance(error, Invalid | ValueError):
        return explain(visit, 422, "That cannot be accepted", text)
    if isinstance(error, StoreOutage):
        return explain(
            visit, 503, "The store cannot be reached", "Nothing was lost. Try again in a moment."
        )
    return explain(visit, 500, "That did not work", text)
