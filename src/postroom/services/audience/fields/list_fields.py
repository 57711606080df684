"""The fields that a list declares, in one row of the list's partition; those of all lists are in a
separate partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.field_declarations import parse_fields
from postroom.domain.audience.fields import Field, Fields
from postroom.domain.audience.lists.lists import EVERY_LIST, ListName
from postroom.domain.errors import Invalid, NotNow, Overtaken
from postroom.services import entities
from postroom.services.audience.lists import ListService
from postroom.services.concurrency import both, retry_on_conflict
from postroom.storage import Conflict, Entity, Store

_ROW: Final = "fields"
_PROPERTY: Final = "Fields"
_UNDECLARED: Final = "none"
"""The ETag of a list that has never declared a field."""
_RECENT_SECONDS: Final = 5.0
_REMEMBERED: Final = 1000  # lists
_LISTS_AT_ONCE: Final = 100


class DeclaredFields(msgspec.Struct, frozen=True):
    """The fields of a list. The ETag guards a change of the list's own fields."""

    fields: Fields
    etag: str


class FieldService:
    def __init__(self, store: Store, lists: ListService) -> None:
        self._table = store.table(entities.LISTS)
        self._lists = lists
        self._recent: dict[ListName, tuple[float, Fields]] = {}

    async def get(self, list_name: str) -> DeclaredFields:
        """Return the fields of a list. `NoSuch`."""
        return await self.of(await self._existing(list_name))

    async def of(self, name: ListName) -> DeclaredFields:
        """Return the fields of a list that exists."""
        if name == EVERY_LIST:
            own, etag = await self._stored(name)
            return DeclaredFields(Fields(own), etag)
        (own, etag), (shared, _) = await both(self._stored(name), self._stored(EVERY_LIST))
        return DeclaredFields(Fields(own, shared), etag)

    async def _existing(self, list_name: str) -> ListName:
        if list_name == EVERY_LIST:
            return EVERY_LIST
        return (await self._lists.get(list_name)).name

    async def _stored(self, name: ListName) -> tuple[list[Field], str]:
        """Return the fields of one row, and its ETag."""
        found = await self._table.get(name, _ROW)
        if found is None:
            return [], _UNDECLARED
        stored = entities.read(found, _PROPERTY, str)
        return msgspec.json.decode(stored, type=list[Field]), found.etag

    async def recent(self, name: ListName) -> Fields:
        """Return the fields of a list as they were at most five seconds ago; changes by this
        process count immediately. Sign-ups ask for them all the time."""
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
        """Replace the list's own fields. `Invalid`, `NoSuch`; with `etag`, `Overtaken`.

        The values of a field that is no longer declared stay in the rows, unseen, and come back
        with the field. `NotNow` if they are still being renamed.
        """
        checked = parse_fields(fields)
        name = await self._existing(list_name)
        known = (await self.of(name)).fields
        if name == EVERY_LIST:
            await self._check_no_list_has(checked)
        for number, each in enumerate(checked):
            if any(each.name == shared.name for shared in known.shared):
                problem = f"{each.name} is a field of all lists: choose another name"
                raise Invalid(f"fields.{number}.name", problem)
        _check_renamed(checked, known)
        return await self._save(name, _still_renamed(checked, known.own), etag)

    async def _check_no_list_has(self, fields: Sequence[Field]) -> None:
        """Raise `Invalid` if a list declares a field with one of these names."""
        after: str | None = None
        while True:
            found = await self._lists.slice(limit=_LISTS_AT_ONCE, after=after)
            for mailing_list in found.lists:
                own, _ = await self._stored(mailing_list.name)
                taken = {name for each in own for name in (each.name, each.formerly)}
                for number, each in enumerate(fields):
                    if each.name in taken:
                        raise Invalid(
                            f"fields.{number}.name",
                            f"the list {mailing_list.name} has its own field {each.name}:"
                            " rename or remove it there first",
                        )
            if (after := found.next) is None:
                return

    async def end_rename(self, name: ListName, field: str) -> None:
        """Forget the former name of a field: all its values are renamed. Can be repeated."""

        async def attempt() -> None:
            old = await self.of(name)
            fields = [
                msgspec.structs.replace(each, formerly="") if each.name == field else each
                for each in old.fields.own
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
        self._recent.clear()
        shared = [] if name == EVERY_LIST else (await self._stored(EVERY_LIST))[0]
        return DeclaredFields(Fields(checked, shared), saved)


def _check_renamed(new: Sequence[Field], old: Fields) -> None:
    """Raise `NotNow` if values that are being renamed would be taken for those of another field, or
    partly stay under the former name."""
    names = {each.name for each in new}
    for each in old.own:
        if each.formerly and each.name not in names:
            raise NotNow(f"{each.name} is still being renamed: wait until that is done")
    for each in old.declared:
        if each.formerly and each.formerly in names:
            raise NotNow(
                f"{each.formerly} is still being renamed to {each.name}: wait until that is done,"
                " or choose another name"
            )


def _still_renamed(new: list[Field], old: Sequence[Field]) -> list[Field]:
    """Return the fields with the former names of those whose values are still being renamed."""
    formerly = {each.name: each.formerly for each in old if each.formerly}
    return [
        msgspec.structs.replace(each, formerly=each.formerly or formerly.get(each.name, ""))
        for each in new
    ]
