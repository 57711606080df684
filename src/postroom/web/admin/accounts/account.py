"""The user's own account: password, two-factor authentication, sessions."""

from __future__ import annotations

import segno
from markupsafe import Markup
from starlette.responses import Response

from postroom.domain.errors import Invalid
from postroom.services.accounts import second_factor
from postroom.services.accounts.passwords import check_password
from postroom.services.accounts.users import Role
from postroom.web.admin.accounts.login import enter
from postroom.web.rendering.templating import counted
from postroom.web.requests.cookies import Signer
from postroom.web.requests.views import View
from postroom.web.requests.visit import Endpoint, Visit

_ENROL_AGE = 3600
_WRONG_PASSWORD = "is not your password"  # noqa: S105 — an error message
_TOO_OFTEN = "was entered too often: wait {} seconds, then try again"


async def account(visit: Visit) -> Response:
    return await _show(visit)


async def _show(visit: Visit, problems: dict[str, str] | None = None) -> Response:
    sessions = await visit.services.sessions.of(visit.who)
    return visit.render(
        "admin/accounts/account.html",
        status=422 if problems else 200,
        sessions=sessions,
        problems=problems or {},
    )


async def change_password(visit: Visit) -> Response:
    new = await visit.text("new_password")
    try:
        check_password(new, "new_password", email=visit.who.email)
    except Invalid as exc:
        return await _show(visit, {exc.field: exc.problem})
    if new != await visit.text("again"):
        return await _show(visit, {"again": "does not match the new password"})
    if problem := await _problem_with_password(visit):
        return await _show(visit, {"old_password": problem})
    user = await visit.services.users.set_password(visit.who.email, new)
    await visit.audit("changed their password")
    flash = "Password changed. You are logged out everywhere else."
    # No code was entered here: a second factor is asked for before the next dangerous change.
    session = visit.session if user.has_second_factor else None
    confirmed_at = (session.confirmed_at or session.started_at) if session else None
    return await enter(visit, user, "/account", flash, confirmed_at=confirmed_at)


async def choose_digest(visit: Visit) -> Response:
    wanted = await visit.text("digest") == "yes"
    await visit.services.users.choose_digest(visit.who.email, wanted)
    await visit.audit("turned on the weekly digest" if wanted else "turned off the weekly digest")
    return visit.redirect("/account", f"Weekly digest turned {'on' if wanted else 'off'}.")


async def end_session(visit: Visit) -> Response:
    await visit.services.sessions.end(visit.who.email, await visit.text("id"))
    await visit.audit("ended one of their sessions")
    return visit.redirect("/account", "Session ended.")


async def end_other_sessions(visit: Visit) -> Response:
    mine = visit.session.id if visit.session else ""
    ended = await visit.services.sessions.end_all(visit.who, but=mine)
    await visit.audit("ended all their other sessions")
    return visit.redirect("/account", f"{counted(ended, 'session', 'sessions')} ended.")


# — Two-factor authentication —


async def second_factor_page(visit: Visit) -> Response:
    if visit.who.has_second_factor:
        return visit.redirect("/account", "Two-factor authentication is already on.")
    signer = Signer(visit.context.secret, f"second factor of {visit.who.email}")
    if visit.request.method == "GET":
        return _enrol(visit, signer, second_factor.new_secret())
    secret = signer.read(await visit.text("secret"), max_age=_ENROL_AGE)
    if not isinstance(secret, str):
        return visit.redirect("/account/second-factor", "That took too long. Please start again.")
    try:
        codes = await visit.services.users.turn_on_second_factor(
            visit.who.email, secret, await visit.text("code")
        )
    except Invalid as exc:
        return _enrol(visit, signer, secret, problem=exc.problem)
    await visit.audit("turned on two-factor authentication")
    return visit.render("admin/accounts/recovery_codes.html", codes=codes)


def _enrol(visit: Visit, signer: Signer, secret: str, problem: str = "") -> Response:
    link = second_factor.app_link(secret, visit.who.email)
    drawn = segno.make(link, micro=False, error="m")
    picture = drawn.svg_inline(border=3, dark="#000", light="#fff", omitsize=True)
    return visit.render(
        "admin/accounts/second_factor.html",
        status=422 if problem else 200,
        picture=Markup(picture),  # noqa: S704 — drawn by us: paths and numbers
        secret=secret,
        signed=signer.sign(secret),
        problem=problem,
    )


async def second_factor_off(visit: Visit) -> Response:
    await visit.services.users.turn_off_second_factor(visit.who.email)
    await visit.audit("turned off two-factor authentication")
    return visit.redirect("/account", "Two-factor authentication turned off.")


async def new_codes(visit: Visit) -> Response:
    codes = await visit.services.users.renew_recovery_codes(visit.who.email)
    await visit.audit("created new recovery codes")
    return visit.render("admin/accounts/recovery_codes.html", codes=codes)


async def _problem_with_password(visit: Visit) -> str:
    """Return the error about the current password that was entered, or "" if it is correct."""
    session_id = visit.session.id if visit.session else ""
    if wait := visit.context.login_limits.take_in_session(session_id):
        return _TOO_OFTEN.format(wait)
    entered = await visit.text("old_password")
    if not await visit.services.users.check_password(visit.who.email, entered):
        return _WRONG_PASSWORD
    visit.context.login_limits.forget_session(session_id)
    return ""


def _second_factor(path: str, endpoint: Endpoint, *methods: str) -> View:
    """Return a view that requires sudo mode, so that a stolen cookie is not enough."""
    return View(
        f"/account/second-factor{path}", endpoint, role=Role.MEMBER, methods=methods, sudo=True
    )


VIEWS = (
    View("/account", account, role=Role.MEMBER),
    View("/account/password", change_password, role=Role.MEMBER, methods=("POST",)),
    View("/account/digest", choose_digest, role=Role.MEMBER, methods=("POST",)),
    View("/account/sessions/end", end_session, role=Role.MEMBER, methods=("POST",)),
    View("/account/sessions/end-others", end_other_sessions, role=Role.MEMBER, methods=("POST",)),
    _second_factor("", second_factor_page, "GET", "POST"),
    _second_factor("/off", second_factor_off, "POST"),
    _second_factor("/codes", new_codes, "POST"),
)
