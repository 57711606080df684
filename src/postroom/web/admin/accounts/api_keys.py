"""API keys, for administrators."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from postroom.domain.errors import Invalid, NoSuch
from postroom.services.accounts.api_keys import SCOPES, ApiKey
from postroom.services.accounts.users import Role
from postroom.web.admin.accounts.list_matrix import find_matrix, save_matrix
from postroom.web.rendering.sorting import Sortable, SortColumn, Sorting
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_INDEX: Final = Sortable[ApiKey](
    {
        "name": SortColumn("Name", lambda each: each.name),
        "scopes": SortColumn("Scopes", lambda each: sorted(each.scopes)),
        "created": SortColumn("Created", lambda each: each.created_at, largest_first=True),
        "last_used": SortColumn("Last used", lambda each: each.last_used_at, largest_first=True),
    },
    key_order="created",
    order_label="Oldest first",
)


async def keys(visit: Visit) -> Response:
    return await _show(visit)


async def _show(visit: Visit, problems: dict[str, str] | None = None, name: str = "") -> Response:
    sorting = Sorting(visit, _INDEX, path="/keys")
    return visit.render(
        "admin/accounts/keys.html",
        status=422 if problems else 200,
        keys=sorting.sort(await visit.services.keys.all()),
        sorting=sorting,
        scopes=SCOPES,
        problems=problems or {},
        name=name,
    )


async def create(visit: Visit) -> Response:
    form = await visit.form()
    name = await visit.text("name")
    scopes = [each for each in form.getlist("scope") if isinstance(each, str)]
    everything = await visit.text("reach") == "everything"
    if not everything and not scopes:
        problem = "choose at least one scope, or full access"
        return await _show(visit, {"scope": problem}, name)
    try:
        made = await visit.services.keys.create(
            name, () if everything else scopes, only_lists=await visit.text("only_lists") == "yes"
        )
    except Invalid as exc:
        return await _show(visit, {exc.field: exc.problem}, name)
    await visit.audit("created API key", _audit_text(made.key))
    return visit.render("admin/accounts/key.html", made=made, base_url=visit.context.base_url)


async def details(visit: Visit) -> Response:
    key = await visit.services.keys.get(visit.parameter("id"))
    matrix = await find_matrix(visit, key.principal)
    return visit.render("admin/accounts/key_details.html", key=key, matrix=matrix)


async def change_rights(visit: Visit) -> Response:
    """Limit a key to selected lists, or let it use all of them. The rights are saved first, so that
    in between the key never has more than before and after."""
    key = await visit.services.keys.get(await visit.text("id"))
    only_lists = await visit.text("reach") == "lists"
    await save_matrix(visit, key.principal, f"API key {_audit_text(key)}")
    if only_lists != key.only_lists:
        await visit.services.keys.limit(key.id, only_lists)
        reach = "selected lists" if only_lists else "all lists"
        await visit.audit("changed the lists of API key", f"{_audit_text(key)}: {reach}")
    visit.services.keys.forget_cached(key.id)
    return visit.redirect(f"/keys/details?id={key.id}", "Saved.")


async def revoke(visit: Visit) -> Response:
    """Ask for confirmation, then revoke the key."""
    is_asking = visit.request.method == "GET"
    key_id = visit.parameter("id") if is_asking else await visit.text("id")
    key = next((each for each in await visit.services.keys.all() if each.id == key_id), None)
    if key is None:
        raise NoSuch("API key", key_id)
    if is_asking:
        return visit.render("admin/accounts/revoke_key.html", key=key)
    await visit.services.keys.revoke(key.id)
    await visit.audit("revoked API key", _audit_text(key))
    return visit.redirect("/keys", f"API key {key.name or key.id} revoked.")


def _audit_text(key: ApiKey) -> str:
    return f"{key.id} {key.name}".strip()


VIEWS = (
    View("/keys", keys, role=Role.ADMINISTRATOR),
    View("/keys/create", create, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View("/keys/details", details, role=Role.ADMINISTRATOR),
    View("/keys/rights", change_rights, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    View("/keys/revoke", revoke, role=Role.ADMINISTRATOR, methods=("GET", "POST"), sudo=True),
)
