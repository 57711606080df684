"""User management: invite, change roles, reset passwords, remove."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from postroom.access_mail import LASTING, send_link, sends_links, shown_age
from postroom.domain.audience.lists.list_rights import ALL_RIGHTS, ListAccess, together
from postroom.domain.errors import Exists, Invalid, NotNow
from postroom.errors import PostroomError
from postroom.services.accounts.access_links import LinkKind, link_address
from postroom.services.accounts.groups import group_principal
from postroom.services.accounts.presets import PRESETS
from postroom.services.accounts.users import ROLES, Role, User, parse_role
from postroom.web.admin.accounts.list_matrix import find_matrix, save_matrix
from postroom.web.rendering.sorting import Sortable, SortColumn, Sorting
from postroom.web.rendering.templating import counted
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_INDEX: Final = Sortable[User](
    {
        "email": SortColumn("Email", lambda each: each.email),
        "role": SortColumn("Role", lambda each: each.role),
        "second_factor": SortColumn(
            "Two-factor", lambda each: each.has_second_factor, largest_first=True
        ),
        "joined": SortColumn("Joined", lambda each: each.created_at, largest_first=True),
    },
    key_order="email",
    order_label="Sorted by email",
)


async def users(visit: Visit) -> Response:
    return await _show(visit)


async def _show(
    visit: Visit, problems: dict[str, str] | None = None, email: str = "", role: str = ""
) -> Response:
    sorting = Sorting(visit, _INDEX, path="/users")
    links = await visit.services.access_links.all()
    return visit.render(
        "admin/accounts/users.html",
        status=422 if problems else 200,
        users=sorting.sort(await visit.services.users.all()),
        sorting=sorting,
        links=links,
        groups=await visit.services.groups.all(),
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
        return await _show(visit, {"email": "belongs to an existing account"}, email, role)
    await visit.audit("invited user", f"{email.strip()} as {role}")
    return await _show_link(visit, token, email.strip(), LinkKind.INVITATION)


async def revoke(visit: Visit) -> Response:
    await visit.services.access_links.revoke(await visit.text("id"))
    await visit.audit("revoked a link", await visit.text("email"))
    return visit.redirect("/users", "Link revoked.")


async def details(visit: Visit) -> Response:
    user = await visit.services.users.get(visit.parameter("email"))
    sessions = await visit.services.sessions.of(user)
    groups = await visit.services.groups.of(user.email)
    grants = visit.services.list_grants
    shared = together([await grants.of(group_principal(name)) for name in groups])
    implied = ListAccess(PRESETS[user.role], shared)
    has_all = implied.everywhere == ALL_RIGHTS
    return visit.render(
        "admin/accounts/user.html",
        shown=user,
        sessions=sessions,
        roles=ROLES,
        groups=groups,
        matrix=None if has_all else await find_matrix(visit, user.principal, implied),
    )


async def change_rights(visit: Visit) -> Response:
    user = await visit.services.users.get(await visit.text("email"))
    if user.email == visit.who.email:
        raise NotNow("you cannot change your own rights: ask another administrator")
    changed = await save_matrix(visit, user.principal, user.email)
    return visit.redirect(
        f"/users/details?{urlencode({'email': user.email})}",
        f"Rights on {counted(changed, 'list', 'lists')} changed.",
    )


async def change_role(visit: Visit) -> Response:
    user = await visit.services.users.get(await visit.text("email"))
    role = parse_role(await visit.text("role"))
    if user.email == visit.who.email:
        raise NotNow("you cannot change your own role: ask another administrator")
    await visit.services.users.set_role(user.email, role)
    await visit.audit("changed the role of user", f"{user.email} from {user.role} to {role}")
    return visit.redirect("/users", f"{user.email} is now {_article(role)} {role}.")


async def remove(visit: Visit) -> Response:
    """Ask for confirmation, then remove the user."""
    is_asking = visit.request.method == "GET"
    email = visit.parameter("email") if is_asking else await visit.text("email")
    user = await visit.services.users.get(email)
    if user.email == visit.who.email:
        raise NotNow("you cannot remove yourself: ask another administrator")
    if is_asking:
        return visit.render("admin/accounts/remove.html", shown=user)
    await visit.services.user_removal.remove(user.email)
    await visit.audit("removed user", user.email)
    return visit.redirect("/users", f"{user.email} removed.")


async def reset(visit: Visit) -> Response:
    user = await visit.services.users.get(await visit.text("email"))
    token = await visit.services.access_links.reset(user.email, visit.who.email)
    await visit.audit("created a password reset link for user", user.email)
    return await _show_link(visit, token, user.email, LinkKind.RESET)


async def end_sessions(visit: Visit) -> Response:
    user = await visit.services.users.get(await visit.text("email"))
    ended = await visit.services.sessions.end_all(user)
    await visit.audit("ended all sessions of user", user.email)
    return visit.redirect(
        "/users", f"{counted(ended, 'session', 'sessions')} of {user.email} ended."
    )


async def second_factor_off(visit: Visit) -> Response:
    user = await visit.services.users.get(await visit.text("email"))
    await visit.services.users.turn_off_second_factor(user.email)
    await visit.audit("turned off two-factor authentication of user", user.email)
    return visit.redirect("/users", f"Two-factor authentication of {user.email} turned off.")


async def _show_link(visit: Visit, token: str, email: str, kind: LinkKind) -> Response:
    """Send the link if there is a mail server, and show it: the email may not arrive."""
    address = link_address(visit.context.base_url, token)
    is_sent, problem = False, ""
    if sends_links(visit.context.settings):
        try:
            await send_link(visit.services, visit.context.settings, kind, email, address)
            is_sent = True
        except PostroomError as exc:
            problem = str(exc)
    return visit.render(
        "admin/accounts/link.html",
        address=address,
        email=email,
        kind=kind,
        LinkKind=LinkKind,
        lasting=shown_age(LASTING[kind]),
        is_sent=is_sent,
        problem=problem,
    )


def _article(role: Role) -> str:
    return "a" if role in (Role.MEMBER, Role.VIEWER, Role.WRITER) else "an"


VIEWS = (
    View("/users", users, role=Role.ADMINISTRATOR),
    View("/users/invite", invite, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View("/users/revoke", revoke, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View("/users/details", details, role=Role.ADMINISTRATOR),
    View("/users/role", change_role, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View("/users/rights", change_rights, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View("/users/remove", remove, role=Role.ADMINISTRATOR, methods=("GET", "POST"), sudo=True),
    View("/users/reset", reset, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View(
        "/users/end-sessions", end_sessions, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True
    ),
    View(
        "/users/second-factor-off",
        second_factor_off,
        role=Role.ADMINISTRATOR,
        methods=("POST",),
        sudo=True,
    ),
)
