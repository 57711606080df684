"""Reading and removing many rows of one partition, and row keys that sort by time, newest first."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, TypeVar

import msgspec

from postroom.domain.audience.addresses import AddressKey
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.services import entities
from postroom.storage import EVERY_KEY, Delete, KeyRange, NotFound, Table
from postroom.storage.contract.tables import Entity

S = TypeVar("S", bound=msgspec.Struct)

_MOST_NEIGHBOURS: Final = 200
_ROWS: Final = 1000  # the most that one read of the store returns


async def read_whole(
    table: Table, kind: type[S], partition: str, rows: KeyRange = EVERY_KEY, *, most: int
) -> dict[str, S] | None:
    """Return the rows by key, in key order, like `Table.read`; None if there are more than `most`.
    At most one more than that is read."""
    found: dict[str, S] = {}
    start = rows.start
    while True:
        limit = min(_ROWS, most + 1 - len(found))
        answer = await table.read(kind, partition, KeyRange(start, rows.stop), limit=limit)
        found |= answer
        if len(found) > most:
            return None
        if len(answer) < limit:
            return found
        start = entities.key_after(next(reversed(answer)))


_BATCH = 100  # the operations of one batch of the store


async def remove_rows(table: Table, partition: str, rows: Sequence[str]) -> None:
    """Remove these rows, in order and in batches.

    If one of them is gone, another process is removing them: the rest is left to it.
    """
    for start in range(0, len(rows), _BATCH):
        try:
            await table.apply([Delete(partition, row) for row in rows[start : start + _BATCH]])
        except NotFound:
            return


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND  # has 18 digits


def new_row(moment: datetime) -> str:
    """Return a key for this moment; two keys of the same moment still differ."""
    return named_row(moment, secrets.token_hex(4))


def named_row(moment: datetime, name: str) -> str:
    """Return the key for this moment of something whose name is unique."""
    return f"{_counted_down(moment)},{name}"


def moment_of(row: str) -> datetime:
    return _EPOCH + (_LAST - int(row[:18])) * _MICROSECOND


def rows_of_day(day: date) -> KeyRange:
    """Return the range of a day, in UTC."""
    start = datetime.combine(day, time(), UTC)
    end = datetime.combine(day, time.max, UTC)
    # Keys run backwards, and a key with its random end sorts after the bare moment.
    return KeyRange(_counted_down(end), _counted_down(start, earlier=1))


def rows_before(moment: datetime) -> KeyRange:
    """Return the range of what is older than this moment."""
    return KeyRange(start=_counted_down(moment, earlier=1))


def rows_after(row: str) -> KeyRange:
    """Return the range of what is newer than this row."""
    return KeyRange(stop=row)


def _counted_down(moment: datetime, *, earlier: int = 0) -> str:
    """Return the moment as digits that sort backwards; `earlier` is in microseconds."""
    micros = (moment.astimezone(UTC) - _EPOCH) // _MICROSECOND - earlier
    return f"{_LAST - max(micros, 0):018d}"


async def neighbours(
    table: Table, name: ListName, addresses: Sequence[AddressKey]
) -> dict[AddressKey, Subscriber]:
    """Return the subscribers with these sorted addresses, and perhaps some between them.

    They are close together in key order, so one query finds them; if there are too many others in
    between, each is read on its own.
    """
    first, last = entities.email_row(addresses[0]), entities.email_row(addresses[-1])
    result = await table.query(
        KeyRange.only(name), KeyRange.between(first, last), limit=_MOST_NEIGHBOURS
    )
    rows: Sequence[Entity | None] = result.entities
    if result.next is not None:
        rows = await asyncio.gather(
            *(table.get(name, entities.email_row(each)) for each in addresses)
        )
    found = (entities.subscriber_from(each) for each in rows if each is not None)
    return {each.key: each for each in found}
