"""First start, login, logout, invitations and password resets."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable
from datetime import datetime

from starlette.responses import Response

from postroom.access_mail import sends_links
from postroom.domain.errors import Exists, Invalid, NotNow
from postroom.services.accounts.access_links import LinkKind
from postroom.services.accounts.second_factor import TooManyCodes
from postroom.services.accounts.sessions import SESSION_AGE
from postroom.services.accounts.users import Role, User
from postroom.web.context import WebContext
from postroom.web.rendering.templating import counted
from postroom.web.requests.cookies import Signer
from postroom.web.requests.views import View, error_page
from postroom.web.requests.visit import Visit

_SETUP_AGE = 7 * 24 * 3600
_CODE_AGE = 5 * 60
TO_LOGIN = ("/login", "Log in")
"""The link of an error page for people who are logged out."""
LARGEST_FORM = 64 * 1024  # anyone can send these
_WRONG = "Wrong email or password. After many attempts you may have to wait a minute between them."


def setup_link(context: WebContext) -> str:
    """Return the link to create the first administrator; it works until there is one."""
    token = Signer(context.secret, "setup").sign("first administrator")
    return f"{context.base_url}/setup?token={token}"


async def setup(visit: Visit) -> Response:
    if not await visit.services.users.is_first_start():
        return visit.redirect("/login", "Postroom is already set up. Please log in.")
    token = visit.parameter("token") or await visit.text("token")
    if Signer(visit.context.secret, "setup").read(token, max_age=_SETUP_AGE) is None:
        return error_page(
            visit,
            403,
            "This link does not work",
            "Use the complete link that Postroom printed when it started.",
        )
    if visit.request.method == "GET":
        return visit.render("admin/accounts/setup.html", token=token, email="", problems={})
    email = await visit.text("email")
    try:
        user = await visit.services.users.create(
            email, await visit.text("password"), Role.ADMINISTRATOR
        )
    except Invalid as exc:
        problems = {exc.field: exc.problem}
        return visit.render(
            "admin/accounts/setup.html", status=422, token=token, email=email, problems=problems
        )
    await visit.audit("set Postroom up", who=user.email)
    hint = "" if await visit.services.lists.names(limit=1) else " Start by creating a list."
    return await enter(visit, user, "/", f"Welcome to Postroom.{hint}")


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
        return too_often(
            wait,
            lambda text: _login_form(visit, status=429, email=email, wanted=wanted, problem=text),
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
    """Check the second factor of a user whose password was correct a moment ago."""
    half, wanted = await visit.text("half"), await visit.text("next", "/")
    signed = Signer(visit.context.secret, "half way in").read(half, max_age=_CODE_AGE)
    if signed is None:
        return visit.redirect("/login", "That took too long. Please log in again.")
    email, epoch = signed
    device = device_of(visit, email)
    if wait := visit.context.login_limits.take(email, visit.place, device):
        return too_often(
            wait, lambda text: _code_form(visit, status=429, half=half, wanted=wanted, problem=text)
        )
    try:
        is_right = await visit.services.users.check_code(email, await visit.text("code"))
    except TooManyCodes as exc:
        return too_often(
            math.ceil(exc.seconds),
            lambda text: _code_form(visit, status=429, half=half, wanted=wanted, problem=text),
        )
    if not is_right:
        problem = "Wrong code, or it was already used. Wait for the next one."
        return _code_form(visit, status=422, half=half, wanted=wanted, problem=problem)
    user = await visit.services.users.get(email)
    if user.epoch != epoch:
        return visit.redirect("/login", "The password has been changed. Please log in again.")
    visit.context.login_limits.forget(email, visit.place, device)
    await visit.audit("logged in", "with a second factor", who=user.email)
    flash = ""
    if user.recovery_codes_left < 3:
        left = counted(user.recovery_codes_left, "recovery code", "recovery codes")
        flash = f"You have {left} left. Create new ones under Your account."
    return await enter(visit, user, wanted, flash)


async def logout(visit: Visit) -> Response:
    if visit.session is not None:
        await visit.services.sessions.end(visit.session.email, visit.session.id)
        await visit.audit("logged out")
    response = visit.redirect("/login", "You are logged out.")
    visit.context.cookies.delete(response, visit.context.cookies.session)
    # Pages are never cached; this clears what they left in the browser's storage.
    response.headers["Clear-Site-Data"] = '"storage"'
    return response


async def join(visit: Visit) -> Response:
    """Accept an invitation, or set a new password."""
    token = visit.parameter("token") or await visit.text("token")
    link = await visit.services.access_links.find(token)
    if link is None:
        return error_page(
            visit,
            404,
            "This link does not work",
            "It has already been used, has expired, or was revoked."
            " Ask an administrator for a new one.",
            TO_LOGIN,
        )
    if visit.request.method == "GET":
        return visit.render("admin/accounts/join.html", token=token, link=link, problems={})
    try:
        user = await visit.services.access_links.use(token, await visit.text("password"))
    except Invalid as exc:
        problems = {exc.field: exc.problem}
        return visit.render(
            "admin/accounts/join.html", status=422, token=token, link=link, problems=problems
        )
    except (Exists, NotNow):
        return visit.redirect("/login", "This link has already been used. Please log in.")
    invited = link.kind is LinkKind.INVITATION
    await visit.audit("accepted an invitation" if invited else "set a new password", who=user.email)
    if user.has_second_factor:
        return visit.redirect("/login", "Password changed. Please log in with it.")
    return await enter(visit, user, "/", "Welcome to Postroom." if invited else "Password changed.")


async def enter(
    visit: Visit, user: User, to: str, flash: str = "", *, confirmed_at: datetime | None = None
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
    response = visit.redirect(to, flash)
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
    return visit.render(
        "admin/accounts/login.html",
        status=status,
        email=email,
        wanted=wanted,
        problem=problem,
        is_new=is_new,
        can_send_links=sends_links(visit.context.settings),
    )


def _code_form(
    visit: Visit, *, half: str, wanted: str, status: int = 200, problem: str = ""
) -> Response:
    return visit.render(
        "admin/accounts/code.html", status=status, half=half, wanted=wanted, problem=problem
    )


def too_often(wait: int, form: Callable[[str], Response]) -> Response:
    """Render the form with the time to wait; the same whether or not the user exists."""
    shown = f"{wait} seconds" if wait <= 120 else f"{math.ceil(wait / 60)} minutes"
    response = form(f"Too many attempts. Wait {shown}, then try again.")
    response.headers["Retry-After"] = str(wait)
    return response


_AGE = 365 * 24 * 3600
_PURPOSE = "known device"
_MOST_USERS = 5  # of one browser


def device_of(visit: Visit, email: str) -> str:
    """Return the id of this device if this user has logged in with it before, otherwise ""."""
    return _known(visit).get(_hashed(email), "")


def remember_device(visit: Visit, response: Response, email: str) -> None:
    """Set the cookie, or add this user to it."""
    who = _hashed(email)
    others = {user: name for user, name in _known(visit).items() if user != who}
    kept = list(others.items())[-(_MOST_USERS - 1) :]
    devices = dict([*kept, (who, secrets.token_urlsafe(12))])
    signed = Signer(visit.context.secret, _PURPOSE).sign(devices)
    visit.context.cookies.set(response, visit.context.cookies.device, signed, _AGE)


def _known(visit: Visit) -> dict[str, str]:
    """Return the devices in the cookie, by user."""
    cookie = visit.request.cookies.get(visit.context.cookies.device, "")
    found = Signer(visit.context.secret, _PURPOSE).read(cookie, max_age=_AGE) if cookie else None
    return found if isinstance(found, dict) else {}


def _hashed(email: str) -> str:
    return hashlib.sha256(email.strip().lower().encode(errors="replace")).hexdigest()[:32]


VIEWS = (
    View("/setup", setup, is_public=True, methods=("GET", "POST"), max_body=LARGEST_FORM),
    View("/login", login, is_public=True, methods=("GET", "POST"), max_body=LARGEST_FORM),
    View("/login/code", code, is_public=True, methods=("POST",), max_body=LARGEST_FORM),
    View("/logout", logout, is_public=True, methods=("POST",), max_body=LARGEST_FORM),
    View("/join", join, is_public=True, methods=("GET", "POST"), max_body=LARGEST_FORM),
)
