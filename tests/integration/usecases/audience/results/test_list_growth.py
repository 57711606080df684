"""The numbers of subscribers: counted, recorded by hour and day, and derived for earlier days."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.consent import LedgerHead
from postroom.domain.audience.lists.lists import ListName
from postroom.services import entities
from postroom.services.audience.consent.ledger_rows import inserts
from postroom.services.audience.growth.growth_history import (
    EVERY,
    TABLE,
    GrowthPoint,
    list_partition,
)
from postroom.services.audience.growth.list_growth import LATEST
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.storage import Entity, KeyRange, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, PowerCut
from tests.services.waiting import BUSY

NEWS = ListName("news")
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return time.monotonic()

    def since_boot(self) -> float:
        return time.monotonic()


async def add(services: Services, address: str, joined: datetime, *, verified: bool = True) -> None:
    """Add a subscriber as one that has been on the list for some time."""
    new = new_subscriber(NEWS, Address(address), verified=verified)
    new = msgspec.structs.replace(
        new, created_at=joined, verified_at=joined + timedelta(days=1) if verified else None
    )
    await services.store.table(entities.LISTS).apply(inserts(new, LedgerHead()))


async def recorded(store: Store, partition: str) -> dict[str, tuple[object, object]]:
    rows = store.table(TABLE).scan(KeyRange.only(partition))
    return {
        row.row: (row.properties["Subscribers"], row.properties["Verified"]) async for row in rows
    }


async def test_lists_are_counted_once_and_again_when_figures_are_old(services: Services) -> None:
    await services.lists.create("news", "News", "news@example.com")
    await services.lists.create("empty", "Empty", "news@example.com")
    for number in range(5):
        await services.subscriptions.add("news", f"a{number}@example.com", verified=number > 1)
    assert await services.growth.count_due() == 2
    assert await services.growth.count_due() == 0
    sizes = [(s.name, s.subscribers, s.verified) for s in await services.growth.sizes()]
    assert sizes == [("news", 5, 3), ("empty", 0, 0)]
    assert set((await recorded(services.store, EVERY)).values()) == {(5, 3)}

    await services.subscriptions.add("news", "late@example.com", verified=True)
    old = {"CountedAt": clock.now() - timedelta(hours=1)}
    await services.store.table(TABLE).merge(Entity(LATEST, "news", old))
    assert await services.growth.count_due() == 1
    assert set((await recorded(services.store, list_partition("news"))).values()) == {(6, 4)}


async def test_a_list_that_is_gone_counts_no_more_but_its_past_stays(services: Services) -> None:
    await services.lists.create("news", "News", "news@example.com")
    await services.subscriptions.add("news", "a@example.com", verified=True)
    await services.growth.count_due()
    await services.lists.delete("news")
    await services.growth.count_due()
    assert await services.growth.sizes() == []
    assert set((await recorded(services.store, EVERY)).values()) == {(0, 0)}
    assert set((await recorded(services.store, list_partition("news"))).values()) == {(1, 1)}


async def test_several_may_keep_counting_at_once(services: Services) -> None:
    await services.lists.create("news", "News", "news@example.com")
    stopping = asyncio.Event()
    counting = [asyncio.create_task(services.growth.keep_counting(stopping)) for _ in range(3)]
    async with asyncio.timeout(20 * BUSY):
        while not await services.growth.sizes():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        stopping.set()
        await asyncio.gather(*counting)
    assert [size.name for size in await services.growth.sizes()] == ["news"]


async def test_growth_is_drawn_by_hour_from_the_first_hour_on_and_then_by_day(
    services: Services,
) -> None:
    growth, at = services.growth, SetClock(NOON)

    async def curve() -> list[tuple[float, int]]:
        size = await services.sizes.total([NEWS])
        found = await growth.curve(GrowthPoint(at.at, size.subscribers, size.verified))
        unit = 3600 if found.by_hour else 86400
        return [((p.at - NOON).total_seconds() / unit, p.subscribers) for p in found.points]

    with clock.replaced_by(at):
        await services.lists.create("news", "News", "news@example.com")
        await growth.count_due()
        at.at += timedelta(minutes=30)
        await services.subscriptions.add("news", "a@example.com")
        assert await curve() == [(0, 0), (0.5, 1)], "in the first hour"
        await growth.count_due()
        at.at += timedelta(hours=1)
        await services.subscriptions.add("news", "b@example.com")
        assert await curve() == [(0, 0), (1, 1), (1.5, 2)], "each hour has its last number"
        for hour in range(4 * 24):
            await growth.count_due()
            at.at += timedelta(hours=1)
            assert len(await curve()) <= max(hour + 4, 6)
        assert await curve() == [(0.5, 2), (1.5, 2), (2.5, 2), (3.5, 2), (4.0625, 2)]
    hours = [row for row in await recorded(services.store, EVERY) if row.startswith("hour:")]
    assert 70 < len(hours) < 76, "older hours are removed"


async def test_an_earlier_store_gets_its_history_from_the_dates_of_its_subscribers(
    services: Services,
) -> None:
    with clock.replaced_by(SetClock(NOON)):
        await services.lists.create("news", "News", "news@example.com")
        for number, days in enumerate((5, 5, 3, 1, 0)):
            await add(services, f"a{number}@example.com", NOON - timedelta(days=days))
        await services.store.table(TABLE).upsert(
            Entity(list_partition("news"), "2026-11-15", {"Subscribers": 9, "Verified": 8})
        )
        await services.growth.count_due()
        await services.growth.count_due()
    expected = {
        "2026-11-11": (2, 0),
        "2026-11-12": (2, 2),
        "2026-11-13": (3, 2),
        "2026-11-14": (3, 3),
        "2026-11-15": (9, 8),  # counted at that time: people have left since
        "2026-11-16": (5, 5),
        "hour:2026-11-16T12": (5, 5),
    }
    assert await recorded(services.store, list_partition("news")) == expected
    assert await recorded(services.store, EVERY) == {**expected, "2026-11-15": (4, 3)}


async def test_counting_that_is_killed_anywhere_leaves_nothing_wrong(services: Services) -> None:
    store = services.store
    with clock.replaced_by(SetClock(NOON)):
        await services.lists.create("news", "News", "news@example.com")
        for number, days in enumerate((250, 120, 3, 0)):
            await add(services, f"a{number}@example.com", NOON - timedelta(days=days))
        for writes in range(1, 50):
            try:
                await Services(Fated(store, Fate(writes))).growth.count_due()
            except PowerCut:
                # A later process finds rows of the interrupted one, and none of them is wrong.
                for row, (subscribers, _) in (await recorded(store, EVERY)).items():
                    assert subscribers == (4 if "2026-11-16" in row else _had_joined(row)), row
                continue
            break
        assert 2 < writes < 49, "it was killed several times, and got further each time"
        found = await recorded(store, EVERY)
    assert len(found) == 252, "250 days before, today, and this hour"
    assert found == await recorded(store, list_partition("news"))
    assert all(found[row][0] == _had_joined(row) for row in found if row < "2026-11-16")


def _had_joined(day: str) -> int:
    end = datetime.fromisoformat(f"{day}T23:59:59Z")
    return sum(NOON - timedelta(days=days) <= end for days in (250, 120, 3, 0))
