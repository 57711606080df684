"""Limits on sign-ups, so that nobody's mailbox can be flooded with confirmation emails.

| limit                     | sign-ups                           | for                 |
|---------------------------|------------------------------------|---------------------|
| an address and a list     | 2 in five minutes, 3 per day       | everyone            |
| a mailbox, over all lists | 10 per day, in all spellings       | visitors            |
|                           | 100 per day                        | programs with a key |
| a network                 | 20 in ten minutes (IPv4, IPv6 /64) | visitors            |
|                           | 40 in ten minutes (IPv6 /56)       |                     |
|                           | 80 in ten minutes (IPv6 /48)       |                     |
| a list                    | 2,000 per hour                     | visitors            |

Two at once, not one: someone who got no response because a server died can try again. Following a
link in one of our emails proves who owns the mailbox, and resets its count. Spellings that reach
the same mailbox count as one (`canonical_mailbox`). Providers give a customer an IPv6 /64, a /56 or
a whole /48, so all three are counted.

Counts are rows of the store, so that they are shared by all web servers and survive a restart. A
row belongs to a fixed period, and its partition is named after the end of that period, so that old
rows are found by their keys. Where two periods meet, twice as many may pass. The count of a list
would be written by everyone at once, so each web server takes shares of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import itertools
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, canonical_mailbox
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Overtaken
from postroom.domain.rate_limits import client_network, may_be_shared
from postroom.services.concurrency import retry_on_conflict
from postroom.services.entities import read
from postroom.services.row_ranges import remove_rows
from postroom.storage import AlreadyExists, Batch, Conflict, Entity, Insert, KeyRange, Store, Value

log = logging.getLogger(__name__)

TABLE: Final = "signuplimit"

AT_ONCE: Final = 2
AT_ONCE_WITHIN: Final = timedelta(minutes=5)
PER_ADDRESS_AND_LIST: Final = 3
PER_MAILBOX: Final = 10
PER_MAILBOX_BY_PROGRAM: Final = 100
PER_PLACE: Final = 20
PER_WIDER_PLACE: Final = {56: 40, 48: 80}  # by the length of an IPv6 prefix
PER_LIST: Final = 2000
_SHARE: Final = 20  # of a list's count: at most as many stay unused when a web server stops

_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_PLACE_TIME = timedelta(minutes=10)
_CLEAN_EVERY = timedelta(minutes=1)
_CLEAN_ROWS = 500


class _Asked(msgspec.Struct, frozen=True, array_like=True):
    """A confirmation email that was requested: when, and a digest of the address and list."""

    at: float
    about: str


class Allowance(msgspec.Struct, frozen=True):
    """Permission for one sign-up. `changes` are the rows that count it, the mailbox last."""

    address: Address
    list_name: ListName
    place: str | None
    changes: tuple[Entity, ...]


class SignupLimits:
    def __init__(self, store: Store, clock: Callable[[], datetime] = clock.now) -> None:
        self._rows = store.table(TABLE)
        self._clock = clock
        self._cleaned_at = clock()
        self._shares: dict[str, int] = {}
        self._sharing = asyncio.Lock()

    async def check(
        self, address: Address, list_name: ListName, place: str | None
    ) -> Allowance | None:
        """Return whether a confirmation email may be sent; None if not. Nothing is counted yet.

        `place` is the network of a visitor (`network_for_limits`); None for a program with a key,
        which may act for many visitors.
        """
        now = self._clock()
        mailbox = _key(now, _DAY, "mailbox", canonical_mailbox(address))
        most = PER_MAILBOX_BY_PROGRAM if place is None else PER_MAILBOX
        places = [
            (_key(now, _PLACE_TIME, "place", each), limit) for each, limit in _limits_of(place)
        ]
        asked, *counts = await asyncio.gather(
            self._rows.get(*mailbox), *(self._rows.get(*key) for key, _ in places)
        )
        changes = [
            *(
                _one_more(key, count, limit)
                for (key, limit), count in zip(places, counts, strict=True)
            ),
            _one_more_asked(mailbox, asked, _about(address, list_name), now, most),
        ]
        fitting = tuple(each for each in changes if each is not None)
        if len(fitting) < len(changes):
            return None
        if place is not None and not await self._has_share(list_name, now):
            return None
        return Allowance(address, list_name, place, fitting)

    async def first(self, address: Address, list_name: ListName) -> Batch:
        """Return the write that counts a sign-up by a program with a key if it is the mailbox's
        first today, as most are. Otherwise the write fails with `AlreadyExists`."""
        await self._clean_up()
        now = self._clock()
        key = _key(now, _DAY, "mailbox", canonical_mailbox(address))
        text = _as_text([_Asked(now.timestamp(), _about(address, list_name))])
        return Batch(TABLE, [Insert(Entity(*key, {"Asked": text}))])

    async def take(self, allowance: Allowance) -> bool:
        """Count a sign-up; return False if others were faster and used up the limit."""
        await self._clean_up()
        current: Allowance | None = allowance

        async def attempt() -> bool:
            nonlocal current
            if current is None:
                return False
            try:
                await self._write_all(current.changes)
            except Conflict:
                current = await self.check(current.address, current.list_name, current.place)
                raise
            return True

        try:
            return await retry_on_conflict(attempt, "sign-up limits of", allowance.list_name)
        except Overtaken:
            return False

    async def forget(self, address: Address) -> None:
        """Reset the count of a mailbox whose owner has followed a link."""
        key = _key(self._clock(), _DAY, "mailbox", canonical_mailbox(address))
        found = await self._rows.get(*key)
        if found is not None:
            try:
                await self._rows.delete(*key, found.etag)
            except Conflict:
                return  # signed up again at this moment, or cleaned up

    async def use_once(self, what: str, until: datetime) -> bool:
        """Return whether this has not been used before; it is remembered until then."""
        await self._clean_up()
        key = _moment(until + timedelta(minutes=1)), f"used:{_digest(what)[:32]}"
        try:
            await self._rows.insert(Entity(*key, {}))
        except AlreadyExists:
            return False
        return True

    async def _write_all(self, changes: tuple[Entity, ...]) -> None:
        """Write one after the other up to the first `Conflict`. The mailbox comes last, so that it
        is counted once per confirmation email, even if the others had to be repeated."""
        for each in changes:
            await self._write(each)

    async def _write(self, change: Entity) -> None:
        if change.etag:
            await self._rows.replace(change, change.etag)
        else:
            await self._rows.insert(change)

    # -- lists -------------------------------------------------------------------------------

    async def _has_share(self, list_name: ListName, now: datetime) -> bool:
        key = _key(now, _HOUR, "list", list_name)
        about = " ".join(key)
        async with self._sharing:
            if not self._shares.get(about):
                self._shares = {k: n for k, n in self._shares.items() if k >= key[0] and n}
                self._shares[about] = await self._take_share(key)
                if not self._shares[about]:
                    log.warning("list %s has reached the limit of sign-ups per hour", list_name)
                    return False
            self._shares[about] -= 1
            return True

    async def _take_share(self, key: tuple[str, str]) -> int:
        async def attempt() -> int:
            found = await self._rows.get(*key)
            count = 0 if found is None else read(found, "Count", int)
            share = max(0, min(_SHARE, PER_LIST - count))
            if share:
                await self._write(_counted(key, found, count + share))
            return share

        try:
            return await retry_on_conflict(attempt, "sign-up limit of", key[1])
        except Overtaken:
            return 0

    # -- clean-up ----------------------------------------------------------------------------

    async def _clean_up(self) -> None:
        """Remove some counts of past periods, at most once per minute."""
        now = self._clock()
        if now - self._cleaned_at < _CLEAN_EVERY:
            return
        self._cleaned_at = now
        found = await self._rows.query(KeyRange(stop=_moment(now)), limit=_CLEAN_ROWS)
        for partition, rows in itertools.groupby(found.entities, lambda each: each.partition):
            await remove_rows(self._rows, partition, [each.row for each in rows])


def network_for_limits(host: str) -> str:
    """Return the visitor's network; empty for an address that many visitors may share."""
    return "" if may_be_shared(host) else client_network(host)


