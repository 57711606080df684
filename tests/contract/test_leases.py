"""Named leases: one holder, numbers that grow, and a dead holder is replaced."""

import asyncio
import time

import pytest

from postroom.storage import LeaseLost, Store


async def test_one_of_two_candidates_holds_the_lease(store: Store, other_store: Store) -> None:
    lease = await store.acquire_lease("scheduler", seconds=15)
    assert lease is not None
    assert lease.name == "scheduler"
    assert lease.seconds >= 15
    assert await other_store.acquire_lease("scheduler", seconds=15) is None
    assert await store.acquire_lease("scheduler", seconds=15) is None


async def test_of_many_candidates_at_once_one_gets_it(store: Store, other_store: Store) -> None:
    answers = await asyncio.gather(
        *(
            (store if number % 2 else other_store).acquire_lease("scheduler", seconds=15)
            for number in range(10)
        )
    )
    assert len([lease for lease in answers if lease is not None]) == 1


async def test_leases_of_different_names_are_independent(store: Store) -> None:
    for name in ("a", "b", "A", "한국어 / name?"):
        assert await store.acquire_lease(name, seconds=15) is not None


async def test_a_released_lease_goes_to_the_next_with_a_larger_number(
    store: Store, other_store: Store
) -> None:
    numbers = []
    for which in (store, other_store, store):
        lease = await which.acquire_lease("scheduler", seconds=15)
        assert lease is not None
        numbers.append(lease.fencing)
        await which.release_lease(lease)
        with pytest.raises(LeaseLost):
            await which.renew_lease(lease)
        with pytest.raises(LeaseLost):
            await which.release_lease(lease)
    assert numbers == sorted(set(numbers))
    assert numbers[0] >= 1


async def test_a_dead_holder_is_replaced_after_the_leases_time(
    store: Store, other_store: Store
) -> None:
    dead = await store.acquire_lease("scheduler", seconds=2)
    assert dead is not None
    started = time.monotonic()
    successor = None
    while successor is None and time.monotonic() - started < dead.seconds + 60:
        await asyncio.sleep(0.2)
        successor = await other_store.acquire_lease("scheduler", seconds=2)
    assert successor is not None
    assert time.monotonic() - started > dead.seconds - 0.5
    assert successor.fencing > dead.fencing
    with pytest.raises(LeaseLost, match="scheduler"):
        await store.renew_lease(dead)
    with pytest.raises(LeaseLost):
        await store.release_lease(dead)
    await other_store.renew_lease(successor)


async def test_a_renewed_lease_is_kept(store: Store, other_store: Store) -> None:
    lease = await store.acquire_lease("scheduler", seconds=5)
    assert lease is not None
    ends = time.monotonic() + lease.seconds + 1
    while time.monotonic() < ends:
        await asyncio.sleep(0.5)
        await store.renew_lease(lease)
        assert await other_store.acquire_lease("scheduler", seconds=2) is None
