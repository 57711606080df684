"""Rights on individual lists: who was granted which.

| table        | partition     | row       | holds                           |
|--------------|---------------|-----------|---------------------------------|
| `listrights` | the principal | list name | Rights, such as `view,edit`     |

A principal is `user:ADDRESS`, `group:NAME` or `key:ID`. Rights that a role gives on every list are
not stored: `PRESETS` says what they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

import msgspec

from postroom.domain.audience.lists.list_rights import (
    NO_RIGHTS,
    ListRight,
    Rights,
    parse_rights,
    sorted_rights,
)
from postroom.domain.audience.lists.lists import ListName
from postroom.services.entities import read
from postroom.storage import Entity, KeyRange, NotFound, Store

LIST_RIGHTS_TABLE: Final = "listrights"


class ListGrant(msgspec.Struct, frozen=True):
    """The rights of a principal on a list."""

    principal: str
    list_name: ListName
    rights: Rights


class ListGrants:
    def __init__(self, store: Store) -> None:
        self._table = store.table(LIST_RIGHTS_TABLE)

    async def of(self, principal: str) -> dict[str, Rights]:
        """Return the rights of a principal by list."""
        found = self._table.scan(KeyRange.only(principal))
        return {entity.row: _rights(entity) async for entity in found}

    async def set(self, principal: str, list_name: ListName, rights: Rights) -> None:
        """Replace the rights of a principal on a list; none removes the grant."""
        if rights:
            text = ",".join(sorted_rights(rights))
            await self._table.upsert(Entity(principal, list_name, {"Rights": text}))
        else:
            with contextlib.suppress(NotFound):
                await self._table.delete(principal, list_name)

    async def change(self, principal: str, wanted: Mapping[ListName, Rights]) -> list[ListGrant]:
        """Set the rights on these lists and leave others alone; return what changed."""
        before = await self.of(principal)
        changed = [
            ListGrant(principal, name, rights)
            for name, rights in wanted.items()
            if rights != before.get(name, NO_RIGHTS)
        ]
        for each in changed:
            await self.set(principal, each.list_name, each.rights)
        return changed

    async def all(self) -> list[ListGrant]:
        """Return every grant, sorted by principal and list; there are few."""
        found = [_grant(entity) async for entity in self._table.scan()]
        return sorted(found, key=lambda each: (each.principal, each.list_name))

    async def on(self, list_name: str) -> list[ListGrant]:
        """Return who was granted rights on a list, sorted by principal."""
        return [each for each in await self.all() if each.list_name == list_name]

    async def forget(self, principal: str) -> None:
        """Remove all grants of a principal: a later one of this name must not inherit them."""
        for name in await self.of(principal):
            await self.set(principal, ListName(name), NO_RIGHTS)

    async def forget_list(self, list_name: ListName) -> None:
        """Remove all grants on a list: a later list of this name must not inherit them."""
        for each in await self.on(list_name):
            await self.set(each.principal, list_name, NO_RIGHTS)


def describe_rights(rights: Rights) -> str:
    """Return rights as text for people, such as "view, edit"."""
    return ", ".join(sorted_rights(rights)) or "none"


def _rights(entity: Entity) -> Rights:
    known = set(ListRight)
    texts = read(entity, "Rights", str).split(",")
    return parse_rights(each for each in texts if each in known)


def _grant(entity: Entity) -> ListGrant:
    return ListGrant(entity.partition, ListName(entity.row), _rights(entity))
