"""Changes of single fields of a list: add, change, rename, reorder, remove.

The name of a field is also the name of its values in the rows of subscribers. Renaming a field
declares it under its new name, together with the former one. Then it renames the field in the
rules of segments and the values in the rows. Finally it forgets the former name. Each step can be
repeated, so an interrupted change is finished by `finish_rename`, which the scheduler calls for
every list that is in the index of renames (`UnfinishedRenames`).

A message whose recipients are being planned knows the fields as they were when that began. So the
values are renamed only when no message is being planned that may not know the new name.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from postroom import clock
from postroom.domain.audience.field_declarations import is_free_name
from postroom.domain.audience.fields import BUILT_IN, Field, Fields
from postroom.domain.audience.lists.lists import EVERY_LIST, ListName
from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.messages.messages import MessageStatus
from postroom.errors import PostroomError
from postroom.services import entities
from postroom.services.audience.fields.list_fields import DeclaredFields, FieldService
from postroom.services.audience.lists import ListService
from postroom.services.audience.targeting.segments import SegmentService
from postroom.services.concurrency import retry_on_conflict, run_periodically
from postroom.services.messages.message_rows import MessageRows
from postroom.storage import Conflict, Entity, KeyRange, NotFound, Replace, Store

_ROWS: Final = 1000  # the most that one query returns
_LISTS_AT_ONCE: Final = 100
_FINISHED_EVERY: Final = 30.0  # seconds
_BATCH: Final = 100  # the operations of one batch of the store
_ATTRIBUTES: Final = "Attributes"
_PENDING: Final = "PendingAttributes"

Change = Callable[[Sequence[Field]], list[Field]]
RowChange = Callable[[Entity], Entity | None]


class ValueCount(msgspec.Struct, frozen=True):
    """How many subscribers have a value; at least that many if counting was cut short."""

    count: int
    is_exact: bool


class FieldChanges:
    def __init__(
        self,
        store: Store,
        fields: FieldService,
        lists: ListService,
        segments: SegmentService,
        messages: MessageRows,
    ) -> None:
        self._table = store.table(entities.LISTS)
        self._index = store.table(entities.LIST_INDEX)
        self._fields = fields
        self._lists = lists
        self._segments = segments
        self._messages = messages

    async def add(self, list_name: str, new: Field) -> Field:
        """Declare one more field, after the others. `Invalid`, `Exists`, `NoSuch` list."""

        def change(fields: Sequence[Field]) -> list[Field]:
            if any(each.name == new.name for each in fields):
                raise Exists("field", new.name)
            return [*fields, new]

        return _named((await self._change(list_name, change)), new.name)

    async def change(
        self, list_name: str, name: str, new: Field, before: Field | None = None
    ) -> Field:
        """Replace a field; under another name it keeps its values, once `finish_rename` is done.

        `Invalid`, `NoSuch`, `Exists`; with `before`, `Overtaken` if the field is another by now.
        """

        def change(fields: Sequence[Field]) -> list[Field]:
            old = _found(fields, name)
            if before is not None and before != old:
                raise _Changed
            if new.name != name and any(each.name == new.name for each in fields):
                raise Exists("field", new.name)
            if new.name != name and old.formerly:
                raise NotNow(f"{name} is still being renamed: wait until that is done")
            formerly = old.formerly if new.name == name else name
            changed = msgspec.structs.replace(new, formerly=formerly)
            return [changed if each.name == name else each for each in fields]

        if new.name != name:  # first: an interruption leaves an entry too many
            declared = await self._fields.get(list_name)
            _found(declared.fields.own, name)
            _check_new_name(name, new.name)
            await self._forget_values(list_name, new.name, declared.fields)
            await self._index.upsert(Entity(entities.RENAMING, list_name, {}))
        try:
            declared = await self._change(list_name, change)
        except _Changed as exc:
            raise Overtaken("field", name) from exc
        return _named(declared, new.name)

    async def rename(self, list_name: str, name: str, new_name: str) -> Field:
        """Give a field another name; `finish_rename` follows. Repeating it changes nothing.

        `Invalid`, `NoSuch`, `Exists`, `NotNow`.
        """
        declared = (await self._fields.get(list_name)).fields.own
        renamed = next((each for each in declared if each.name == new_name), None)
        if renamed is not None and renamed.formerly == name:
            return renamed
        new = msgspec.structs.replace(_found(declared, name), name=new_name)
        return await self.change(list_name, name, new)

    async def _forget_values(self, list_name: str, name: str, fields: Fields) -> None:
        """Delete the values of a removed field whose name another field is about to get: they would
        pass for newer values of that one. `NotNow` while a message may need them."""
        if not is_free_name(name) or any(name in (f.name, f.formerly) for f in fields.declared):
            return  # refused later, or still in use
        owner = ListName(list_name)
        if not (await self.count_values(owner, name, seconds=math.inf)).count:
            return
        if await self._is_planning(owner):
            raise NotNow(
                f"{name} was removed and still has values, which a message that is being prepared"
                " may need: wait until it is being sent, or choose another name"
            )
        async for each in self._lists_of(owner):
            await self._rewrite(each, partial(_without, name=name))

    async def finish_rename(self, list_name: str) -> int | None:
        """Rename the values of renamed fields; return how many subscribers had one. Repeatable.

        Return None if that has to wait, because a message to the list is being planned.
        """
        declared = await self._fields.get(list_name)
        name, count = ListName(list_name), 0
        renamed = any(each.formerly for each in declared.fields.own)
        if renamed and await self._is_planning(name):
            return None
        for field in declared.fields.own:
            if field.formerly:
                async for each in self._lists_of(name):
                    await self._rename_in_rules(each, field)
                    count += await self._rewrite(each, partial(_renamed, field=field))
                await self._fields.end_rename(name, field.name)
        with contextlib.suppress(NotFound):
            await self._index.delete(entities.RENAMING, list_name)
        return count

    async def _is_planning(self, name: ListName) -> bool:
        """Return whether the recipients of a message to a list are being planned."""
        async for message in self._messages.open_messages():
            status = message.paused_from or message.status
            if status is MessageStatus.QUEUING and (name == EVERY_LIST or name in message.lists):
                return True
        return False

    async def _lists_of(self, name: ListName) -> AsyncIterator[ListName]:
        """Yield the lists that the fields of a list, or of all lists, apply to."""
        if name != EVERY_LIST:
            yield name
            return
        after: str | None = None
        while True:
            found = await self._lists.slice(limit=_LISTS_AT_ONCE, after=after)
            for each in found.lists:
                yield each.name
            if (after := found.next) is None:
                return

    async def move(self, list_name: str, name: str, *, by: int) -> None:
        """Move a field up (-1) or down (1) in the order of the list's fields. `NoSuch`."""

        def change(fields: Sequence[Field]) -> list[Field]:
            field = _found(fields, name)
            others = [each for each in fields if each.name != name]
            place = max(0, fields.index(field) + by)
            return [*others[:place], field, *others[place:]]

        await self._change(list_name, change)

    async def remove(self, list_name: str, name: str) -> None:
        """Remove a field. Its values stay in the rows, unseen, and come back with it. `NoSuch`;
        `NotNow` while they are being renamed, because some would stay under the former name."""

        def change(fields: Sequence[Field]) -> list[Field]:
            _found(fields, name)
            return [each for each in fields if each.name != name]

        await self._change(list_name, change)

    async def count_values(self, list_name: str, name: str, *, seconds: float) -> ValueCount:
        """Count the subscribers who have a value of a field, for some seconds at most."""
        deadline, count, is_exact = clock.monotonic() + seconds, 0, True
        async for each in self._lists_of(ListName(list_name)):
            found = await self._count_values(each, name, deadline)
            count += found.count
            is_exact = is_exact and found.is_exact
        return ValueCount(count, is_exact)

    async def _count_values(self, list_name: ListName, name: str, deadline: float) -> ValueCount:
        count = 0
        begin = f'"{name}":'
        within = KeyRange.prefix(entities.EMAIL_PREFIX)
        start = within.start
        while True:
            rows = await self._table.read(
                _Row, list_name, KeyRange(start, within.stop), limit=_ROWS
            )
            # A quick look first: decoding a million rows takes a while.
            count += sum(
                name in msgspec.json.decode(row.Attributes)
                for row in rows.values()
                if begin in row.Attributes
            )
            if len(rows) < _ROWS:
                return ValueCount(count, is_exact=True)
            if clock.monotonic() > deadline:
                return ValueCount(count, is_exact=False)
            start = entities.key_after(next(reversed(rows)))

    async def _change(self, list_name: str, change: Change) -> DeclaredFields:
        async def attempt() -> DeclaredFields:
            old = await self._fields.get(list_name)
            return await self._fields.declare(list_name, change(old.fields.own), old.etag)

        return await retry_on_conflict(attempt, "list", list_name)

    async def _rename_in_rules(self, list_name: str, field: Field) -> None:
        async def attempt() -> None:
            for segment in await self._segments.using(list_name, field.formerly):
                await self._segments.rename_field(segment, field.formerly, field.name)

        await retry_on_conflict(attempt, "list", list_name)

    async def _rewrite(self, name: ListName, change: RowChange) -> int:
        """Change the rows of a list's subscribers; return how many had to be."""
        count = 0
        waiting: list[Entity] = []
        async for entity in self._table.scan(
            KeyRange.only(name), KeyRange.prefix(entities.EMAIL_PREFIX)
        ):
            if (changed := change(entity)) is not None:
                waiting.append(changed)
                count += 1
            if len(waiting) == _BATCH:
                await self._replace(waiting, change)
                waiting = []
        await self._replace(waiting, change)
        return count

    async def _replace(self, rows: Sequence[Entity], change: RowChange) -> None:
        if not rows:
            return
        try:
            await self._table.apply([Replace(each, each.etag) for each in rows])
        except Conflict:  # someone else changed one of them
            for each in rows:
                await self._replace_one(each, change)

    async def _replace_one(self, row: Entity, change: RowChange) -> None:
        async def attempt() -> None:
            found = await self._table.get(row.partition, row.row)
            changed = None if found is None else change(found)
            if changed is not None:
                await self._table.replace(changed, changed.etag)

        await retry_on_conflict(attempt, "subscriber", row.row)


