"""Decides what a user or an API key may do with which lists. It is the only place that does."""

from __future__ import annotations

from postroom.domain.audience.lists.list_rights import ALL_RIGHTS, ListAccess, together
from postroom.domain.errors import Invalid, NoSuch
from postroom.services.accounts.groups import GroupService, group_principal
from postroom.services.accounts.list_grants import ListGrants
from postroom.services.accounts.presets import PRESETS
from postroom.services.accounts.users import User, UserService

_KINDS = "a user's address, group:NAME or key:ID"


class ListAccessService:
    def __init__(self, grants: ListGrants, groups: GroupService, users: UserService) -> None:
        self._grants = grants
        self._groups = groups
        self._users = users

    async def of_user(self, user: User) -> ListAccess:
        """Return the rights of a user: from their role, grants to them, and their groups."""
        preset = PRESETS[user.role]
        if preset == ALL_RIGHTS:
            return ListAccess(preset)
        own = await self._grants.of(user.principal)
        groups = await self._groups.of(user.email)
        shared = [await self._grants.of(group_principal(name)) for name in groups]
        return ListAccess(preset, together([own, *shared]))

    async def find_principal(self, text: str, keys: frozenset[str]) -> str:
        """Return the principal with this name: an address, `group:NAME` or `key:ID`. `Invalid`,
        `NoSuch`."""
        kind, _, name = text.partition(":")
        if kind == "group" and name:
            return (await self._groups.get(name)).principal
        if kind == "key" and name:
            if text not in keys:
                raise NoSuch("API key", name[:100])
            return text
        if "@" not in text:
            raise Invalid("principal", f"must be {_KINDS}, not {text[:100]!r}")
        return (await self._users.get(text.removeprefix("user:"))).principal

    async def forget_user(self, user: User) -> None:
        """Remove everything that a user was granted, so that no later user inherits it."""
        await self._groups.forget_user(user.email)
        await self._grants.forget(user.principal)
