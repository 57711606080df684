"""The fields that a list declares, in one row of the list's partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.fields import Field, Fields, parse_fields
from postroom.domain.audience.lists import ListName
from postroom.domain.errors import Overtaken
from postroom.services import entities
from postroom.services.audience.lists import ListService
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import Conflict, Entity, Store

_ROW: Final = "fields"
_PROPERTY: Final = "Fields"
_UNDECLARED: Final = "none"
"""The ETag of a list that has never declared a field."""
_RECENT_SECONDS: Final = 5.0
_REMEMBERED: Final = 1000  # lists


class DeclaredFields(msgspec.Struct, frozen=True):
    """The fields of a list. The ETag guards a change."""

    fields: Fields
    etag: str


class FieldService:
    def __init__(self, store: Store, lists: ListService) -> None:
        self._table = store.table(entities.LISTS)
        self._lists = lists
        self._recent: dict[ListName, tuple[float, Fields]] = {}

    async def get(self, list_name: str) -> DeclaredFields:
        """Return the fields of a list. `NoSuch`."""
        return await self.of(ListName((await self._lists.get(list_name)).name))

    async def of(self, name: ListName) -> DeclaredFields:
        """Return the fields of a list that exists."""
        found = await self._table.get(name, _ROW)
        if found is None:
            return DeclaredFields(Fields(), _UNDECLARED)
        stored = entities.read(found, _PROPERTY, str)
        declared = msgspec.json.decode(stored, type=list[Field])
        return DeclaredFields(Fields(declared), found.etag)

    async def recent(self, name: ListName) -> Fields:
        """Return the fields of a list as they were at most five seconds ago; changes by this
        process count at once. Sign-ups ask for them all the time."""
        known = self._recent.get(name)
        if known is None or clock.monotonic() - known[0] >= _RECENT_SECONDS:
            read_at = clock.monotonic()
            known = (read_at, (await self.of(name)).fields)
            if len(self._recent) >= _REMEMBERED:
                self._recent.clear()
            self._recent[name] = known
        return known[1]

    async def declare(
        self, list_name: str, fields: Sequence[Field], etag: str | None = None
    ) -> DeclaredFields:
        """Replace the fields of a list. `Invalid`, `NoSuch`; with `etag`, `Overtaken`.

        The values of a field that is no longer declared stay in the rows, unseen, and come back
        with the field.
        """
        checked = parse_fields(fields)
        name = (await self._lists.get(list_name)).name
        checked = _still_renamed(checked, (await self.of(name)).fields.declared)
        return await self._save(name, checked, etag)

    async def end_renaming(self, name: ListName, field: str) -> None:
        """Forget the former name of a field: all its values are renamed. Can be repeated."""

        async def attempt() -> None:
            old = await self.of(name)
            fields = [
                msgspec.structs.replace(each, formerly="") if each.name == field else each
                for each in old.fields.declared
            ]
            await self._save(name, fields, old.etag)

        await retry_on_conflict(attempt, "list", name)

    async def _save(self, name: ListName, checked: list[Field], etag: str | None) -> DeclaredFields:
        row = Entity(name, _ROW, {_PROPERTY: msgspec.json.encode(checked).decode()})
        try:
            if etag is None:
                saved = await self._table.upsert(row)
            elif etag == _UNDECLARED:
                saved = await self._table.insert(row)
            else:
                saved = await self._table.replace(row, etag)
        except Conflict as exc:
            raise Overtaken("list", name) from exc
        self._recent.pop(name, None)
        return DeclaredFields(Fields(checked), saved)


def _still_renamed(new: list[Field], old: Sequence[Field]) -> list[Field]:
    """Return the fields with the former names of those whose values are still being renamed."""
    formerly = {each.name: each.formerly for each in old if each.formerly}
    return [
        msgspec.structs.replace(each, formerly=each.formerly or formerly.get(each.name, ""))
        for each in new
    ]
