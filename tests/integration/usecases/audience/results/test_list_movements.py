"""How many joined and left on each day, and how: counted from the consent ledger."""

from __future__ import annotations

import io

import pytest

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.consent import (
    BY_API,
    BY_LINK,
    BY_TEAM,
    ConsentAction,
    ConsentSource,
)
from postroom.domain.audience.lists.lists import ListName
from postroom.services import entities
from postroom.services.audience.growth.list_movements import Movement, movement_of
from postroom.storage import Entity
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, PowerCut

NEWS, SHOP = ListName("news"), ListName("shop")
FORM = ConsentSource("sign-up page")


async def filled(services: Services, name: ListName) -> None:
    """A list on which two signed up, one was added by a program and two by hand; two left."""
    await services.lists.create(name, name.title(), f"{name}@contoso.example")
    people = services.subscriptions
    for address in ("a@example.com", "b@example.com"):
        await people.subscribe(name, address, source=FORM)
    await people.add(name, "c@example.com", verified=True, source=BY_API)
    gone = await people.add(name, "d@example.com", verified=True, source=BY_TEAM)
    await people.add(name, "e@example.com", verified=True, source=BY_TEAM)
    await people.unsubscribe(name, gone.guid, BY_LINK)
    await people.remove(name, "e@example.com")


async def of_today(services: Services, name: ListName | None) -> Movement:
    return (await services.movements.days(name, last=2)).get(f"{clock.now():%Y-%m-%d}", Movement())


EXPECTED = Movement(form=2, api=1, team=2, unsubscribed=1, removed=1)


async def test_every_way_to_join_and_to_leave_is_counted_once(services: Services) -> None:
    await filled(services, NEWS)
    await filled(services, SHOP)
    for _ in range(2):
        for name in (NEWS, SHOP):
            await services.movements.count(name)
            assert await of_today(services, name) == EXPECTED
        assert await of_today(services, None) == EXPECTED + EXPECTED
    await services.subscriptions.add(NEWS, "f@example.com", source=BY_API)
    await services.movements.count(NEWS)
    assert await of_today(services, NEWS) == EXPECTED + Movement(api=1)
    assert await of_today(services, None) == EXPECTED + EXPECTED + Movement(api=1)


async def test_counting_in_the_background_counts_movements(services: Services) -> None:
    await filled(services, NEWS)
    await services.growth.count_due()
    assert await of_today(services, NEWS) == EXPECTED


async def test_after_every_crash_counting_again_is_right(services: Services) -> None:
    await filled(services, NEWS)
    for writes in range(10):
        try:
            await Services(Fated(services.store, Fate(writes))).movements.count(NEWS)
        except PowerCut:
            continue
        break
    else:
        pytest.fail("counting takes no more than ten writes")
    await services.movements.count(NEWS)
    assert await of_today(services, NEWS) == EXPECTED
    assert await of_today(services, None) == EXPECTED


async def test_a_deleted_list_leaves_those_of_all_lists(services: Services) -> None:
    for name in (NEWS, SHOP):
        await filled(services, name)
        await services.movements.count(name)
    for _ in range(2):
        await services.movements.forget(NEWS)
        assert await of_today(services, NEWS) == Movement()
        assert await of_today(services, None) == EXPECTED


async def test_signing_up_again_joins_only_those_who_had_left(services: Services) -> None:
    await services.lists.create(NEWS, "News", "news@contoso.example")
    people = services.subscriptions
    imported = io.BytesIO(b"email,verified\nwas-there@example.com,false\n")
    await services.imports.import_csv(NEWS, imported)
    for _ in range(2):
        for address in ("a@example.com", "b@example.com", "was-there@example.com"):
            await people.subscribe(NEWS, address, source=FORM, place="198.51.100.7")
    gone = await people.get(NEWS, "a@example.com")
    await people.unsubscribe(NEWS, gone.guid, BY_LINK)
    await people.subscribe(NEWS, "a@example.com", source=FORM, place="198.51.100.7")
    await services.lists.create(SHOP, "Shop", "shop@contoso.example")
    for there, back in ((NEWS, SHOP), (SHOP, NEWS)):  # with the same GUID, for the second time
        await people.move(there, "b@example.com", back)

    await services.movements.count(NEWS)

    expected = Movement(form=3, imported=1, team=1, unsubscribed=1, removed=1)
    assert await of_today(services, NEWS) == expected


async def test_erasing_someone_who_had_left_is_not_a_second_unsubscribe(
    services: Services,
) -> None:
    await filled(services, NEWS)
    await services.ledger.erase_departed(NEWS, Address("d@example.com"))
    await services.movements.count(NEWS)
    assert await of_today(services, NEWS) == EXPECTED


def test_what_an_entry_counts_as() -> None:
    details = '{"origin": "import"}'
    assert movement_of(ConsentAction.ADDED, details) == Movement(imported=1)
    assert movement_of(ConsentAction.SIGNED_UP, '{"origin": "API"}') == Movement(api=1)
    for unknown in ("", "damaged", '{"origin": 1}'):
        assert movement_of(ConsentAction.SIGNED_UP, unknown) == Movement(form=1)
    assert movement_of(ConsentAction.ERASED, "") == Movement(removed=1)
    for other in (ConsentAction.CONFIRMED, ConsentAction.BLOCKED, ConsentAction.CHANGED):
        assert movement_of(other, "") is None


async def test_a_damaged_entry_does_not_stop_the_count_of_subscribers(services: Services) -> None:
    for name in (NEWS, SHOP):
        await filled(services, name)
    damaged = Entity(NEWS, "ledger:x,000001", {"At": "never", "Act": 1})
    await services.store.table(entities.LISTS).upsert(damaged)
    assert await services.growth.count_due() == 2
    assert await of_today(services, NEWS) == Movement()
    assert await of_today(services, SHOP) == EXPECTED