class _Row(msgspec.Struct, frozen=True, gc=False):
    """The property of an `email:` row that has the values."""

    Attributes: str = ""


class _Changed(PostroomError):
    """The field is not the one that was edited."""


def _check_new_name(name: str, new_name: str) -> None:
    """Raise `Invalid` for a new name that would give or take the values of a built-in field."""
    for each in (name, new_name):
        if new_name != name and each in BUILT_IN:
            raise Invalid(
                "name", f"cannot be changed from {name} to {new_name}: {each} is built in"
            )


def _found(fields: Sequence[Field], name: str) -> Field:
    for each in fields:
        if each.name == name:
            return each
    raise NoSuch("field", name)


def _named(declared: DeclaredFields, name: str) -> Field:
    return _found(declared.fields.own, name)


def _renamed(entity: Entity, *, field: Field) -> Entity | None:
    """Return the row with the values of a renamed field; None if it has none. A value under the
    new name is newer, and stays."""

    def rename(attributes: dict[str, Any]) -> None:
        attributes.setdefault(field.name, attributes.pop(field.formerly))

    return _with_attributes(entity, field.formerly, rename)


def _without(entity: Entity, *, name: str) -> Entity | None:
    """Return the row without the values of a field; None if it has none."""
    return _with_attributes(entity, name, lambda attributes: attributes.pop(name))


