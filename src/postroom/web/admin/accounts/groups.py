"""Groups: create, members, rights on lists, remove."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from postroom.domain.errors import NoSuch
from postroom.services.accounts.groups import UserGroup
from postroom.services.accounts.users import Role
from postroom.web.admin.accounts.list_matrix import find_matrix, save_matrix
from postroom.web.rendering.templating import counted
from postroom.web.requests.views import View
from postroom.web.requests.visit import Endpoint, Visit


async def create(visit: Visit) -> Response:
    group = await visit.services.groups.create(await visit.text("name"))
    await visit.audit("created group", group.name)
    return visit.redirect(group_url(group.name), f"Group {group.name} created.")


async def details(visit: Visit) -> Response:
    return await _show(visit, await visit.services.groups.get(visit.parameter("name")))


async def _show(visit: Visit, group: UserGroup, problem: str = "") -> Response:
    return visit.render(
        "admin/accounts/group.html",
        status=422 if problem else 200,
        group=group,
        others=[
            each.email
            for each in await visit.services.users.all()
            if each.email not in group.members
        ],
        matrix=await find_matrix(visit, group.principal),
        problem=problem,
    )


async def add(visit: Visit) -> Response:
    group, email = await _group(visit), await visit.text("email")
    try:
        await visit.services.groups.add(group.name, email)
    except NoSuch:
        return await _show(visit, group, "must be the address of a user")
    await visit.audit("added to group", f"{email} to {group.name}")
    return visit.redirect(group_url(group.name), f"{email} added.")


async def drop(visit: Visit) -> Response:
    group, email = await _group(visit), await visit.text("email")
    await visit.services.groups.drop(group.name, email)
    await visit.audit("removed from group", f"{email} from {group.name}")
    return visit.redirect(group_url(group.name), f"{email} removed from the group.")


async def rights(visit: Visit) -> Response:
    group = await _group(visit)
    changed = await save_matrix(visit, group.principal, f"group {group.name}")
    return visit.redirect(
        group_url(group.name), f"Rights on {counted(changed, 'list', 'lists')} changed."
    )


async def remove(visit: Visit) -> Response:
    """Ask for confirmation, then remove the group."""
    if visit.request.method == "GET":
        group = await visit.services.groups.get(visit.parameter("name"))
        return visit.render(
            "admin/confirm.html",
            title=f"Remove group “{group.name}”?",
            points=[
                f"{counted(len(group.members), 'member loses', 'members lose')} the rights that"
                " the group gives. They can still log in.",
            ],
            button="Remove group",
            fields={"name": group.name},
            back=group_url(group.name),
        )
    group = await _group(visit)
    await visit.services.groups.remove(group.name)
    await visit.audit("removed group", group.name)
    return visit.redirect("/users", f"Group {group.name} removed.")


async def _group(visit: Visit) -> UserGroup:
    return await visit.services.groups.get(await visit.text("name"))


def group_url(name: str) -> str:
    return f"/groups/details?{urlencode({'name': name})}"


def _form(path: str, endpoint: Endpoint, *methods: str) -> View:
    return View(path, endpoint, role=Role.ADMINISTRATOR, methods=methods, sudo=True)


VIEWS = (
    View("/groups/details", details, role=Role.ADMINISTRATOR),
    _form("/groups/create", create, "POST"),
    _form("/groups/add", add, "POST"),
    _form("/groups/drop", drop, "POST"),
    _form("/groups/rights", rights, "POST"),
    _form("/groups/remove", remove, "GET", "POST"),
)
