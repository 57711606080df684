"""Search for subscribers in a list of any length: by part of the address, by state, by age.

The only index is the order of addresses: to find the ten blocked ones of a million, or the newest,
the whole million is read, in about two seconds on SQLite. A call reads for a short time only. Then
it returns what it has found and where the next call continues, so that a page can show progress.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, address_key, folded
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.services import entities
from postroom.services.audience.lists import ListService
from postroom.services.row_ranges import read_whole
from postroom.storage import KeyRange, Store, Table

_SECONDS: Final = 0.06
_ROWS: Final = 1000  # the most that one query returns
_BEGIN: Final = len(entities.EMAIL_PREFIX)


class SubscriberState(StrEnum):
    """A filter by state."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    BLOCKED = "blocked"

    def fits(self, subscriber: Subscriber | SubscriberLine) -> bool:
        match self:
            case SubscriberState.VERIFIED:
                return subscriber.verified
            case SubscriberState.UNVERIFIED:
                return not subscriber.verified
            case SubscriberState.BLOCKED:
                return bool(subscriber.blocked)


class SubscriberLine(msgspec.Struct, frozen=True, gc=False):
    """A subscriber as an index shows and sorts it."""

    address: Address
    verified: bool
    blocked: str
    created_at: datetime


class FoundSubscribers(msgspec.Struct, frozen=True):
    """Sorted by address. `next` is the address after which to continue; None at the end.

    `is_cut_short` if time ran out before enough were found; `looked_at` were read.
    """

    subscribers: list[Subscriber]
    next: str | None
    is_cut_short: bool = False
    looked_at: int = 0


class SubscribersByAge(msgspec.Struct, frozen=True):
    """The newest (or oldest) of the `looked_at` subscribers that were read so far.

    `next` is the address after which to continue; None if all were read.
    """

    subscribers: list[SubscriberLine]
    looked_at: int
    next: str | None


class SubscriberSearch:
    def __init__(self, store: Store, lists: ListService) -> None:
        self._rows = store.table(entities.LISTS)
        self._lists = lists

    async def find(
        self,
        list_name: str,
        *,
        state: SubscriberState | None = None,
        prefix: str = "",
        contains: str = "",
        limit: int = 50,
        after: str = "",
        seconds: float = _SECONDS,
    ) -> FoundSubscribers:
        """Return subscribers in this state whose address begins with `prefix` and contains
        `contains`, sorted by address. `NoSuch` list."""
        mailing_list = await self._lists.get(list_name)
        if contains or state:
            rows = _Rows(self._rows, mailing_list.name, prefix, after, seconds)
            return await self._filtered(rows, folded(contains), state, limit)
        within = KeyRange.prefix(entities.EMAIL_PREFIX + folded(prefix))
        start = max(within.start or "", _behind(after) if after else "")
        result = await self._rows.query(
            KeyRange.only(mailing_list.name), KeyRange(start, within.stop), limit=limit + 1
        )
        found = [entities.subscriber_from(entity) for entity in result.entities]
        if len(found) > limit:
            return FoundSubscribers(found[:limit], found[limit - 1].address)
        return FoundSubscribers(found, None)

    async def _filtered(
        self, rows: _Rows, part: str, state: SubscriberState | None, limit: int
    ) -> FoundSubscribers:
        found: list[str] = []
        while (some := await rows.following()) is not None:
            found += [
                key
                for key, row in some.items()
                if part in key[_BEGIN:] and (state is None or state.fits(_line(key, row)))
            ]
            if len(found) > limit:
                break
        more = len(found) > limit
        rows_found = await asyncio.gather(
            *(self._rows.get(rows.list_name, key) for key in found[:limit])
        )
        subscribers = [entities.subscriber_from(each) for each in rows_found if each]
        if more:
            return FoundSubscribers(subscribers, found[limit - 1][_BEGIN:])
        is_cut_short = rows.next is not None
        return FoundSubscribers(subscribers, rows.next, is_cut_short, rows.looked_at)

    async def by_age(
        self,
        list_name: str,
        *,
        oldest_first: bool = False,
        contains: str = "",
        state: SubscriberState | None = None,
        behind: SubscriberLine | None = None,
        limit: int = 50,
        after: str = "",
        kept: Sequence[SubscriberLine] = (),
        seconds: float = _SECONDS,
    ) -> SubscribersByAge:
        """Return the newest subscribers of a list that follow `behind`, if given. `NoSuch` list.

        To continue an earlier call, pass its `next` as `after` and its result as `kept`.
        """
        mailing_list = await self._lists.get(list_name)
        rows = _Rows(self._rows, mailing_list.name, "", after, seconds)
        part = folded(contains)
        best = list(kept)

        def place(line: SubscriberLine) -> tuple[Any, ...]:
            moment = line.created_at.timestamp()
            return (moment if oldest_first else -moment, address_key(line.address))

        start = None if behind is None else place(behind)
        while (some := await rows.following()) is not None:
            lines = [
                _line(key, row)
                for key, row in _candidates(best, limit, some, oldest_first)
                if not part or part in key[_BEGIN:]
            ]
            fitting = (each for each in lines if state is None or state.fits(each))
            later = (each for each in fitting if start is None or place(each) > start)
            best = heapq.nsmallest(limit, [*best, *later], key=place)
        return SubscribersByAge(best, rows.looked_at, rows.next)

    async def lines(self, list_name: str, emails: Sequence[str]) -> list[SubscriberLine]:
        """Return which of these subscribers are on the list. `NoSuch` list."""
        name = (await self._lists.get(list_name)).name
        ranges = [KeyRange.only(entities.email_row(Address(each))) for each in emails]
        found = await asyncio.gather(*(self._rows.read(_Row, name, each) for each in ranges))
        return [_line(key, row) for one in found for key, row in one.items()]

    async def attributes(
        self, list_name: ListName, emails: Sequence[Address]
    ) -> dict[Address, dict[str, Any]]:
        """Return the values of the fields of these subscribers."""
        ranges = [KeyRange.only(entities.email_row(each)) for each in emails]
        found = await asyncio.gather(
            *(self._rows.read(_Described, list_name, each) for each in ranges)
        )
        return {
            email: msgspec.json.decode(row.Attributes)
            for email, rows in zip(emails, found, strict=True)
            for row in rows.values()
            if row.Attributes
        }

    async def whole(
        self,
        list_name: str,
        *,
        state: SubscriberState | None = None,
        contains: str = "",
        most: int,
    ) -> list[SubscriberLine] | None:
        """Return all matching subscribers, sorted by address; None if the list has more than `most`
        subscribers. `NoSuch` list."""
        mailing_list = await self._lists.get(list_name)
        within, part = KeyRange.prefix(entities.EMAIL_PREFIX), folded(contains)
        rows = await read_whole(self._rows, _Row, mailing_list.name, within, most=most)
        if rows is None:
            return None
        lines = [_line(key, row) for key, row in rows.items() if part in key[_BEGIN:]]
        return [line for line in lines if state is None or state.fits(line)]


