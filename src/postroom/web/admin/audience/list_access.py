"""People with access to a list: users, groups and API keys, and where their rights come from."""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import (
    ALL_RIGHTS,
    LIST_RIGHTS,
    ListRight,
    Rights,
)
from postroom.services.accounts.api_keys import ApiKey
from postroom.services.accounts.presets import PRESETS
from postroom.services.accounts.users import User
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit


class PersonWithAccess(msgspec.Struct, frozen=True):
    """Someone, or a key, with rights on a list. `reason` says where they come from; `url` leads to
    the page on which an administrator changes them."""

    name: str
    reason: str
    rights: Rights
    url: str


async def people(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    return visit.render(
        "admin/audience/list_access.html",
        list=mailing_list,
        users=await _users(visit, mailing_list.name),
        keys=await _keys(visit, mailing_list.name),
        rights=LIST_RIGHTS,
    )


async def _users(visit: Visit, name: str) -> list[PersonWithAccess]:
    found = []
    for user in await visit.services.users.all():
        access = await visit.services.list_access.of_user(user)
        rights = frozenset(each for each in ListRight if access.may(each, name))
        if rights:
            url = f"/users/details?{urlencode({'email': user.email})}"
            reason = await _reason(visit, user, name)
            found.append(PersonWithAccess(user.email, reason, rights, url))
    return found


async def _reason(visit: Visit, user: User, name: str) -> str:
    reasons = [user.role.capitalize()] if PRESETS[user.role] else []
    if PRESETS[user.role] == ALL_RIGHTS:
        return reasons[0]
    grants = visit.services.list_grants
    if name in await grants.of(user.principal):
        reasons.append("granted")
    groups = await visit.services.groups.of(user.email)
    reasons += [f"group {each}" for each in groups if name in await grants.of(f"group:{each}")]
    return ", ".join(reasons)


async def _keys(visit: Visit, name: str) -> list[PersonWithAccess]:
    granted = {each.principal: each.rights for each in await visit.services.list_grants.on(name)}
    found = []
    for key in await visit.services.keys.all():
        rights = granted.get(key.principal) if key.only_lists else ALL_RIGHTS
        if rights:
            url = f"/keys/details?{urlencode({'id': key.id})}"
            found.append(PersonWithAccess(key.name or "(unnamed)", _scopes(key), rights, url))
    return found


def _scopes(key: ApiKey) -> str:
    reach = "granted" if key.only_lists else "all lists"
    return f"{reach}; scopes: {', '.join(sorted(key.scopes)) or 'all'}"


VIEWS = (View("/lists/{name}/people", people, right=ListRight.MANAGE),)