def _with_attributes(
    entity: Entity, name: str, change: Callable[[dict[str, Any]], object]
) -> Entity | None:
    """Return the row with its attributes changed where they have a value of a field."""
    changed: dict[str, str] = {}
    for stored_as in (_ATTRIBUTES, _PENDING):
        text = entities.read_optional(entity, stored_as, str)
        attributes = msgspec.json.decode(text) if text else {}
        if name in attributes:
            change(attributes)
            changed[stored_as] = msgspec.json.encode(attributes).decode()
    if not changed:
        return None
    return msgspec.structs.replace(entity, properties={**entity.properties, **changed})


class UnfinishedRenames:
    """Finishes renames that were interrupted, or had to wait for a message."""

    def __init__(self, store: Store, changes: FieldChanges) -> None:
        self._store = store
        self._index = store.table(entities.LIST_INDEX)
        self._changes = changes

    async def run(self, stopping: asyncio.Event) -> None:
        """Finish them every half minute until `stopping`."""
        await run_periodically(
            self._store, "renaming of fields", lambda _: self.finish(), every=_FINISHED_EVERY,
            stopping=stopping,
        )  # fmt: skip

    async def finish(self) -> None:
        """Finish all that can be finished now."""
        async for entry in self._index.scan(KeyRange.only(entities.RENAMING)):
            try:
                await self._changes.finish_rename(entry.row)
            except NoSuch:  # the list was deleted
                with contextlib.suppress(NotFound):
                    await self._index.delete(entry.partition, entry.row)
