"""Sudo mode: before a dangerous change, the user enters the password again.

A view declares it like its role: `View(…, sudo=True)`. A form without a recent confirmation leads
to a page that asks for the password and carries the form's fields, so nothing that was typed is
lost. A user with a second factor also enters a code. Logging in counts as a confirmation. A stolen
cookie alone changes nothing, and becomes invalid when its owner enters the password: the session
then gets a new token.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from starlette.responses import Response

from postroom.services.accounts.second_factor import TooManyCodes
from postroom.services.accounts.sessions import Session
from postroom.web.requests.visit import Visit

LASTS = timedelta(minutes=10)
_PREFIX = "sudo_"  # of the names of our own fields
PASSWORD = f"{_PREFIX}password"
CODE = f"{_PREFIX}code"
_WRONG = "Wrong password. Nothing has been changed."
_WRONG_CODE = "Wrong code, or it was already used. Wait for the next one."


async def unless_confirmed(visit: Visit) -> Response | None:
    """Return None if the password was entered recently, otherwise the page that asks for it."""
    session = visit.session
    if session is None:
        raise RuntimeError("sudo mode requires a login: give the view a role")
    if _is_recent(session):
        return None
    form = await visit.form()
    if PASSWORD not in form:
        return await _ask(visit, 403)
    if wait := visit.context.login_limits.take_in_session(session.id):
        problem = f"Too many attempts. Wait {wait} seconds, then try again."
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
    """Render the question with all fields of the form. Files have to be chosen again."""
    visit.skip_audit()
    items = (await visit.form()).multi_items()
    query = visit.request.url.query
    response = visit.render(
        "admin/accounts/sudo.html",
        status=status,
        action=visit.path + (f"?{query}" if query else ""),
        fields=[
            (name, text)
            for name, text in items
            if isinstance(text, str) and name != "csrf" and not name.startswith(_PREFIX)
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
    """Return the path of the page that the form was on."""
    try:
        before = urlsplit(visit.request.headers.get("referer", ""))
    except ValueError:
        return "/"
    if not before.path.startswith("/") or before.path.startswith(("//", "/\\")):
        return "/"
    return before.path + (f"?{before.query}" if before.query else "")
