"""One's own account: password, second factor, sessions."""

from __future__ import annotations

import segno
from markupsafe import Markup
from starlette.responses import Response

from postroom.domain.errors import Invalid
from postroom.services.accounts import second_factor
from postroom.services.accounts.passwords import check_password
from postroom.services.accounts.users import Role
from postroom.web.admin.accounts.sign_in import enter
from postroom.web.requests.routing import Page
from postroom.web.requests.signing import Signer
from postroom.web.requests.visit import Endpoint, Visit

_ENROL_AGE = 3600
_WRONG_PASSWORD = "is not your password"  # noqa: S105 — what is said of a wrong one
_TOO_OFTEN = "was entered too often: wait {} s, then try again"


async def account(visit: Visit) -> Response:
    return await _show(visit)


async def _show(visit: Visit, problems: dict[str, str] | None = None) -> Response:
    sessions = await visit.services.sessions.of(visit.who)
    return visit.page(
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
        return await _show(visit, {"again": "is not the same as the new password"})
    if problem := await _problem_with_password(visit):
        return await _show(visit, {"old_password": problem})
    user = await visit.services.users.set_password(visit.who.email, new)
    await visit.audit("changed the own password")
    said = "Your password is changed, and you are logged out everywhere else."
    # No code was entered here: a second factor is asked for before the next dangerous change.
    session = visit.session if user.has_second_factor else None
    confirmed_at = (session.confirmed_at or session.started_at) if session else None
    return await enter(visit, user, "/account", said, confirmed_at=confirmed_at)


async def end_session(visit: Visit) -> Response:
    await visit.services.sessions.end(visit.who.email, await visit.text("id"))
    await visit.audit("ended a session of the own")
    return visit.redirect("/account", "The session is ended.")


async def end_other_sessions(visit: Visit) -> Response:
    mine = visit.session.id if visit.session else ""
    ended = await visit.services.sessions.end_all(visit.who, but=mine)
    await visit.audit("ended all other sessions of the own")
    return visit.redirect("/account", f"{ended} other sessions are ended.")


# — The second factor —


async def second_factor_page(visit: Visit) -> Response:
    if visit.who.has_second_factor:
        return visit.redirect("/account", "You have a second factor already.")
    signer = Signer(visit.context.secret, f"second factor of {visit.who.email}")
    if visit.request.method == "GET":
        return _enrol(visit, signer, second_factor.new_secret())
    secret = signer.read(await visit.text("secret"), max_age=_ENROL_AGE)
    if not isinstance(secret, str):
        return visit.redirect("/account/second-factor", "That took too long: begin again.")
    try:
        codes = await visit.services.users.turn_on_second_factor(
            visit.who.email, secret, await visit.text("code")
        )
    except Invalid as exc:
        return _enrol(visit, signer, secret, problem=exc.problem)
    await visit.audit("turned on a second factor")
    return visit.page("admin/accounts/recovery_codes.html", codes=codes)


def _enrol(visit: Visit, signer: Signer, secret: str, problem: str = "") -> Response:
    link = second_factor.app_link(secret, visit.who.email)
    drawn = segno.make(link, micro=False, error="m")
    picture = drawn.svg_inline(border=3, dark="#000", light="#fff", omitsize=True)
    return visit.page(
        "admin/accounts/second_factor.html",
        status=422 if problem else 200,
        picture=Markup(picture),  # noqa: S704 — drawn by us: paths and numbers
        secret=secret,
        signed=signer.sign(secret),
        problem=problem,
    )


async def second_factor_off(visit: Visit) -> Response:
    await visit.services.users.turn_off_second_factor(visit.who.email)
    await visit.audit("turned off the second factor")
    return visit.redirect("/account", "The second factor is off: the password is enough.")


async def new_codes(visit: Visit) -> Response:
    codes = await visit.services.users.renew_recovery_codes(visit.who.email)
    await visit.audit("made new recovery codes")
    return visit.page("admin/accounts/recovery_codes.html", codes=codes)


async def _problem_with_password(visit: Visit) -> str:
    """Return what is wrong with the current password that was entered; empty if it is right."""
    session_id = visit.session.id if visit.session else ""
    if wait := visit.context.login_limits.take_in_session(session_id):
        return _TOO_OFTEN.format(wait)
    entered = await visit.text("old_password")
    if not await visit.services.users.check_password(visit.who.email, entered):
        return _WRONG_PASSWORD
    visit.context.login_limits.forget_session(session_id)
    return ""


def _second_factor(path: str, endpoint: Endpoint, *methods: str) -> Page:
    """With a stolen cookie nobody gives themselves a second factor, or takes one away."""
    return Page(
        f"/account/second-factor{path}", endpoint, role=Role.VIEWER, methods=methods, sudo=True
    )


PAGES = (
    Page("/account", account, role=Role.VIEWER),
    Page("/account/password", change_password, role=Role.VIEWER, methods=("POST",)),
    Page("/account/sessions/end", end_session, role=Role.VIEWER, methods=("POST",)),
    Page("/account/sessions/end-others", end_other_sessions, role=Role.VIEWER, methods=("POST",)),
    _second_factor("", second_factor_page, "GET", "POST"),
    _second_factor("/off", second_factor_off, "POST"),
    _second_factor("/codes", new_codes, "POST"),
)
