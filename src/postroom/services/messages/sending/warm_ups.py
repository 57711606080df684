"""Warm-up plans in the store, and how many emails of each day are used.

| table      | partition    | row                | holds                                       |
|------------|--------------|--------------------|---------------------------------------------|
| `throttle` | `warmup`     | the domain, `all`  | StartsOn, Volumes: emails per day           |
| `throttle` | `warmupused` | day,domain         | Used: emails that were sent, or may be now  |

Senders take emails from a day before they send them, with one write per page. A crash in between
wastes these; it never sends more than the plan allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.errors import NoSuch
from postroom.domain.messages.delivery.warm_up import ALL, WarmUpPlan, check_volumes, last_day
from postroom.services.concurrency import retry_on_conflict
from postroom.services.entities import read
from postroom.services.messages.sending.provider_rates import TABLE
from postroom.storage import Entity, Insert, KeyRange, NotFound, Operation, Replace, Store

_PLANS: Final = "warmup"
_USED: Final = "warmupused"
_MOST_ATTEMPTS: Final = 500


class WarmUpStatus(msgspec.Struct, frozen=True):
    """A plan today: `volume` is None before it starts and after it has ended."""

    plan: WarmUpPlan
    today: date
    used: int

    @property
    def volume(self) -> int | None:
        return self.plan.volume(self.today)

    @property
    def day_number(self) -> int:
        return self.plan.day_number(self.today)


class WarmUpService:
    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def plans(self) -> list[WarmUpPlan]:
        return [_plan(row) async for row in self._table.scan(KeyRange.only(_PLANS))]

    async def statuses(self) -> list[WarmUpStatus]:
        """Return the plans, with what is used of this day."""
        return [await self._status(each) for each in await self.plans()]

    async def get(self, domain: str) -> WarmUpStatus:
        """Return the plan of a domain, or of `all`. `NoSuch`."""
        found = await self._table.get(_PLANS, domain)
        if found is None:
            raise NoSuch("warm-up plan", domain)
        return await self._status(_plan(found))

    async def save(self, plan: WarmUpPlan) -> None:
        """Create or replace a plan. What is used of this day stays used. `Invalid`."""
        check_volumes(plan.volumes)
        volumes = ",".join(map(str, plan.volumes))
        properties = {"StartsOn": plan.starts.isoformat(), "Volumes": volumes}
        await self._table.upsert(Entity(_PLANS, plan.domain, properties))

    async def remove(self, domain: str) -> None:
        """End a plan: emails that wait for it are sent when they come back. `NoSuch`."""
        try:
            await self._table.delete(_PLANS, domain)
        except NotFound as exc:
            raise NoSuch("warm-up plan", domain) from exc
        async for row in self._table.scan(KeyRange.only(_USED)):
            if row.row.endswith(f",{domain}"):
                with suppress(NotFound):
                    await self._table.delete(_USED, row.row)

    async def left(self, plans: Sequence[WarmUpPlan]) -> int | None:
        """Return how many emails these plans allow today; None: any number."""
        today = clock.now().date()
        found = [
            max(0, volume - await self._used(each, today))
            for each in plans
            if (volume := each.volume(today)) is not None
        ]
        return min(found, default=None)

    async def take(self, plans: Sequence[WarmUpPlan], count: int, day: date) -> int:
        """Take up to `count` emails from a day; return how many the plans allow."""
        limits = {
            _used_row(each, day): volume
            for each in plans
            if (volume := each.volume(day)) is not None
        }

        async def attempt() -> int:
            rows = {name: await self._table.get(_USED, name) for name in limits}
            used = {name: _count(row) for name, row in rows.items()}
            room = min((limits[name] - used[name] for name in limits), default=count)
            taken = max(0, min(count, room))
            if limits and taken:
                await self._table.apply(
                    [_change(name, used[name] + taken, row) for name, row in rows.items()]
                )
            return taken

        return await retry_on_conflict(
            attempt, "warm-up plan", day.isoformat(), most=_MOST_ATTEMPTS
        )

    async def give_back(self, plans: Sequence[WarmUpPlan], count: int, day: date) -> None:
        """Return emails to the day that they were taken from: they were not sent."""
        names = [_used_row(each, day) for each in plans if each.volume(day) is not None]

        async def attempt() -> None:
            rows = {name: await self._table.get(_USED, name) for name in names}
            changes = [
                _change(name, max(0, _count(row) - count), row)
                for name, row in rows.items()
                if row is not None
            ]
            if changes:
                await self._table.apply(changes)

        await retry_on_conflict(attempt, "warm-up plan", day.isoformat(), most=_MOST_ATTEMPTS)

    async def last_day(self, plans: Sequence[WarmUpPlan], emails: int) -> date | None:
        """Return when the last of these waiting `emails` will be sent; None: no plan delays it."""
        left = await self.left(plans)
        return None if left is None else last_day(plans, left, emails, clock.now().date())

    async def _status(self, plan: WarmUpPlan) -> WarmUpStatus:
        today = clock.now().date()
        return WarmUpStatus(plan, today, await self._used(plan, today))

    async def _used(self, plan: WarmUpPlan, day: date) -> int:
        return _count(await self._table.get(_USED, _used_row(plan, day)))


def plans_for(plans: Sequence[WarmUpPlan], from_domain: str) -> list[WarmUpPlan]:
    """Return the plans that emails from a domain count for, including those from its subdomains."""
    return [
        each
        for each in plans
        if each.domain in (ALL, from_domain) or from_domain.endswith(f".{each.domain}")
    ]


def next_day() -> datetime:
    """Return when the next day begins."""
    return datetime.combine(clock.now().date() + timedelta(days=1), time(), UTC)


def _used_row(plan: WarmUpPlan, day: date) -> str:
    return f"{day.isoformat()},{plan.domain}"


def _count(row: Entity | None) -> int:
    return 0 if row is None else read(row, "Used", int)


def _change(name: str, used: int, before: Entity | None) -> Operation:
    entity = Entity(_USED, name, {"Used": used})
    return Insert(entity) if before is None else Replace(entity, before.etag)


def _plan(row: Entity) -> WarmUpPlan:
    volumes = tuple(int(each) for each in read(row, "Volumes", str).split(","))
    return WarmUpPlan(row.row, date.fromisoformat(read(row, "StartsOn", str)), volumes)
