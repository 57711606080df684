"""Subscribers: two rows each, always together, whatever happens to whom at once."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from postroom.domain.audience.lists.lists import new_guid
from postroom.domain.errors import Exists, Invalid, NoSuch, Overtaken
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import bodies_of, check_pairs, fill, make_list, now

ANN, BOB = "ann@example.com", "bob@example.com"


async def test_signing_up_confirming_and_leaving_each_again_and_again(
    services: Services, store: Store
) -> None:
    use = services.subscriptions
    name = await make_list(services)

    assert await use.subscribe(name, " Ann@EXAMPLE.com ") is True
    new = await use.get(name, "Ann@example.com")
    assert not new.verified
    assert await use.subscribe(name, "Ann@example.com") is True
    again = await use.get(name, "Ann@example.com")
    assert msgspec.structs.replace(again, etag=new.etag) == new
    assert await bodies_of(store, CONFIRM_QUEUE) == [f"{new.guid},{name}"] * 2

    confirmed = await use.confirm(name, new.guid.upper())
    assert confirmed is not None
    assert confirmed.verified
    assert confirmed.verified_at is not None
    assert new.created_at <= confirmed.verified_at <= now()
    assert await use.confirm(name, new.guid) == confirmed
    assert await use.subscribe(name, "Ann@example.com") is False
    assert await bodies_of(store, CONFIRM_QUEUE) == []
    row = await store.table("mailinglist").get(name, "email:ann@example.com")
    assert row is not None
    assert (row.properties["SubscriberGUID"], row.properties["Verified"]) == (new.guid, True)

    assert await use.unsubscribe(name, new.guid) == confirmed
    assert await use.unsubscribe(name, new.guid) is None
    assert await use.confirm(name, new.guid) is None
    assert await check_pairs(store, name) == set()
    assert await use.subscribe(name, "Ann@example.com") is True
    assert (await use.get(name, "Ann@example.com")).guid != new.guid


async def test_a_link_belongs_to_one_subscriber_of_one_list(services: Services) -> None:
    use = services.subscriptions
    name, other = await make_list(services), await make_list(services, "contoso2")
    ann = await use.add(name, ANN)
    await use.add(other, ANN)

    assert await use.by_guid(name, ann.guid) == ann
    for wrong in ((other, ann.guid), (name, new_guid()), ("nowhere", ann.guid)):
        assert await use.by_guid(*wrong) is None
        assert await use.confirm(*wrong) is None
        assert await use.unsubscribe(*wrong) is None
    for malformed in ("", "nonsense", f"{ann.guid}'", "x" * 5000, "\x00", "email:ann@example.com"):
        with pytest.raises(Invalid) as refused:
            await use.by_guid(name, malformed)
        assert refused.value.field == "id"
    with pytest.raises(Invalid) as refused:
        await use.by_guid("a/b", ann.guid)
    assert refused.value.field == "listName"
    assert await use.get(name, ANN) == ann


async def test_what_an_administrator_does_is_refused_with_the_reason(services: Services) -> None:
    use = services.subscriptions
    name = await make_list(services)
    ann = await use.add(name, ANN, verified=True)
    assert ann.verified_at is not None
    with pytest.raises(Exists, match=ANN):
        await use.add(name, "ann@EXAMPLE.com")
    for call in (
        use.get("nowhere", ANN),
        use.add("nowhere", ANN),
        use.subscribe("nowhere", ANN),
        use.slice("nowhere"),
        use.edit("nowhere", ANN, verified=True),
        use.remove("nowhere", ANN),
        use.move(name, ANN, "nowhere"),
        use.change_address("nowhere", ANN, BOB),
    ):
        with pytest.raises(NoSuch, match="list 'nowhere'"):
            await call
    for call in (use.get(name, BOB), use.remove(name, BOB), use.edit(name, BOB, verified=True)):
        with pytest.raises(NoSuch, match=f"subscriber '{BOB}'"):
            await call
    for bad in ("", "ann", "ann@example.com\r\nBcc: x@example.com"):
        for call in (
            use.add(name, bad),
            use.subscribe(name, bad),
            use.change_address(name, ANN, bad),
        ):
            with pytest.raises(Invalid):
                await call
    assert await use.get(name, ANN) == ann


async def test_simultaneous_sign_ups_make_one_subscriber(services: Services, store: Store) -> None:
    use = services.subscriptions
    name = await make_list(services)

    assert all(await asyncio.gather(*(use.subscribe(name, ANN) for _ in range(10))))

    ann = await use.get(name, ANN)
    assert await check_pairs(store, name) == {ANN}
    assert set(await bodies_of(store, CONFIRM_QUEUE)) == {f"{ann.guid},{name}"}
    confirmed = await asyncio.gather(*(use.confirm(name, ann.guid) for _ in range(10)))
    assert {each.verified for each in confirmed if each} == {True}
    left = await asyncio.gather(*(use.unsubscribe(name, ann.guid) for _ in range(10)))
    assert sum(each is not None for each in left) == 1
    added = await asyncio.gather(
        *(use.add(name, ANN, verified=True) for _ in range(10)), return_exceptions=True
    )
    assert sum(isinstance(each, Exists) for each in added) == 9
    assert await check_pairs(store, name) == {ANN}


async def test_of_two_who_edit_a_subscriber_one_wins(services: Services) -> None:
    use = services.subscriptions
    name = await make_list(services)
    ann = await use.add(name, ANN)
    edited = await use.edit(name, ANN, blocked="complained", etag=ann.etag)
    with pytest.raises(Overtaken):
        await use.edit(name, ANN, verified=True, etag=ann.etag)
    with pytest.raises(Overtaken):
        await use.remove(name, ANN, etag=ann.etag)
    assert await use.get(name, ANN) == edited
    verified = await use.edit(name, ANN, verified=True, etag=edited.etag)
    assert (verified.verified, verified.blocked, verified.may_receive) == (
        True,
        "complained",
        False,
    )
    free = await use.edit(name, ANN, blocked="")
    assert free.may_receive
    assert free.verified_at == verified.verified_at
    again = await use.edit(name, ANN, verified=False)
    assert (again.verified, again.verified_at) == (False, None)
    await use.remove(name, ANN, etag=again.etag)
    with pytest.raises(NoSuch):
        await use.get(name, ANN)


async def test_an_edit_between_look_and_removal_is_not_removed(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    ann = await services.subscriptions.add(name, ANN)
    fate = Fate(before={1: lambda: services.subscriptions.edit(name, ANN, blocked="x")})
    with pytest.raises(Overtaken):
        await Services(Fated(store, fate)).subscriptions.remove(name, ANN, etag=ann.etag)
    assert (await services.subscriptions.get(name, ANN)).blocked == "x"


async def test_another_address_keeps_the_links_and_is_refused_if_taken(
    services: Services, store: Store
) -> None:
    use = services.subscriptions
    name = await make_list(services)
    ann, _ = await use.add(name, ANN, verified=True), await use.add(name, BOB)

    with pytest.raises(Exists, match=BOB):
        await use.change_address(name, ANN, BOB)
    assert await use.change_address(name, ANN, "ann@EXAMPLE.com") == ann
    assert await check_pairs(store, name) == {ANN, BOB}
    moved = await use.change_address(name, ANN, "lee@example.org")

    assert (moved.guid, moved.verified, moved.created_at) == (ann.guid, True, ann.created_at)
    assert await use.by_guid(name, ann.guid) == moved
    assert await check_pairs(store, name) == {"lee@example.org", BOB}
    results = await asyncio.gather(
        *(use.change_address(name, "lee@example.org", f"lee{n}@example.org") for n in range(5)),
        return_exceptions=True,
    )
    assert sum(not isinstance(each, Exception) for each in results) == 1
    assert len(await check_pairs(store, name)) == 2
    assert await use.unsubscribe(name, ann.guid) is not None
    assert await check_pairs(store, name) == {BOB}


async def test_unsubscribing_while_the_address_changes_removes_the_subscriber(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    ann = await services.subscriptions.add(name, ANN, verified=True)
    fate = Fate(before={1: lambda: services.subscriptions.change_address(name, ANN, BOB)})

    left = await Services(Fated(store, fate)).subscriptions.unsubscribe(name, ann.guid)

    assert left is not None
    assert left.address == BOB
    assert await check_pairs(store, name) == set()


async def test_after_an_interruption_anywhere_both_rows_exist_or_neither(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    ann = await services.subscriptions.add(name, ANN)
    calls: dict[str, Callable[[SubscriptionService], Awaitable[object]]] = {
        "subscribe": lambda use: use.subscribe(name, "new@example.com"),
        "add": lambda use: use.add(name, "new@example.com", verified=True),
        "confirm": lambda use: use.confirm(name, ann.guid),
        "edit": lambda use: use.edit(name, ANN, blocked="x"),
        "change_address": lambda use: use.change_address(name, ANN, "lee@example.org"),
        "unsubscribe": lambda use: use.unsubscribe(name, ann.guid),
        "remove": lambda use: use.remove(name, ANN),
    }
    for call in calls.values():
        for writes in range(10):
            for old in await check_pairs(store, name):
                await services.subscriptions.remove(name, old)
            ann = await services.subscriptions.add(name, ANN)
            fate = Fate(writes)
            died = await dies(call(Services(Fated(store, fate)).subscriptions))
            left = await check_pairs(store, name)
            if not died:
                break
            if writes == 0:
                assert left == {ANN}, "nothing was done"
        assert writes <= 4


async def test_a_move_that_is_interrupted_anywhere_never_loses_the_subscriber(
    services: Services, store: Store
) -> None:
    use = services.subscriptions
    here, there = await make_list(services, "here"), await make_list(services, "there")

    async def attempt(fate: Fate, writes: int) -> None:
        address = f"ann{writes}@example.com"
        ann = await use.add(here, address, verified=True)
        died = await dies(Services(Fated(store, fate)).subscriptions.move(here, address, there))
        on = [address in await check_pairs(store, name) for name in (here, there)]
        assert any(on)
        if died:
            moved = await use.move(here, address, there)
            assert (moved.guid, moved.verified, moved.list_name) == (ann.guid, True, there)
        assert address not in await check_pairs(store, here)
        assert address in await check_pairs(store, there)
        assert await use.by_guid(there, ann.guid) == await use.get(there, address)

    assert await cut_after_each_write(attempt) == 2
    await use.add(here, "ann0@example.com")
    with pytest.raises(Exists):
        await use.move(here, "ann0@example.com", there)
    assert await use.move(here, "ann0@example.com", here) == await use.get(here, "ann0@example.com")


async def test_subscribers_come_in_pages_by_prefix_and_by_whether_they_are_verified(
    services: Services, store: Store
) -> None:
    use = services.subscriptions
    name = await make_list(services)
    made = [each.address for each in await fill(store, name, 120)]
    for each in ("aa@example.com", "aé@example.com", "ab@example.com", "z@example.com"):
        await use.add(name, each)

    found, after, pages = [], None, 0
    for _ in range(10):
        part = await use.slice(name, limit=50, after=after)
        found += [each.address for each in part.subscribers]
        pages, after = pages + 1, part.next
        if after is None:
            break
    assert found == sorted(
        ["aa@example.com", "ab@example.com", "aé@example.com", *made, "z@example.com"]
    )
    assert pages == 3
    verified = await use.slice(name, verified=True, limit=1000)
    assert [each.address for each in verified.subscribers] == made
    some = await use.slice(name, prefix="user00001", limit=1000)
    assert [each.address for each in some.subscribers] == made[10:20]
    both = await use.slice(name, prefix="a", verified=False, limit=2)
    assert [each.address for each in both.subscribers] == ["aa@example.com", "ab@example.com"]
    rest = await use.slice(name, prefix="a", verified=False, limit=2, after=both.next)
    assert [each.address for each in rest.subscribers] == ["aé@example.com"]
    assert (await use.slice(name, prefix="guid:")).subscribers == []
    assert [each.address async for each in use.all(name)] == found
