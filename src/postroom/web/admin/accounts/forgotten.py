"""A link to set a new password, for people who cannot log in."""

from __future__ import annotations

from starlette.responses import Response

from postroom.access_mail import LASTING, send_link, sends_links, shown_age
from postroom.domain.errors import Invalid
from postroom.services.accounts.access_links import LinkKind, link_address
from postroom.services.accounts.users import parse_user
from postroom.web.admin.accounts.login import LARGEST_FORM, TO_LOGIN, too_often
from postroom.web.requests.views import View, error_page
from postroom.web.requests.visit import Visit


async def forgotten(visit: Visit) -> Response:
    """Send a link to set a new password. The response does not reveal whether there is a user."""
    if not sends_links(visit.context.settings):
        return error_page(
            visit,
            404,
            "Postroom cannot send you a link",
            "No mail server is set up. Ask an administrator for a link, or run “postroom user"
            " reset” on the server.",
            TO_LOGIN,
        )
    if visit.request.method == "GET":
        return _form(visit)
    email = await visit.text("email")
    try:
        address = parse_user(email)
    except Invalid as exc:
        return _form(visit, status=422, email=email, problem=exc.problem)
    if wait := visit.context.login_limits.take_reset(address, visit.place):
        return too_often(wait, lambda text: _form(visit, status=429, email=email, problem=text))
    # In the background: the time it takes would reveal whether there is a user.
    visit.context.background.start(_send(visit, address), "a password reset link")
    return visit.render(
        "admin/accounts/forgotten_sent.html", email=address, lasting=shown_age(LASTING[_KIND])
    )


_KIND = LinkKind.RESET


async def _send(visit: Visit, address: str) -> None:
    if await visit.services.users.find(address) is None:
        return
    token = await visit.services.access_links.reset(address, made_by=address)
    await visit.audit("requested a password reset link", who=address)
    url = link_address(visit.context.base_url, token)
    await send_link(visit.services, visit.context.settings, _KIND, address, url)


def _form(visit: Visit, *, status: int = 200, email: str = "", problem: str = "") -> Response:
    return visit.render(
        "admin/accounts/forgotten.html", status=status, email=email, problem=problem
    )


VIEWS = (
    View("/forgotten", forgotten, is_public=True, methods=("GET", "POST"), max_body=LARGEST_FORM),
)
