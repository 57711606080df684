"""Lists: made, found, edited by two at once, and deleted with all that belongs to them."""

import asyncio
import io
from collections.abc import Awaitable, Callable

import pytest

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.messages.messages import MessageStatus, with_status
from postroom.services import entities
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import (
    FROM,
    address_of,
    check_pairs,
    days,
    fill,
    make_list,
    rows_of,
    schedule,
)


async def names(services: Services) -> list[str]:
    return [each.name for each in (await services.lists.slice()).lists]


async def test_a_list_is_kept_as_the_specification_says(services: Services, store: Store) -> None:
    made = await services.lists.create("contoso1", " Contoso's news ", "Letters@CONTOSO.example")

    row = await store.table("mailinglist").get("contoso1", "mailinglist")

    assert row is not None
    assert row.properties["Description"] == "Contoso's news"
    assert row.properties["FromEmailAddress"] == "Letters@contoso.example"
    assert await services.lists.get("contoso1") == made
    with pytest.raises(Exists, match="contoso1"):
        await services.lists.create("contoso1", "Another", FROM)
    assert (await services.lists.get("contoso1")).description == "Contoso's news"


async def test_an_invalid_list_is_refused_by_field_and_leaves_nothing(
    services: Services, store: Store
) -> None:
    good = {"name": "contoso1", "description": "News", "from_address": FROM}
    bad = {
        "name": ["", "a b", "a/b", "x" * 101, "ä", "..", "a\n", "a,b"],
        "description": ["", " ", "x" * 201, *(f"a{c}b" for c in "\r\n\x00\u2028\u2029\u202e")],
        "from_address": ["", "news", f"{FROM}\r\nBcc: a@b.example", "a@b.example, c@d.example"],
    }
    for field, values in bad.items():
        for value in values:
            given = {**good, field: value}
            with pytest.raises(Invalid) as refused:
                await services.lists.create(
                    given["name"], given["description"], given["from_address"]
                )
            assert refused.value.field == field
            assert str(refused.value).isprintable()
    assert await names(services) == []
    assert await rows_of(store, entities.LIST_INDEX, entities.BY_NAME) == []


async def test_of_two_who_edit_one_wins_and_nothing_of_the_other_is_kept(
    services: Services, store: Store
) -> None:
    await make_list(services)
    seen = await services.lists.get("contoso1")

    first = await services.lists.edit("contoso1", description="Ann's", etag=seen.etag)
    with pytest.raises(Overtaken, match="someone else"):
        await services.lists.edit(
            "contoso1", description="Bob's", from_address="bob@contoso.example", etag=seen.etag
        )
    assert await services.lists.get("contoso1") == first

    results = await asyncio.gather(
        *(services.lists.edit("contoso1", description=f"{n}", etag=first.etag) for n in range(8)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, Overtaken) for result in results) == 7
    with pytest.raises(Invalid):
        await services.lists.edit("contoso1", description="a\nb")
    with pytest.raises(NoSuch, match="list 'nowhere'"):
        await services.lists.edit("nowhere", description="x")
    with pytest.raises(Overtaken):
        await services.lists.delete("contoso1", etag=seen.etag)
    assert await names(services) == ["contoso1"]


async def test_lists_come_in_pages_in_the_order_of_their_names(
    services: Services, engine: str
) -> None:
    count = 60 if engine == "azure" else 250
    made = [f"list{number:03}" for number in range(count)]
    await asyncio.gather(*(services.lists.create(name, "d", FROM) for name in reversed(made)))

    found, after, pages = [], None, 0
    while True:
        part = await services.lists.slice(limit=25, after=after)
        found += [each.name for each in part.lists]
        pages += 1
        after = part.next
        if after is None:
            break

    assert found == made
    assert pages <= count // 25 + 1


async def test_of_many_who_make_the_same_list_one_succeeds(services: Services) -> None:
    results = await asyncio.gather(
        *(services.lists.create("contoso1", f"{n}", FROM) for n in range(10)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, Exists) for result in results) == 9
    assert await names(services) == ["contoso1"]


