"""API keys, for administrators."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from postroom.domain.errors import Invalid, NoSuch
from postroom.services.accounts.api_keys import SCOPES, ApiKey
from postroom.services.accounts.users import Role
from postroom.web.rendering.sorting import Column, Sortable, Sorting
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit

_INDEX: Final = Sortable[ApiKey](
    {
        "name": Column("Name", lambda each: each.name),
        "may": Column("May", lambda each: sorted(each.scopes)),
        "made": Column("Made", lambda each: each.created_at, largest_first=True),
        "last_used": Column("Last used", lambda each: each.last_used_at, largest_first=True),
    },
    natural="made",
    in_words="Oldest first",
)


async def keys(visit: Visit) -> Response:
    return await _show(visit)


async def _show(visit: Visit, problems: dict[str, str] | None = None, name: str = "") -> Response:
    sorting = Sorting(visit, _INDEX, path="/keys")
    return visit.page(
        "admin/accounts/keys.html",
        status=422 if problems else 200,
        keys=sorting.all_of(await visit.services.keys.all()),
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
        problem = "choose at least one, or everything"
        return await _show(visit, {"scope": problem}, name)
    try:
        made = await visit.services.keys.create(name, () if everything else scopes)
    except Invalid as exc:
        return await _show(visit, {exc.field: exc.problem}, name)
    await visit.audit("made API key", _told(made.key))
    return visit.page("admin/accounts/key.html", made=made, base_url=visit.context.base_url)


async def revoke(visit: Visit) -> Response:
    """Asks first; then the key is refused."""
    is_asking = visit.request.method == "GET"
    key_id = visit.parameter("id") if is_asking else await visit.text("id")
    key = next((each for each in await visit.services.keys.all() if each.id == key_id), None)
    if key is None:
        raise NoSuch("API key", key_id)
    if is_asking:
        return visit.page("admin/accounts/revoke_key.html", key=key)
    await visit.services.keys.revoke(key.id)
    await visit.audit("revoked API key", _told(key))
    return visit.redirect("/keys", f"The key {key.name or key.id} is revoked.")


def _told(key: ApiKey) -> str:
    return f"{key.id} {key.name}".strip()


PAGES = (
    Page("/keys", keys, role=Role.ADMINISTRATOR),
    Page("/keys/create", create, role=Role.ADMINISTRATOR, methods=("POST",), sudo=True),
    Page("/keys/revoke", revoke, role=Role.ADMINISTRATOR, methods=("GET", "POST"), sudo=True),
)
