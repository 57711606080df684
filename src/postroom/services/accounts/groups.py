"""Groups of users, who share rights on lists.

| table    | partition        | row        | holds                       |
|----------|------------------|------------|-----------------------------|
| `groups` | `group`          | group name | CreatedAt                   |
| `groups` | `user:` address  | group name | nothing: they are a member  |

A user's groups are one query, which each of their requests makes.
"""

from __future__ import annotations

import contextlib
import re
from datetime import datetime
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.errors import Exists, Invalid, NoSuch
from postroom.services.accounts.list_grants import ListGrants
from postroom.services.accounts.users import UserService
from postroom.services.entities import read
from postroom.storage import AlreadyExists, Entity, KeyRange, NotFound, Store

GROUPS_TABLE: Final = "groups"
_GROUP: Final = "group"
_USER: Final = "user:"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class UserGroup(msgspec.Struct, frozen=True):
    """A group and the addresses of its members, sorted."""

    name: str
    created_at: datetime
    members: tuple[str, ...] = ()

    @property
    def principal(self) -> str:
        return group_principal(self.name)


class GroupService:
    def __init__(self, store: Store, users: UserService, grants: ListGrants) -> None:
        self._table = store.table(GROUPS_TABLE)
        self._users = users
        self._grants = grants

    async def create(self, name: str) -> UserGroup:
        """Create a group without members. `Invalid`, `Exists`."""
        group = UserGroup(parse_group_name(name), clock.now())
        # What an interrupted removal left behind must not come back with the name.
        await self._empty(group.name, unless_exists=True)
        try:
            await self._table.insert(Entity(_GROUP, group.name, {"CreatedAt": group.created_at}))
        except AlreadyExists as exc:
            raise Exists("group", group.name) from exc
        return group

    async def get(self, name: str) -> UserGroup:
        """Return a group. `NoSuch`."""
        found = next((each for each in await self.all() if each.name == name), None)
        if found is None:
            raise NoSuch("group", name[:100])
        return found

    async def all(self) -> list[UserGroup]:
        """Return all groups, sorted by name; there are few."""
        created: dict[str, datetime] = {}
        members: dict[str, list[str]] = {}
        async for entity in self._table.scan():
            if entity.partition == _GROUP:
                created[entity.row] = read(entity, "CreatedAt", datetime)
            else:
                email = entity.partition.removeprefix(_USER)
                members.setdefault(entity.row, []).append(email)
        return [
            UserGroup(name, at, tuple(sorted(members.get(name, ()))))
            for name, at in sorted(created.items())
        ]

    async def of(self, email: str) -> list[str]:
        """Return the names of a user's groups, sorted."""
        return [entity.row async for entity in self._table.scan(KeyRange.only(_USER + email))]

    async def add(self, name: str, email: str) -> None:
        """Make a user a member; no error if they are one. `NoSuch` group or user."""
        group, user = await self.get(name), await self._users.get(email)
        await self._table.upsert(Entity(_USER + user.email, group.name, {}))

    async def drop(self, name: str, email: str) -> None:
        """End a user's membership. `NoSuch`."""
        group = await self.get(name)
        if email not in group.members:
            raise NoSuch("member", email[:320])
        with contextlib.suppress(NotFound):
            await self._table.delete(_USER + email, group.name)

    async def remove(self, name: str) -> UserGroup:
        """Remove a group with its rights; its members stay users. `NoSuch`.

        The group itself goes last: an interrupted removal is finished by removing it again.
        """
        group = await self.get(name)
        await self._empty(group.name)
        with contextlib.suppress(NotFound):
            await self._table.delete(_GROUP, group.name)
        return group

    async def forget_user(self, email: str) -> None:
        """Remove a user from all groups."""
        for name in await self.of(email):
            with contextlib.suppress(NotFound):
                await self._table.delete(_USER + email, name)

    async def _empty(self, name: str, *, unless_exists: bool = False) -> None:
        if unless_exists and await self._table.get(_GROUP, name) is not None:
            return
        await self._grants.forget(group_principal(name))
        async for entity in self._table.scan():
            if entity.row == name and entity.partition != _GROUP:
                with contextlib.suppress(NotFound):
                    await self._table.delete(entity.partition, name)


def group_principal(name: str) -> str:
    return f"group:{name}"


def parse_group_name(name: str) -> str:
    """Parse the name of a group. `Invalid`."""
    text = name.strip()
    if not _NAME.fullmatch(text):
        raise Invalid(
            "name", "must have 1 to 60 letters, digits, dots, hyphens or underscores, such as press"
        )
    return text
