"""How many subscribers joined a list on each day, and how, and how many left.

| table    | partition | row                    | holds                                 |
|----------|-----------|------------------------|---------------------------------------|
| `growth` | `moves`   | `list:NAME,2026-11-16` | `Movement` of a list on a day, in UTC |
| `growth` | `moves`   | `all,2026-11-16`       | the same of all lists together        |

They are counted from the consent ledger together with the subscribers, in the background, so that
signing up costs nothing more. A count is repeated from the beginning after a crash: a day of a list
and that of all lists change in one batch, by the difference to what was counted before. Before the
ledger there are no days.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.consent import (
    BY_API,
    BY_IMPORT,
    ENDS,
    ConsentAction,
    ConsentDetails,
)
from postroom.domain.audience.lists.lists import ListName
from postroom.services import entities
from postroom.services.audience.growth.counting_lease import CountingLease
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import Entity, Insert, KeyRange, Operation, Replace, Store

_TABLE: Final = "growth"
_PARTITION: Final = "moves"
_ALL: Final = "all"
_ENTRIES: Final = "ledger:"
_IMPORTS: Final = "ledgerimport:"
_ROWS: Final = 1000
_DAYS_AT_ONCE: Final = 45  # two operations for each; a batch of the store has 100
_KEPT: Final = timedelta(days=365)
_GUID_BYTES: Final = 16
_BY_TEAM: Final = frozenset(
    {ConsentAction.ADDED, ConsentAction.ADDED_CONFIRMED, ConsentAction.MOVED_IN}
)
_REMOVED: Final = frozenset({ConsentAction.REMOVED, ConsentAction.MOVED_OUT, ConsentAction.ERASED})


class Movement(msgspec.Struct, frozen=True):
    """How many joined by the sign-up form, the API, an import and the team, and how many left:
    they unsubscribed, or were removed."""

    form: int = 0
    api: int = 0
    imported: int = 0
    team: int = 0
    unsubscribed: int = 0
    removed: int = 0

    def __add__(self, other: Movement) -> Movement:
        one, another = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Movement(*(a + b for a, b in zip(one, another, strict=True)))

    def __sub__(self, other: Movement) -> Movement:
        one, another = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Movement(*(a - b for a, b in zip(one, another, strict=True)))

    @property
    def joined(self) -> int:
        return self.form + self.api + self.imported + self.team

    @property
    def left(self) -> int:
        return self.unsubscribed + self.removed


_STILL: Final = Movement()


class ListMovements:
    def __init__(self, store: Store) -> None:
        self._rows = store.table(_TABLE)
        self._ledger = store.table(entities.LISTS)

    async def days(self, list_name: ListName | None, *, last: int) -> dict[str, Movement]:
        """Return the movements of a list or of all lists by day, oldest first."""
        whose = _ALL if list_name is None else _of_list(list_name)
        first = _day(clock.now() - timedelta(days=last))
        rows = KeyRange(_row(whose, first), KeyRange.prefix(f"{whose},").stop)
        found = await self._rows.read(_DayRow, _PARTITION, rows, limit=_ROWS)
        return {key.rpartition(",")[2]: row.movement for key, row in found.items()}

    # -- counting ----------------------------------------------------------------------------

    async def count(self, list_name: ListName, counting: CountingLease | None = None) -> None:
        """Count what the ledger of a list says. Can be repeated."""
        counted: dict[str, Movement] = {}
        first = _day(clock.now() - _KEPT)
        await self._count_imports(list_name, counted)
        await self._count_entries(list_name, counted, counting)
        recent = {day: each for day, each in counted.items() if day > first}
        await self.write(list_name, recent)

    async def write(self, list_name: ListName, days: Mapping[str, Movement]) -> None:
        """Record the movements of these days, and add the difference to those of all lists."""
        wanted = sorted(days)
        for start in range(0, len(wanted), _DAYS_AT_ONCE):
            some = {day: days[day] for day in wanted[start : start + _DAYS_AT_ONCE]}
            await self._write_some(list_name, some)

    async def forget(self, list_name: str) -> None:
        """Remove the days of a deleted list from those of all lists. Can be repeated."""
        known = await self._known(_of_list(ListName(list_name)), _FIRST_DAY, _LAST_DAY)
        await self.write(ListName(list_name), dict.fromkeys(known, _STILL))

    async def _write_some(self, list_name: ListName, days: Mapping[str, Movement]) -> None:
        whose = _of_list(list_name)

        async def attempt() -> None:
            ours = await self._known(whose, min(days), max(days))
            alls = await self._known(_ALL, min(days), max(days))
            operations: list[Operation] = []
            for day, movement in days.items():
                before = ours[day][0] if day in ours else _STILL
                if movement == before:
                    continue
                operations.append(_changed(whose, day, movement, ours))
                total = (alls[day][0] if day in alls else _STILL) + (movement - before)
                operations.append(_changed(_ALL, day, total, alls))
            if operations:
                await self._rows.apply(operations)

        await retry_on_conflict(attempt, "movements of", list_name)

    async def _known(self, whose: str, first: str, last: str) -> dict[str, tuple[Movement, str]]:
        """Return the stored days from one to another, with their ETags."""
        within = KeyRange.between(_row(whose, first), _row(whose, last))
        found: dict[str, tuple[Movement, str]] = {}
        async for each in self._rows.scan(KeyRange.only(_PARTITION), within):
            found[each.row.rpartition(",")[2]] = (_movement(each), each.etag)
        return found

    async def _count_imports(self, list_name: ListName, counted: dict[str, Movement]) -> None:
        rows = KeyRange.prefix(_IMPORTS)
        async for each in self._ledger.scan(KeyRange.only(list_name), rows):
            members = len(entities.read(each, "Members", bytes)) // _GUID_BYTES
            _add(counted, entities.read(each, "At", datetime), Movement(imported=members))

    async def _count_entries(
        self, list_name: ListName, counted: dict[str, Movement], counting: CountingLease | None
    ) -> None:
        within = KeyRange.prefix(_ENTRIES)
        start = within.start
        before: tuple[str, str] = ("", "")
        while True:
            asked = clock.monotonic()
            rows = await self._ledger.read(
                _Entry, list_name, KeyRange(start, within.stop), limit=_ROWS
            )
            for key, entry in rows.items():
                guid = key.partition(",")[0]
                is_first = before[0] != guid
                is_over = not is_first and before[1] in ENDS
                # The first entry of someone who was imported follows the entry of the import.
                is_there = bool(entry.Previous) if is_first else not is_over
                movement = movement_of(entry.Act, entry.Details, is_over=is_over, is_there=is_there)
                if movement is not None:
                    _add(counted, entry.At, movement)
                before = (guid, entry.Act)
            if len(rows) < _ROWS:
                return
            start = entities.key_after(next(reversed(rows)))
            if counting is not None:
                await counting.keep()
                # Leave half of the time to other work, such as pages.
                await asyncio.sleep(clock.monotonic() - asked)


def movement_of(
    act: str, details: str, *, is_over: bool = False, is_there: bool = False
) -> Movement | None:
    """Return what an entry of the ledger counts as; None: nobody joined or left. `is_over`: the
    entry before it says that the subscriber left; `is_there`: it says that they are on the list,
    so signing up again does not count."""
    if act == ConsentAction.UNSUBSCRIBED:
        return Movement(unsubscribed=1)
    if act in _REMOVED:
        return None if is_over else Movement(removed=1)
    if is_there:
        return None
    if act != ConsentAction.SIGNED_UP and act != ConsentAction.IMPORTED and act not in _BY_TEAM:
        return None
    origin = _origin(details)
    if act == ConsentAction.IMPORTED or origin == BY_IMPORT.origin:
        return Movement(imported=1)
    if origin == BY_API.origin:
        return Movement(api=1)
    return Movement(form=1) if act == ConsentAction.SIGNED_UP else Movement(team=1)


def _origin(details: str) -> str:
    """Return where an entry came from; "" if its details were erased or damaged."""
    try:
        return msgspec.json.decode(details, type=ConsentDetails).origin if details else ""
    except msgspec.DecodeError:
        return ""


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """The properties that are read of an entry of the ledger."""

    At: datetime
    Act: str
    Details: str = ""
    Previous: str = ""


class _DayRow(msgspec.Struct, frozen=True, gc=False):
    """The numbers of a day."""

    Form: int = 0
    Api: int = 0
    Imported: int = 0
    Team: int = 0
    Unsubscribed: int = 0
    Removed: int = 0

    @property
    def movement(self) -> Movement:
        return Movement(*msgspec.structs.astuple(self))


_FIRST_DAY: Final = "0"
_LAST_DAY: Final = "9999"


def _changed(
    whose: str, day: str, movement: Movement, known: Mapping[str, tuple[Movement, str]]
) -> Operation:
    names = _DayRow.__struct_fields__
    properties = dict(zip(names, msgspec.structs.astuple(movement), strict=True))
    entity = Entity(_PARTITION, _row(whose, day), properties)
    return Replace(entity, known[day][1]) if day in known else Insert(entity)


def _movement(entity: Entity) -> Movement:
    return Movement(*(entities.read(entity, name, int) for name in _DayRow.__struct_fields__))


def _add(counted: dict[str, Movement], at: datetime, movement: Movement) -> None:
    counted[_day(at)] = counted.get(_day(at), _STILL) + movement


def _of_list(list_name: ListName) -> str:
    return f"list:{list_name}"


def _row(whose: str, day: str) -> str:
    return f"{whose},{day}"


def _day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"
