"""A person is forgotten: everywhere, whatever interrupts it, and sums still hold."""

from __future__ import annotations

import pytest

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.scheduler.retention import Retention
from postroom.services import entities
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import (
    address_of,
    check_pairs,
    fill,
    make_list,
    rows_of,
    schedule,
)
from tests.integration.usecases.pages import check_sum, fan_out_whole, settle, use_small_pages

ACCEPTED, REFUSED = EmailOutcome.ACCEPTED, EmailOutcome.REFUSED


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pages(monkeypatch, size=2, pages=20)


async def sent_to(
    services: Services, store: Store, count: int, *, done: bool = True, name: str = "contoso1"
) -> Message:
    await make_list(services, name)
    await fill(store, ListName(name), count)
    message = await fan_out_whole(store, (await schedule(services, name)).ref)
    for page in range(message.queued_pages if done else 0):
        await settle(services, message, page, [ACCEPTED, REFUSED])
    return message


async def names(store: Store) -> str:
    """All that the store's tables hold, as one text to look for somebody in."""
    found = []
    for name in (
        entities.LISTS,
        entities.MESSAGES,
        entities.ARCHIVE,
        entities.PAGES,
        entities.INDEX,
    ):
        found += [repr(entity) async for entity in store.table(name).scan()]
    return "\n".join(found)


@pytest.mark.parametrize("number", range(5))
async def test_an_erased_address_appears_nowhere_and_the_others_are_found(
    services: Services, store: Store, number: int
) -> None:
    message = await sent_to(services, store, 5)
    before = await services.outcomes.counts(message)

    done = await services.personal_data.erase(address_of(number))

    assert (done.lists, done.emails, done.waiting) == (["contoso1"], 1, [])
    assert address_of(number) not in await names(store)
    assert await check_sum(services, message) == before
    assert len([each async for each in services.outcomes.emails(message)]) == 5
    for other in set(range(5)) - {number}:
        assert await services.outcomes.email(message, address_of(other)) is not None


async def test_pages_without_any_address_left_hide_no_other_page(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, size=1, pages=20)
    message = await sent_to(services, store, 9)
    for number in (4, 5, 8):
        await services.personal_data.erase(address_of(number))
    for number in (0, 3, 6, 7):
        assert await services.outcomes.email(message, address_of(number)) is not None
    last = await services.pages.last_address(message, 8)
    assert last == (7, address_of(7)), "an interrupted fan-out continues behind it"


async def test_an_erasure_names_messages_that_still_wait(services: Services, store: Store) -> None:
    message = await sent_to(services, store, 3, done=False)

    done = await services.personal_data.erase(address_of(1))

    assert done.waiting == [message.ref]
    assert done.lists == ["contoso1"]


async def test_erasing_an_unknown_address_is_not_an_error(services: Services, store: Store) -> None:
    await sent_to(services, store, 3)

    done = await services.personal_data.erase("stranger@example.com")

    assert (done.lists, done.emails) == ([], 0)


async def test_an_interrupted_erasure_is_finished_by_asking_again(
    services: Services, store: Store, engine: str
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        name = f"list{writes}"
        message = await sent_to(services, store, 5, name=name)
        person = address_of(4)  # alone on the last page
        await dies(Services(Fated(store, fate)).personal_data.erase(person))

        await services.personal_data.erase(person)

        assert person not in await names(store)
        assert (await check_sum(services, message)).planned == 5

    await cut_after_each_write(attempt, stride=3 if engine == "azure" else 1)


async def test_records_that_had_to_wait_are_erased_when_their_message_is_finished(
    services: Services, store: Store
) -> None:
    message = await sent_to(services, store, 3, done=False)
    person = address_of(1)
    assert (await services.personal_data.erase(person)).waiting == [message.ref]
    await services.subscriptions.add("contoso1", person)  # comes back before it is finished
    for page in range(message.queued_pages):
        await settle(services, message, page, [ACCEPTED, REFUSED])

    await services.personal_data.finish()

    assert await services.outcomes.email(message, person) is None
    assert (await services.subscriptions.get("contoso1", person)).address == person
    assert await rows_of(store, "erasures", "erasure") == []
    assert (await check_sum(services, message)).planned == 3


async def test_an_interrupted_erasure_is_finished_by_the_scheduler(
    services: Services, store: Store, engine: str
) -> None:
    async def attempt(fate: Fate, writes: int) -> None:
        name = await make_list(services, f"list{writes}")
        person = f"p{writes}@example.com"
        await services.subscriptions.add(name, person, verified=True)
        await services.preferences.pause(await services.subscriptions.get(name, person))
        await dies(Services(Fated(store, fate)).personal_data.erase(person))

        await Retention(services, archive=None, events=None).remove_old()

        if writes:  # the first write is the request
            assert person not in await names(store)
        assert await rows_of(store, "erasures", "erasure") == []
        await check_pairs(store, name)

    await cut_after_each_write(attempt, stride=3 if engine == "azure" else 1)
