"""Views: each declares its URL and the role or the right on lists that it requires, and nothing
else decides access."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from urllib.parse import quote

import jinja2
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.domain.audience.lists.list_rights import ALL_RIGHTS, NO_ACCESS, ListAccess, ListRight
from postroom.domain.errors import Exists, Invalid, NoListRight, NoSuch, NotNow, Overtaken
from postroom.errors import PostroomError
from postroom.services.accounts.presets import role_with
from postroom.services.accounts.sessions import SESSION_AGE, Session
from postroom.services.accounts.users import Role, User
from postroom.storage import StoreOutage
from postroom.web.context import WebContext
from postroom.web.rendering.navigation import place_of
from postroom.web.rendering.templating import with_status_labels
from postroom.web.requests.cookies import CsrfKind, csrf_token
from postroom.web.requests.forms import limited
from postroom.web.requests.list_checks import (
    check_named_rules,
    find_lists,
    named_in_fields,
    named_in_path,
    require,
    together,
)
from postroom.web.requests.sudo import unless_confirmed
from postroom.web.requests.visit import Endpoint, Visit

# A message's two bodies, and the files that they are uploaded from.
LARGEST_FORM = 12 * 1024 * 1024
_FIELDS_SHOWN = 12
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class View:
    """A view: its path, its endpoint, and the role it requires.

    `is_public=True` instead of a role: the view is open to everyone, without a login.
    `right` instead of a role: the view is about lists. It is open to everyone who has the right on
    each list that the request names, and to roles that give it on every list. A view that declares
    a role is closed to members, who have nothing but rights on lists.
    `protected=False`: no CSRF token, no visitor cookie. For links in emails and forms on other
    websites, which act without a session, so that there is nothing for a forged form to abuse.
    `audited=False`: for forms that change nothing, such as a preview.
    `uses_rules=False`: no rule of a segment is evaluated, or the endpoint checks it itself. Other
    views are closed to users who may not see a message that a rule names.
    `sudo=True`: its forms require that the password was entered recently (`sudo.py`).
    `max_body`: a larger request body is refused with 413.
    A view with GET also answers HEAD; its endpoint then sees a GET.
    """

    def __init__(
        self,
        path: str,
        endpoint: Endpoint,
        *,
        role: Role | None = None,
        right: ListRight | None = None,
        is_public: bool = False,
        methods: Sequence[str] = ("GET",),
        protected: bool = True,
        audited: bool = True,
        uses_rules: bool = True,
        sudo: bool = False,
        max_body: int = LARGEST_FORM,
    ) -> None:
        if [role is not None, right is not None, is_public].count(True) != 1:
            raise ValueError(f"{path} must declare one of role, right and is_public")
        self.path = path
        self.endpoint = endpoint
        self.is_public = is_public
        self.role = role if right is None else role_with(right)
        self.right = right
        self.needs = right or role
        self.methods = tuple(methods)
        self.protected = protected
        self.audited = audited
        self.uses_rules = uses_rules
        self.sudo = sudo
        self.max_body = max_body

    def route(self, context: WebContext, templates: jinja2.Environment) -> Route:
        async def respond(request: Request) -> Response:
            is_head = request.method == "HEAD"
            # In a copy: the server must see HEAD, or it would send a body.
            scope = {**request.scope, "method": "GET"} if is_head else request.scope
            request = Request(scope, limited(request, self.max_body))
            try:
                response = await self._respond(request, context, templates)
                return _without_body(response) if is_head else response
            except ClientDisconnect:
                return Response(status_code=400)  # never read: the client is gone
            finally:
                await request.close()  # removes uploaded files

        name = f"{self.endpoint.__module__}.{getattr(self.endpoint, '__name__', 'page')}"
        return Route(self.path, respond, methods=list(self.methods), name=name)

    async def _respond(
        self, request: Request, context: WebContext, templates: jinja2.Environment
    ) -> Response:
        visitor = request.cookies.get(context.cookies.visitor) or secrets.token_urlsafe(16)
        failure: PostroomError | None = None
        user, session, access = None, None, NO_ACCESS
        try:
            user, session = await _find_session(request, context) or (None, None)
            access = await _find_access(user, context)
        except PostroomError as exc:
            failure = exc
        csrf = (
            csrf_token(context.secret, CsrfKind.VISITOR, visitor)
            if session is None
            else csrf_token(context.secret, CsrfKind.SESSION, session.forms_id)
        )
        visit = Visit(request, context, templates, user, session, csrf, access)
        response = error_response(visit, failure) if failure else await self._checked(visit)
        await self._audit(visit, response)
        if visit.new_token and not _sets_cookie(response, context.cookies.session):
            age = int(SESSION_AGE.total_seconds())
            context.cookies.set(response, context.cookies.session, visit.new_token, age)
        if self.protected and session is None and context.cookies.visitor not in request.cookies:
            context.cookies.set(response, context.cookies.visitor, visitor)
        return response

    async def _checked(self, visit: Visit) -> Response:
        if not self.is_public:
            if visit.user is None:
                return _to_login(visit)
            role = self.role
            if self.right is None and (role is None or not visit.user.role.includes(role)):
                return _denied(visit, f"the role {self.role}")
        try:
            writes = self.protected and visit.request.method not in _READS
            if writes and not await visit.has_valid_token():
                return error_page(
                    visit,
                    403,
                    "This page has expired",
                    "Nothing was changed. Go back, reload the page and try again.",
                )
            await self._check_lists(visit)
            if writes and self.sudo and (question := await unless_confirmed(visit)) is not None:
                return question
            return await self.endpoint(visit)
        except NoListRight as exc:
            where = f" on the list {exc.list_name}" if exc.list_name else ""
            return _denied(visit, f"the right “{exc.right}”{where}")
        except HTTPException as exc:
            title = "Request too large" if exc.status_code == 413 else "Invalid request"
            return error_page(visit, exc.status_code, title, exc.detail)
        except PostroomError as exc:
            return error_response(visit, exc)

    async def _check_lists(self, visit: Visit) -> None:
        """Raise `NoSuch` or `NoListRight` unless the user has the right on all lists that the
        request names. A role that gives it on every list is enough."""
        if self.right is None or visit.access.everywhere == ALL_RIGHTS:
            return
        request = visit.request
        named = together(
            named_in_path(self.path, request.path_params),
            named_in_fields(request.query_params.multi_items()),
            named_in_fields(() if request.method in _READS else (await visit.form()).multi_items()),
        )
        visit.named_lists = await find_lists(visit.services, visit.access, named)
        if self.uses_rules:
            await check_named_rules(visit.services, visit.access, named)
        if self.right not in visit.access.everywhere:
            require(visit.access, self.right, visit.named_lists)

    async def _audit(self, visit: Visit, response: Response) -> None:
        """Record a successful form in the audit log if its endpoint has not done so."""
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
    """Return whether the endpoint has set this cookie itself, by logging in or out."""
    begin = f"{name}=".encode()
    return any(
        header == b"set-cookie" and text.startswith(begin) for header, text in response.raw_headers
    )


def _without_body(response: Response) -> Response:
    """Return the response without its body, which some pages stream without end."""
    head = Response(status_code=response.status_code, background=response.background)
    head.raw_headers = response.raw_headers
    return head


async def _find_access(user: User | None, context: WebContext) -> ListAccess:
    """Return the user's rights on lists."""
    return NO_ACCESS if user is None else await context.services.list_access.of_user(user)