async def test_a_list_is_deleted_with_its_subscribers_and_can_be_recreated(
    services: Services, store: Store, engine: str
) -> None:
    name = await make_list(services)
    other = await make_list(services, "contoso2")
    count = 260 if engine == "azure" else 1_050
    subscribers = await fill(store, name, count)
    await fill(store, other, 3)

    assert await services.lists.delete(name) == count

    assert await rows_of(store, entities.LISTS, name) == []
    assert await names(services) == [other]
    assert len(await check_pairs(store, other)) == 3
    with pytest.raises(NoSuch):
        await services.lists.delete(name)
    assert await services.subscriptions.confirm(name, subscribers[0].guid) is None
    await make_list(services, name)
    assert (await services.subscriptions.slice(name)).subscribers == []
    assert await names(services) == [name, other]


async def test_a_deletion_that_is_interrupted_anywhere_is_finished_later(
    services: Services, store: Store
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        name = await make_list(services, f"list{writes}")
        [someone, *_] = await fill(store, name, 60)
        if not await dies(Services(Fated(store, fate)).lists.delete(name)):
            assert await rows_of(store, entities.LISTS, name) == []
            return
        if writes == 0:
            assert (await services.lists.get(name)).name == name
            return
        # Gone for everybody at once.
        for call in (
            services.lists.get(name),
            services.lists.edit(name, description="x"),
            services.subscriptions.subscribe(name, "new@example.com"),
            services.subscriptions.add(name, "new@example.com"),
            services.subscriptions.get(name, someone.address),
            services.subscriptions.remove(name, someone.address),
            services.subscriptions.slice(name),
            schedule(services, name),
        ):
            with pytest.raises(NoSuch, match=f"list '{name}'"):
                await call
        assert await names(services) == ["list0"]
        if writes % 2:
            await make_list(services, name)
            assert await names(services) == ["list0", name]
            assert await check_pairs(store, name) == set()
        await services.lists.delete(name)
        assert await rows_of(store, entities.LISTS, name) == []
        assert await store.table(entities.LIST_INDEX).get(entities.BY_NAME, name) is None

    # The mark, two batches, the index, the list.
    assert await cut_after_each_write(attempt) == 5


async def test_two_who_delete_at_once_delete_it_once(services: Services, store: Store) -> None:
    name = await make_list(services)
    await fill(store, name, 150)

    results = await asyncio.gather(
        *(services.lists.delete(name) for _ in range(4)), return_exceptions=True
    )

    assert sum(result for result in results if isinstance(result, int)) == 150
    assert all(isinstance(r, int | NoSuch | Overtaken) for r in results), results
    assert await rows_of(store, entities.LISTS, name) == []
    assert await names(services) == []


async def test_a_late_deletion_takes_nothing_from_a_recreated_list(
    services: Services, store: Store
) -> None:
    for write in (2, 3, 4, 5):
        name = await make_list(services, f"list{write}")
        await fill(store, name, 60)

        async def another_process_recreates_it(name: ListName = name) -> None:
            await services.lists.delete(name)
            await make_list(services, name)
            await services.subscriptions.add(name, "new@example.com", verified=True)

        fate = Fate(before={write: another_process_recreates_it})
        await Services(Fated(store, fate)).lists.delete(name)

        assert await check_pairs(store, name) == {"new@example.com"}
        assert name in await names(services)


async def test_a_list_created_while_one_of_its_name_is_deleted_is_in_the_index(
    services: Services, store: Store
) -> None:
    for write in (1, 2, 3, 4):
        name = await make_list(services, f"list{write}")
        await fill(store, name, 2)
        assert await dies(Services(Fated(store, Fate(2))).lists.delete(name))

        async def somebody_finishes_the_deletion(name: ListName = name) -> None:
            found = await store.table(entities.LISTS).get(name, entities.LIST_ROW)
            if found is not None and found.properties.get("Deleting"):
                await services.lists.delete(name)

        fate = Fate(before={write: somebody_finishes_the_deletion})
        await Services(Fated(store, fate)).lists.create(name, "Created again", FROM)

        assert (await services.lists.get(name)).description == "Created again"
        assert name in await names(services)


async def test_a_sign_up_during_a_deletion_does_not_return_with_a_new_list_of_that_name(
    services: Services, store: Store
) -> None:
    for call in ("subscribe", "add", "move"):
        await check_late_comer(services, store, call)


async def check_late_comer(services: Services, store: Store, call: str) -> None:
    name, other = await make_list(services, f"to-{call}"), await make_list(services, f"of-{call}")
    await services.subscriptions.add(other, "ann@example.com", verified=True)
    fate = Fate(before={1: lambda: services.lists.delete(name)})
    late = Services(Fated(store, fate)).subscriptions
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "subscribe": lambda: late.subscribe(name, "ann@example.com"),
        "add": lambda: late.add(name, "ann@example.com"),
        "move": lambda: late.move(other, "ann@example.com", name),
    }

    with pytest.raises(NoSuch, match=f"list '{name}'"):
        await calls[call]()

    assert await rows_of(store, entities.LISTS, name) == []
    assert await check_pairs(store, other) == {"ann@example.com"}


