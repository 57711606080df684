"""Looking for subscribers in a list of any length: so much is read for one answer, and no more.

There is no index by state: whoever looks for the ten blocked addresses of a million has to read
the million. One look reads for a short time only; then it answers what it has found and where the
next look goes on.
"""

from __future__ import annotations

import time
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from postroom.domain.addresses import Address, folded
from postroom.domain.lists import Subscriber
from postroom.services import records
from postroom.services.lists import ListService
from postroom.services.whole_ranges import read_whole
from postroom.storage import KeyRange, Store

_SECONDS: Final = 0.06
_ROWS: Final = 1000  # what one query of the store answers


class SubscriberState(StrEnum):
    """What to look for."""

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
    """What an index shows of a subscriber, and can be sorted by."""

    address: Address
    verified: bool
    blocked: str
    created_at: datetime


class FoundSubscribers(msgspec.Struct, frozen=True):
    """In the order of addresses. `next` is the address after which to go on, None at the end.

    `is_cut_short`: the time was over before enough were found; there may be more.
    """

    subscribers: list[Subscriber]
    next: str | None
    is_cut_short: bool = False


class SubscriberSearch:
    def __init__(self, store: Store, lists: ListService) -> None:
        self._rows = store.table(records.LISTS)
        self._lists = lists

    async def find(
        self,
        list_name: str,
        *,
        state: SubscriberState | None = None,
        prefix: str = "",
        limit: int = 50,
        after: str = "",
        seconds: float = _SECONDS,
    ) -> FoundSubscribers:
        """Those of a list that begin with `prefix` and are in this state. `NoSuch` list."""
        mailing_list = await self._lists.get(list_name)
        within = KeyRange.prefix(records.EMAIL_PREFIX + folded(prefix))
        start = max(within.start or "", _behind(after) if after else "")
        found: list[Subscriber] = []
        deadline = time.monotonic() + seconds
        while True:
            result = await self._rows.query(
                KeyRange.only(mailing_list.name),
                KeyRange(start, within.stop),
                limit=limit + 1 if state is None else _ROWS,
            )
            looked_at = [records.subscriber_from(entity) for entity in result.entities]
            found += [each for each in looked_at if state is None or state.fits(each)]
            if len(found) > limit:
                return FoundSubscribers(found[:limit], found[limit - 1].address)
            if result.next is None:
                return FoundSubscribers(found, None)
            last = looked_at[-1].address
            if time.monotonic() > deadline:
                return FoundSubscribers(found, last, is_cut_short=True)
            start = _behind(last)

    async def whole(
        self,
        list_name: str,
        *,
        state: SubscriberState | None = None,
        prefix: str = "",
        most: int,
    ) -> list[SubscriberLine] | None:
        """All of them at once, in the order of addresses; None if more than `most` begin with
        `prefix`, whatever their state. `NoSuch` list."""
        mailing_list = await self._lists.get(list_name)
        within = KeyRange.prefix(records.EMAIL_PREFIX + folded(prefix))
        rows = await read_whole(self._rows, _Row, mailing_list.name, within, most=most)
        if rows is None:
            return None
        begin = len(records.EMAIL_PREFIX)
        lines = [
            SubscriberLine(
                Address(row.EmailAddress or key[begin:]), row.Verified, row.Blocked, row.CreatedAt
            )
            for key, row in rows.items()
        ]
        return [line for line in lines if state is None or state.fits(line)]


class _Row(msgspec.Struct, frozen=True, gc=False):
    """What is read of an `email:` row."""

    CreatedAt: datetime
    Verified: bool = False
    Blocked: str = ""
    EmailAddress: str = ""


def _behind(address: str) -> str:
    return records.behind(records.email_row(Address(address)))
