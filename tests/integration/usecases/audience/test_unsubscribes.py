"""Who left by their own act is remembered, without an address, until they come back themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import NoSuch, NotNow
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.services import entities
from postroom.services.audience.signup.unsubscribes import UnsubscribedFrom, Unsubscribes
from postroom.storage import Entity, KeyRange, Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import bodies_of, check_pairs, make_list, now

ANN = Address("Ann@example.com")


async def rows(store: Store) -> list[Entity]:
    return [each async for each in store.table(entities.DEPARTED).scan()]


async def leave(services: Services, name: ListName, address: str = ANN) -> None:
    subscriber = await services.subscriptions.add(name, address, verified=True)
    assert await services.subscriptions.unsubscribe(name, subscriber.guid) is not None


async def test_unsubscribing_is_recorded_without_the_address_and_the_trace_shows_when(
    services: Services, store: Store
) -> None:
    name, other = await make_list(services), await make_list(services, "contoso2")
    await leave(services, name)
    [row] = await rows(store)
    assert row.partition == name
    assert "ann" not in repr(row).lower()
    trace = await services.tracing.trace("ann@EXAMPLE.com")
    [unsubscribe] = trace.unsubscribes
    assert unsubscribe.list_name == name
    assert now() - timedelta(minutes=5) < unsubscribe.left_at <= now()
    assert trace.subscriptions == []
    assert await services.unsubscribes.left_at(other, ANN) is None


async def test_what_an_administrator_does_is_not_an_unsubscribe_and_forgets_none(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await services.subscriptions.add(name, ANN)
    await services.subscriptions.remove(name, ANN)
    assert await rows(store) == []
    await leave(services, name)
    await services.subscriptions.add(name, ANN, verified=True)
    assert len(await rows(store)) == 1


async def test_signing_up_and_confirming_again_removes_the_record_of_leaving(
    services: Services, store: Store
) -> None:
    name = await make_list(services)

    async def attempt(fate: Fate, writes: int) -> None:
        address = f"ann{writes}@example.com"
        await leave(services, name, address)
        assert await services.subscriptions.subscribe(name, address)
        assert await services.unsubscribes.left_at(name, Address(address)) is not None
        guid = (await services.subscriptions.get(name, address)).guid
        await dies(Services(Fated(store, fate)).subscriptions.confirm(name, guid))
        confirmed = await services.subscriptions.confirm(name, guid)
        assert confirmed is not None
        assert confirmed.verified
        assert await services.unsubscribes.left_at(name, Address(address)) is None

    await cut_after_each_write(attempt)


async def test_leaving_that_is_interrupted_anywhere_never_removes_without_remembering(
    services: Services, store: Store
) -> None:
    name = await make_list(services)

    async def attempt(fate: Fate, writes: int) -> None:
        address = Address(f"ann{writes}@example.com")
        guid = (await services.subscriptions.add(name, address, verified=True)).guid
        await dies(Services(Fated(store, fate)).subscriptions.unsubscribe(name, guid))
        is_remembered = await services.unsubscribes.left_at(name, address) is not None
        assert is_remembered or address in await check_pairs(store, name)
        await services.subscriptions.unsubscribe(name, guid)
        assert await services.unsubscribes.left_at(name, address) is not None
        assert address not in await check_pairs(store, name)

    await cut_after_each_write(attempt)


async def test_a_list_takes_its_unsubscribes_along_wherever_its_deletion_is_interrupted(
    services: Services, store: Store
) -> None:
    kept = await make_list(services, "kept")
    await leave(services, kept)

    async def attempt(fate: Fate, writes: int) -> None:
        name = await make_list(services, "gone")
        for number in range(3):
            await leave(services, name, f"user{number}@example.com")
        if await dies(Services(Fated(store, fate)).lists.delete(name)):
            await services.lists.delete(name)
        assert [each.partition for each in await rows(store)] == [kept]

    await cut_after_each_write(attempt)


async def test_unsubscribing_from_a_list_that_is_being_deleted_leaves_no_trace(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    guid = (await services.subscriptions.add(name, ANN)).guid
    fate = Fate(before={1: lambda: services.lists.delete(name)})
    assert await Services(Fated(store, fate)).subscriptions.unsubscribe(name, guid) is None
    assert await rows(store) == []


async def test_an_erased_person_is_forgotten_here_too(services: Services, store: Store) -> None:
    for name in ("contoso1", "contoso2"):
        await leave(services, await make_list(services, name))
    await services.personal_data.erase(ANN)
    assert await rows(store) == []
    assert (await services.tracing.trace(ANN)).unsubscribes == []


async def test_all_unsubscribes_of_a_list_are_known_at_once_and_no_others(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postroom.services.audience.signup.unsubscribes._ROWS", 7)
    name, other = await make_list(services), await make_list(services, "contoso2")
    use = Unsubscribes(store)
    assert len(await use.of_list(name)) == 0
    gone = [Address(f"user{number}@example.com") for number in range(21)]
    for each in gone:
        await store.write_in_order([use.noting(name, each, now())])
    found: UnsubscribedFrom = await use.of_list(name)
    assert len(found) == 21
    assert all(found.may_hold(each) for each in gone)
    assert found.may_hold(Address("USER3@example.com"))
    assert not any(found.may_hold(Address(f"other{number}@example.com")) for number in range(99))
    assert len(await use.of_list(other)) == 0


async def test_a_late_deletion_does_not_touch_the_unsubscribes_of_a_recreated_list(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await leave(services, name)

    async def never() -> bool:
        return False

    await Unsubscribes(store).remove_all(name, never)
    assert len(await rows(store)) == 1
    assert (await store.table(entities.DEPARTED).query(KeyRange.only(name))).entities


async def test_confirmation_emails_to_added_subscribers_keep_to_the_limits(
    services: Services, store: Store
) -> None:
    use = services.subscriptions
    name = await make_list(services)
    ann = await use.add(name, ANN)
    assert await bodies_of(store, CONFIRM_QUEUE) == []
    assert await use.ask(name, ANN) == ann
    await use.ask(name, ANN)
    assert await bodies_of(store, CONFIRM_QUEUE) == [f"{ann.guid},{name}"] * 2
    with pytest.raises(NotNow, match="asked too often"):
        await use.ask(name, ANN)
    await use.edit(name, ANN, blocked="bounced")
    with pytest.raises(NotNow, match="blocked"):
        await use.ask(name, ANN)
    await use.edit(name, ANN, blocked="", verified=True)
    with pytest.raises(NotNow, match="has already confirmed"):
        await use.ask(name, ANN)
    with pytest.raises(NoSuch):
        await use.ask(name, "nobody@example.com")
    assert await bodies_of(store, CONFIRM_QUEUE) == []


async def test_unsubscribes_are_counted_from_a_moment_on(services: Services) -> None:
    name, begin = await make_list(services), now()
    await leave(services, name, "ann@example.com")
    await leave(services, name, "bob@example.com")
    assert await services.unsubscribes.count_since(name, begin) == 2
    assert await services.unsubscribes.count_since(name, now()) == 0
    other = await make_list(services, "contoso2")
    assert await services.unsubscribes.count_since(other, begin) == 0
