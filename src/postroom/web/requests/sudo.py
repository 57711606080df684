"""Sudo mode: before something dangerous is changed, the user enters the password again.

A page declares it like its role: `Page(…, sudo=True)`. A form that arrives without a recent
confirmation is answered with a question that carries the form's fields, so nothing that was typed
is lost: the answer is the same form with the password added. A user with a second factor also
enters a code. Logging in counts as a confirmation. A stolen cookie alone changes nothing here, and
becomes worthless when its owner enters the password: the session gets a new token then.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from starlette.responses import Response

from postroom.services.accounts.login_pace import TooManyCodes
from postroom.services.accounts.sessions import Session
from postroom.web.requests.visit import Visit

LASTS = timedelta(minutes=10)
_OURS = "sudo_"  # how the names of the question's own fields begin
PASSWORD = f"{_OURS}password"
CODE = f"{_OURS}code"
_WRONG = "Wrong password. Nothing has been changed."
_WRONG_CODE = "Wrong code, or it was used already. Wait for the next one."


async def unless_confirmed(visit: Visit) -> Response | None:
    """Return None if the password was entered a short while ago, otherwise the page that asks."""
    session = visit.session
    if session is None:
        raise RuntimeError("sudo mode needs a login: give the page a role")
    if _is_recent(session):
        return None
    form = await visit.form()
    if PASSWORD not in form:
        return await _ask(visit, 403)
    if wait := visit.context.login_limits.take_in_session(session.id):
        problem = f"Too many attempts. Wait {wait} s, then try again."
        return await _ask(visit, 429, problem, wait)
    users, email = visit.services.users, visit.who.email
    if not await users.check_password(email, await visit.text(PASSWORD)):
        await visit.audit("entered a wrong password", f"to confirm {visit.path}")
        return await _ask(visit, 422, _WRONG)
    if visit.who.has_second_factor:
        try:
            is_right = await users.check_code(email, await visit.text(CODE))
        except TooManyCodes as exc:
            return await _ask(visit, 429, f"{exc}.".capitalize(), math.ceil(exc.seconds))
        if not is_right:
            await visit.audit("entered a wrong code", f"to confirm {visit.path}")
            return await _ask(visit, 422, _WRONG_CODE)
    visit.context.login_limits.forget_session(session.id)
    await visit.renew_session()
    return None


def _is_recent(session: Session) -> bool:
    at = session.confirmed_at
    return at is not None and datetime.now(UTC) - at < LASTS


async def _ask(visit: Visit, status: int, problem: str = "", wait: int = 0) -> Response:
    """The question, with everything that the form had. A browser chooses files itself: those have
    to be chosen again."""
    visit.leaves_no_record()
    items = (await visit.form()).multi_items()
    query = visit.request.url.query
    response = visit.page(
        "admin/accounts/sudo.html",
        status=status,
        action=visit.path + (f"?{query}" if query else ""),
        fields=[
            (name, text)
            for name, text in items
            if isinstance(text, str) and name != "csrf" and not name.startswith(_OURS)
        ],
        has_files=any(not isinstance(each, str) and each.filename for _, each in items),
        back=_page_before(visit),
        minutes=int(LASTS.total_seconds() // 60),
        problem=problem,
    )
    if wait:
        response.headers["Retry-After"] = str(wait)
    if visit.is_partial:
        response.headers["HX-Retarget"] = "body"
    return response


def _page_before(visit: Visit) -> str:
    """The page of ours that the form was on."""
    try:
        before = urlsplit(visit.request.headers.get("referer", ""))
    except ValueError:
        return "/"
    if not before.path.startswith("/") or before.path.startswith(("//", "/\\")):
        return "/"
    return before.path + (f"?{before.query}" if before.query else "")