class _Row(msgspec.Struct, frozen=True, gc=False):
    """The properties that are read of an `email:` row."""

    CreatedAt: datetime
    Verified: bool = False
    Blocked: str = ""
    EmailAddress: str = ""


class _Described(msgspec.Struct, frozen=True, gc=False):
    """The property of an `email:` row that has the values of fields."""

    Attributes: str = ""


def _line(key: str, row: _Row) -> SubscriberLine:
    address = Address(row.EmailAddress or key[_BEGIN:])
    return SubscriberLine(address, row.Verified, row.Blocked, row.CreatedAt)


def _candidates(
    best: Sequence[SubscriberLine], limit: int, rows: dict[str, _Row], oldest_first: bool
) -> Iterable[tuple[str, _Row]]:
    """Return the rows that may be among the best: hardly any, once enough are known.

    Rows come in key order, so of several with the same time, the first ones are the best.
    """
    if len(best) < limit:
        return rows.items()
    last = best[-1].created_at
    if oldest_first:
        return [(key, row) for key, row in rows.items() if row.CreatedAt < last]
    return [(key, row) for key, row in rows.items() if row.CreatedAt > last]


class _Rows:
    """Reads the rows of a list after an address, some at a time, for a limited time.

    `next` is the last address if time ran out before the end; `looked_at` counts rows.
    """

    def __init__(
        self, table: Table, list_name: ListName, prefix: str, after: str, seconds: float
    ) -> None:
        self.list_name = list_name
        self.looked_at = 0
        self.next: str | None = None
        self._last: str | None = None
        self._table = table
        within = KeyRange.prefix(entities.EMAIL_PREFIX + folded(prefix))
        self._stop = within.stop
        self._start = max(within.start or "", _behind(after) if after else "")
        self._deadline = clock.monotonic() + seconds
        self._is_at_end = False

    async def following(self) -> dict[str, _Row] | None:
        """Return the next rows; None at the end, or when time has run out."""
        if self._is_at_end:
            return None
        if self.looked_at and clock.monotonic() > self._deadline:
            self.next = self._last
            return None
        within = KeyRange(self._start, self._stop)
        rows = await self._table.read(_Row, self.list_name, within, limit=_ROWS)
        self.looked_at += len(rows)
        self._is_at_end = len(rows) < _ROWS
        if rows:
            last = next(reversed(rows))
            self._last = last[_BEGIN:]
            self._start = entities.key_after(last)
        return rows


def _behind(address: str) -> str:
    return entities.key_after(entities.email_row(Address(address)))
