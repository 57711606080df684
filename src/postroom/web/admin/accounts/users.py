"""Users, for administrators: invite, change the role, let in again, remove."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from postroom.domain.errors import Exists, Invalid, NotNow
from postroom.services.accounts.access_links import LinkKind, link_address
from postroom.services.accounts.users import ROLES, Role, User, parse_role
from postroom.web.rendering.sorting import Column, Sortable, Sorting
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit

_INDEX: Final = Sortable[User](
    {
        "address": Column("Address", lambda each: each.email),
        "role": Column("Role", lambda each: each.role),
        "second_factor": Column(
            "Second factor", lambda each: each.has_second_factor, largest_first=True
        ),
        "since": Column("Since", lambda each: each.created_at, largest_first=True),
    },
    natural="address",
    in_words="In the order of addresses",
)


async def users(visit: Visit) -> Response:
    return await _show(visit)


async def _show(
    visit: Visit, problems: dict[str, str] | None = None, email: str = "", role: str = ""
) -> Response:
    sorting = Sorting(visit, _INDEX, path="/users")
    links = await visit.services.access_links.all()
    return visit.page(
        "admin/accounts/users.html",
        status=422 if problems else 200,
        users=sorting.all_of(await visit.services.users.all()),
        sorting=sorting,
        links=links,
        LinkKind=LinkKind,
        roles=ROLES,
        problems=problems or {},
        email=email,
        chosen=role or Role.EDITOR.value,
    )


async def invite(visit: Visit) -> Response:
    email, role = await visit.text("email"), await visit.text("role")
    try:
        token = await visit.services.access_links.invite(email, parse_role(role), visit.who.email)
    except Invalid as exc:
        return await _show(visit, {exc.field: exc.problem}, email, role)
    except Exists:
        return await _show(visit, {"email": "has an account already"}, email, role)
    await visit.audit("invited user", f"{email.strip()} as {role}")
    return _show_link(visit, token, email.strip(), LinkKind.INVITATION)


async def revoke(visit: Visit) -> Response:
    await visit.services.access_links.revoke(await visit.text("id"))
    await visit.audit("took back a link", await visit.text("email"))
    return visit.redirect("/users", "The link is worth nothing now.")


async def details(visit: Visit) -> Response:
    user = await visit.services.users.get(visit.parameter("email"))
    sessions = await visit.services.sessions.of(user)
    return visit.page("admin/accounts/user.html", shown=user, sessions=sessions, roles=ROLES)


async def change_role(visit: Visit) -> Response:
    user = await visit.services.users.get(await visit.text("email"))
    role = parse_role(await visit.text("role"))
    if user.email == visit.who.email:
        raise NotNow("your own role is changed by another administrator")
    await visit.services.users.set_role(user.email, role)
    await visit.audit("changed the role of user", f"{user.email} from {user.role} to {role}")
    return visit.redirect("/users", f"{user.email} is {_article(role)} {role} now.")


async def remove(visit: Visit) -> Response:
    """Asks first; then the user is gone."""
    is_asking = visit.request.method == "GET"
    email = visit.parameter("email") if is_asking else await visit.text("email")
    user = await visit.services.users.get(email)
    if user.email == visit.who.email:
        raise NotNow("nobody removes themselves: another administrator can do it")
    if is_asking:
        return visit.page("admin/accounts/remove.html", shown=user)
    await visit.services.user_removal.remove(user.email)
    await visit.audit("removed user", user.email)
    return visit.redirect("/users", f"{user.email} is removed.")


async def reset(visit: Visit) -> Response:
    user = await visit.services.users.get(await visit.text("email"))
    token = await visit.services.access_links.reset(user.email, visit.who.email)
    await visit.audit("made a link for a new password of user", user.email)
    return _show_link(visit, token, user.email, LinkKind.RESET)


async def end_sessions(visit: Visit) -> Response:
    user = await visit.services.users.get(await visit.text("email"))
    ended = await visit.services.sessions.end_all(user)
    await visit.audit("ended all sessions of user", user.email)
    return visit.redirect("/users", f"{ended} sessions of {user.email} are ended.")


async def second_factor_off(visit: Visit) -> Response:
    user = await visit.services.users.get(await visit.text("email"))
    await visit.services.users.turn_off_second_factor(user.email)
    await visit.audit("turned off the second factor of user", user.email)
    return visit.redirect("/users", f"{user.email} logs in with the password alone now.")


def _show_link(visit: Visit, token: str, email: str, kind: LinkKind) -> Response:
    address = link_address(visit.context.base_url, token)
    return visit.page(
        "admin/accounts/link.html", address=address, email=email, kind=kind, LinkKind=LinkKind
    )


def _article(role: Role) -> str:
    return "a" if role is Role.VIEWER else "an"


PAGES = (
    Page("/users", users, role=Role.ADMINISTRATOR),
    Page("/users/invite", invite, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    Page("/users/revoke", revoke, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    Page("/users/details", details, role=Role.ADMINISTRATOR),
    Page("/users/role", change_role, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    Page("/users/remove", remove, role=Role.ADMINISTRATOR, methods=("GET", "POST"), sudo=True),
    Page("/users/reset", reset, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    Page(
        "/users/end-sessions", end_sessions, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True
    ),
    Page(
        "/users/second-factor-off",
        second_factor_off,
        role=Role.ADMINISTRATOR,
        methods=("POST",),
        sudo=True,
    ),
)