def _denied(visit: Visit, needed: str) -> Response:
    text = f"This requires {needed}. Your role is {visit.who.role}; an administrator can change it."
    return error_page(visit, 403, "Permission denied", text)


async def _find_session(request: Request, context: WebContext) -> tuple[User, Session] | None:
    token = request.cookies.get(context.cookies.session)
    return await context.services.sessions.find(token) if token else None


def _to_login(visit: Visit) -> Response:
    if visit.is_partial:
        # A fragment cannot show the login form: the whole page is redirected.
        return Response(status_code=401, headers={"HX-Redirect": "/login"})
    query = visit.request.url.query
    wanted = visit.path + (f"?{query}" if query else "")
    suffix = "" if wanted == "/" or visit.request.method != "GET" else f"?next={quote(wanted)}"
    return RedirectResponse(f"/login{suffix}", 303)


def error_page(
    visit: Visit, status: int, title: str, text: str, way: tuple[str, str] | None = None
) -> Response:
    """Render a page that says what went wrong and what to do.

    `way`: the address and the text of the link that leads on; by default, to the place in the
    navigation that the page belongs to.
    """
    way = way or _way_on(visit, status)
    return visit.render("problem.html", status=status, title=title, text=text, way=way)


def _way_on(visit: Visit, status: int) -> tuple[str, str]:
    place = None if status == 403 else place_of(visit.path, visit.may)
    if place is None or (place.path == visit.path and not visit.request.url.query):
        return "/", "Go to Home"
    return place.path, f"Go to {place.label}"


def _to_message(visit: Visit) -> tuple[str, str] | None:
    """Return the link to the message that the page is about."""
    ref = visit.request.path_params.get("ref")
    own = f"/messages/{ref}"
    return (own, "Go to the message") if ref and visit.path.startswith(f"{own}/") else None


def error_response(visit: Visit, error: PostroomError) -> Response:
    """Render the page for an error that an endpoint did not handle."""
    text = str(error)
    text = text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
    if isinstance(error, NoSuch):
        return error_page(visit, 404, "Not found", text)
    if isinstance(error, Exists | Overtaken | NotNow):
        return error_page(visit, 409, "Conflict", with_status_labels(text), _to_message(visit))
    if isinstance(error, Invalid | ValueError):
        return error_page(visit, 422, "Invalid input", text)
    if isinstance(error, StoreOutage):
        return error_page(
            visit, 503, "Store unavailable", "Nothing was lost. Try again in a moment."
        )
    return error_page(visit, 500, "Something went wrong", text)