async def test_a_list_stays_while_a_message_for_it_is_not_done(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    await make_list(services, "contoso2")
    await schedule(services, "contoso2", days(1))
    message = await schedule(services, name, days(1))
    messages = services.messages
    for status in (
        MessageStatus.PENDING,
        MessageStatus.PAUSED,
        MessageStatus.PENDING,
        MessageStatus.QUEUING,
        MessageStatus.PROCESSING,
    ):
        current = await messages.get(message.ref)
        if status is MessageStatus.PAUSED:
            await services.message_states.pause(message.ref)
        elif current.status is MessageStatus.PAUSED:
            await services.message_states.resume(message.ref)
        elif current.status is not status:
            await services.message_rows.save(with_status(current, status))
        with pytest.raises(NotNow, match=f"{message.ref}.*{status}"):
            await services.lists.delete(name)
        assert (await services.lists.get(name)).name == name
    await services.message_states.cancel(message.ref)
    assert await services.lists.delete(name) == 0


async def test_addresses_of_any_kind_are_kept_on_a_list(services: Services, store: Store) -> None:
    name = await make_list(services, "A_b-c.d")
    strange = {
        "o'brien@example.com",
        "a/b=c?d@example.com",
        "per%cent#hash@example.com",
        "이름@example.com",
        "ann@münchen.example.com",
        "ann@example.com",
        "a" * 64 + "@" + ".".join(["b" * 60] * 3) + ".com",
        "ü" * 30 + "@" + "münchen." * 12 + "example.com",
    }
    for each in strange:
        await services.subscriptions.add(name, each, verified=True)
    assert await check_pairs(store, name) == strange
    for each in strange:
        found = await services.subscriptions.get(name, each)
        assert await services.subscriptions.unsubscribe(name, found.guid) == found
    assert address_of(1) not in await check_pairs(store, name)


async def test_addresses_that_differ_only_in_case_are_one_subscriber(
    services: Services, store: Store
) -> None:
    name = await make_list(services)
    added = await services.subscriptions.add(name, "Ann.Lee@Example.com", verified=True)
    assert added.address == "Ann.Lee@example.com", "the spelling that was given"
    for spelling in ("ann.lee@example.com", "ANN.LEE@EXAMPLE.COM"):
        with pytest.raises(Exists):
            await services.subscriptions.add(name, spelling)
        assert await services.subscriptions.subscribe(name, spelling) is False
        assert await services.subscriptions.get(name, spelling) == added
    file = io.BytesIO(b"email\nann.LEE@example.com\nBob@example.com\nbob@example.com\n")
    report = await services.imports.import_csv(name, file)
    assert (report.added, report.unchanged) == (1, 2)
    found = await services.subscriptions.slice(name, prefix="ANN")
    assert [each.address for each in found.subscribers] == [added.address]
    spelled = await services.subscriptions.change_address(
        name, added.address, "ann.lee@example.com"
    )
    assert (spelled.guid, spelled.address) == (added.guid, "ann.lee@example.com")
    assert await services.subscriptions.by_guid(name, added.guid) == spelled
    assert await services.subscriptions.get(name, "BOB@example.com") is not None
    await services.subscriptions.unsubscribe(name, added.guid)
    again = await services.imports.import_csv(name, io.BytesIO(b"email\nANN.lee@example.com\n"))
    assert again.rejected == 1, "people who left stay off the list, in any spelling"
    assert [each.address async for each in services.subscriptions.all(name)] == ["Bob@example.com"]