def _limits_of(place: str | None) -> list[tuple[str, int]]:
    """Return the networks that a visitor counts for, with their limits; the widest first."""
    if not place:
        return []
    limits = [(place, PER_PLACE)]
    if "/" in place:
        network = ipaddress.IPv6Network(place)
        for length, limit in PER_WIDER_PLACE.items():
            limits.append((str(network.supernet(new_prefix=length)), limit))
    return limits[::-1]


def _about(address: Address, list_name: ListName) -> str:
    return _digest(f"{list_name} {address.casefold()}")[:16]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _key(now: datetime, length: timedelta, kind: str, what: str) -> tuple[str, str]:
    """Return the row of the current period; it reveals no address."""
    past = (now - datetime.min.replace(tzinfo=UTC)) % length
    return _moment(now - past + length), f"{kind}:{_digest(what)[:32]}"


@lru_cache(maxsize=16)  # the current periods end at a few moments
def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def _one_more_asked(
    key: tuple[str, str], found: Entity | None, about: str, now: datetime, most: int
) -> Entity | None:
    asked: list[_Asked] = []
    if found is not None:
        asked = msgspec.json.decode(read(found, "Asked", str), type=list[_Asked])
    same = [each.at for each in asked if each.about == about]
    recent = now.timestamp() - AT_ONCE_WITHIN.total_seconds()
    if (
        len(asked) >= most
        or len(same) >= PER_ADDRESS_AND_LIST
        or sum(at > recent for at in same) >= AT_ONCE
    ):
        return None
    return _changed(key, found, {"Asked": _as_text([*asked, _Asked(now.timestamp(), about)])})


def _as_text(asked: list[_Asked]) -> str:
    return msgspec.json.encode(asked).decode()


def _one_more(key: tuple[str, str], found: Entity | None, limit: int) -> Entity | None:
    count = 0 if found is None else read(found, "Count", int)
    return None if count >= limit else _counted(key, found, count + 1)


def _counted(key: tuple[str, str], found: Entity | None, count: int) -> Entity:
    return _changed(key, found, {"Count": count})


def _changed(key: tuple[str, str], found: Entity | None, properties: dict[str, Value]) -> Entity:
    """Return the row to write, with the ETag of the one that was read."""
    return Entity(*key, properties, "" if found is None else found.etag)
