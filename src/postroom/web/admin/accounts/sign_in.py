"""First start, log in, log out, and the links that let somebody in."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime

from starlette.responses import Response

from postroom.domain.errors import Exists, Invalid, NotNow
from postroom.services.accounts.access_links import LinkKind
from postroom.services.accounts.login_pace import TooManyCodes
from postroom.services.accounts.sessions import SESSION_AGE
from postroom.services.accounts.users import Role, User
from postroom.web.context import WebContext
from postroom.web.requests.devices import device_of, remember_device
from postroom.web.requests.routing import Page, explain
from postroom.web.requests.signing import Signer
from postroom.web.requests.visit import Visit

_SETUP_AGE = 7 * 24 * 3600
_CODE_AGE = 5 * 60
_LARGEST_FORM = 64 * 1024  # strangers may send these
_WRONG = "Wrong email or password. After many attempts you may have to wait a minute between them."


def setup_link(context: WebContext) -> str:
    """Where the first administrator is made; it works until there is one."""
    token = Signer(context.secret, "setup").sign("first administrator")
    return f"{context.base_url}/setup?token={token}"


async def setup(visit: Visit) -> Response:
    if not await visit.services.users.is_first_start():
        return visit.redirect("/login", "Postroom is set up already: log in.")
    token = visit.parameter("token") or await visit.text("token")
    if Signer(visit.context.secret, "setup").read(token, max_age=_SETUP_AGE) is None:
        return explain(
            visit,
            403,
            "This link does not fit",
            "Use the link that was printed when Postroom was started, all of it.",
        )
    if visit.request.method == "GET":
        return visit.page("admin/accounts/setup.html", token=token, email="", problems={})
    email = await visit.text("email")
    try:
        user = await visit.services.users.create(
            email, await visit.text("password"), Role.ADMINISTRATOR
        )
    except Invalid as exc:
        problems = {exc.field: exc.problem}
        return visit.page(
            "admin/accounts/setup.html", status=422, token=token, email=email, problems=problems
        )
    await visit.audit("set Postroom up", who=user.email)
    return await enter(visit, user, "/", "Welcome. Begin with a list.")


async def login(visit: Visit) -> Response:
    wanted = visit.parameter("next", "/")
    if visit.user is not None:
        return visit.redirect(wanted)
    if visit.request.method == "GET":
        is_new = await visit.services.users.is_first_start()
        return _login_form(visit, wanted=wanted, is_new=is_new)
    email, wanted = await visit.text("email"), await visit.text("next", "/")
    device = device_of(visit, email)
    if wait := visit.context.login_limits.take(email, visit.place, device):
        return _too_often(
            wait,
            lambda told: _login_form(visit, status=429, email=email, wanted=wanted, problem=told),
        )
    user = await visit.services.users.authenticate(
        email, await visit.text("password"), is_known_device=bool(device)
    )
    if user is None:
        return _login_form(visit, status=422, email=email, wanted=wanted, problem=_WRONG)
    if user.has_second_factor:
        half = Signer(visit.context.secret, "half way in").sign([user.email, user.epoch])
        return _code_form(visit, half=half, wanted=wanted)
    visit.context.login_limits.forget(email, visit.place, device)
    await visit.audit("logged in", who=user.email)
    return await enter(visit, user, wanted)


async def code(visit: Visit) -> Response:
    """The second factor of somebody whose password was right a moment ago."""
    half, wanted = await visit.text("half"), await visit.text("next", "/")
    signed = Signer(visit.context.secret, "half way in").read(half, max_age=_CODE_AGE)
    if signed is None:
        return visit.redirect("/login", "That took too long: log in again.")
    email, epoch = signed
    device = device_of(visit, email)
    if wait := visit.context.login_limits.take(email, visit.place, device):
        return _too_often(
            wait, lambda told: _code_form(visit, status=429, half=half, wanted=wanted, problem=told)
        )
    try:
        is_right = await visit.services.users.check_code(email, await visit.text("code"))
    except TooManyCodes as exc:
        return _too_often(
            math.ceil(exc.seconds),
            lambda told: _code_form(visit, status=429, half=half, wanted=wanted, problem=told),
        )
    if not is_right:
        problem = "This code does not fit, or was used already. Wait for the next one."
        return _code_form(visit, status=422, half=half, wanted=wanted, problem=problem)
    user = await visit.services.users.get(email)
    if user.epoch != epoch:
        return visit.redirect("/login", "The password was changed meanwhile: log in again.")
    visit.context.login_limits.forget(email, visit.place, device)
    await visit.audit("logged in", "with a second factor", who=user.email)
    said = ""
    if user.recovery_codes_left < 3:
        said = f"You have {user.recovery_codes_left} recovery codes left: make new ones."
    return await enter(visit, user, wanted, said)


async def logout(visit: Visit) -> Response:
    if visit.session is not None:
        await visit.services.sessions.end(visit.session.email, visit.session.id)
        await visit.audit("logged out")
    response = visit.redirect("/login", "You are logged out.")
    visit.context.cookies.delete(response, visit.context.cookies.session)
    # Pages are never cached; this is for what they left in the browser's storage.
    response.headers["Clear-Site-Data"] = '"storage"'
    return response


async def join(visit: Visit) -> Response:
    """An invitation, or a link for a new password."""
    token = visit.parameter("token") or await visit.text("token")
    link = await visit.services.access_links.find(token)
    if link is None:
        return explain(
            visit,
            404,
            "This link does not work",
            "It was used already, it is too old, or it was taken back."
            " Ask an administrator for another one.",
        )
    if visit.request.method == "GET":
        return visit.page("admin/accounts/join.html", token=token, link=link, problems={})
    try:
        user = await visit.services.access_links.use(token, await visit.text("password"))
    except Invalid as exc:
        problems = {exc.field: exc.problem}
        return visit.page(
            "admin/accounts/join.html", status=422, token=token, link=link, problems=problems
        )
    except (Exists, NotNow):
        return visit.redirect("/login", "This link was used already: log in.")
    invited = link.kind is LinkKind.INVITATION
    await visit.audit("accepted an invitation" if invited else "set a new password", who=user.email)
    if user.has_second_factor:
        return visit.redirect("/login", "Your password is changed: log in with it.")
    return await enter(visit, user, "/", "Welcome." if invited else "Your password is changed.")


async def enter(
    visit: Visit, user: User, to: str, said: str = "", *, confirmed_at: datetime | None = None
) -> Response:
    """Begin a session in this browser, and end the one that it had."""
    if visit.session is not None:
        await visit.services.sessions.end(visit.session.email, visit.session.id)
    token = await visit.services.sessions.start(
        user,
        visit.place,
        visit.request.headers.get("user-agent", ""),
        confirmed_at=confirmed_at,
    )
    response = visit.redirect(to, said)
    cookies, age = visit.context.cookies, int(SESSION_AGE.total_seconds())
    cookies.set(response, cookies.session, token, age)
    remember_device(visit, response, user.email)
    return response


def _login_form(
    visit: Visit,
    *,
    wanted: str,
    status: int = 200,
    email: str = "",
    problem: str = "",
    is_new: bool = False,
) -> Response:
    return visit.page(
        "admin/accounts/login.html",
        status=status,
        email=email,
        wanted=wanted,
        problem=problem,
        is_new=is_new,
    )


def _code_form(
    visit: Visit, *, half: str, wanted: str, status: int = 200, problem: str = ""
) -> Response:
    return visit.page(
        "admin/accounts/code.html", status=status, half=half, wanted=wanted, problem=problem
    )


def _too_often(wait: int, form: Callable[[str], Response]) -> Response:
    """Says the same whether there is such a user or not."""
    told = f"{wait} s" if wait <= 120 else f"{math.ceil(wait / 60)} min"
    response = form(f"Too many attempts. Wait {told}, then try again.")
    response.headers["Retry-After"] = str(wait)
    return response


PAGES = (
    Page("/setup", setup, role=None, methods=("GET", "POST"), max_body=_LARGEST_FORM),
    Page("/login", login, role=None, methods=("GET", "POST"), max_body=_LARGEST_FORM),
    Page("/login/code", code, role=None, methods=("POST",), max_body=_LARGEST_FORM),
    Page("/logout", logout, role=None, methods=("POST",), max_body=_LARGEST_FORM),
    Page("/join", join, role=None, methods=("GET", "POST"), max_body=_LARGEST_FORM),
)
