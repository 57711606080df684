"""Addresses that another tool blocks are suppressed by an import: on every list, or on one."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.pages import SUPPRESS_QUEUE
from postroom.services.audience.files.import_report import ImportReport
from postroom.services.audience.suppression.suppression_items import SuppressionTask
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.audience.bounces.test_suppressions import blocked_on, work_of
from tests.integration.usecases.faults import Fate, Fated, cut_after_each_write, dies
from tests.integration.usecases.making import make_list

ANN = "ann@example.com"


@pytest.fixture(params=["sqlite"])  # nothing here depends on the engine
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def take(services: Services, name: ListName, *lines: str, **options: Any) -> ImportReport:
    data = "\n".join(("email,status", *lines)).encode()
    return await services.imports.import_csv(name, io.BytesIO(data), **options)


async def scopes(services: Services) -> dict[str, tuple[str | None, str, str]]:
    return {
        each.address: (each.list_name, each.reason, each.source)
        async for each in services.suppressions.all()
    }


async def test_what_is_said_about_a_mailbox_counts_on_every_list(services: Services) -> None:
    news, other = await make_list(services, "news"), await make_list(services, "other")
    for name in ("gone", "angry", "foe"):
        await services.subscriptions.add(other, f"{name}@b.org", verified=True)
    lines = ("gone@b.org,cleaned", "angry@b.org,complained", "foe@b.org,blocklisted", "Ok@b.org,")
    report = await take(services, news, *lines)
    assert (report.added, report.blocked, report.suppressed) == (4, 3, 3)
    assert await scopes(services) == {
        "gone@b.org": (None, "hard bounce", "import"),
        "angry@b.org": (None, "complaint", "import"),
        "foe@b.org": (news, "blocklisted in the imported file", "import"),
    }
    # Those who are on the other list are blocked at once.
    assert (
        await blocked_on(services, news, other, address="gone@b.org")
        == ["suppressed: hard bounce"] * 2
    )
    assert await blocked_on(services, other, address="foe@b.org") == [""]
    # Somebody who is removed and added again stays blocked.
    for name in ("gone", "foe"):
        await services.subscriptions.remove(news, f"{name}@b.org")
        assert (await services.subscriptions.add(news, f"{name}@b.org", verified=True)).blocked
    again = await take(services, news, *lines)
    assert (again.added, again.updated, again.suppressed) == (0, 2, 0)  # added as confirmed


async def test_rights_on_one_list_allow_suppressing_on_that_list_only(services: Services) -> None:
    news, other = await make_list(services, "news"), await make_list(services, "other")
    await services.subscriptions.add(other, ANN, verified=True)
    report = await take(services, news, f"{ANN},bounced", on_every_list=False)
    assert report.suppressed == 1
    assert await scopes(services) == {ANN: (news, "hard bounce", "import")}
    assert await blocked_on(services, news, other, address=ANN) == ["suppressed: hard bounce", ""]
    # Somebody with rights on every list can extend it.
    assert (await take(services, news, f"{ANN},bounced")).suppressed == 1
    assert await blocked_on(services, other, address=ANN) == ["suppressed: hard bounce"]


async def test_an_address_that_unsubscribed_and_bounced_is_suppressed_as_well(
    services: Services,
) -> None:
    news, other = await make_list(services, "news"), await make_list(services, "other")
    await take(services, news, f"{ANN},unsubscribed")
    report = await take(services, news, f"{ANN},bounced")
    assert (report.rejected, report.suppressed) == (1, 1)
    assert (await services.subscriptions.add(other, ANN, verified=True)).is_suppressed


async def test_a_dry_run_suppresses_nobody(services: Services) -> None:
    news = await make_list(services, "news")
    report = await take(services, news, f"{ANN},bounced", dry_run=True)
    assert (report.added, report.blocked, report.suppressed) == (1, 1, 1)
    assert await scopes(services) == {}


async def test_a_suppression_of_longer_duration_replaces_a_short_one(services: Services) -> None:
    news = await make_list(services, "news")
    await services.suppressions.suppress(
        ANN, "rest", source="api", expires_at=clock.now() + timedelta(days=1)
    )
    await take(services, news, f"{ANN},bounced", "bob@example.com,bounced")
    [ann] = await services.suppressions.of_address(Address(ANN))
    assert (ann.reason, ann.expires_at) == ("hard bounce", None)
    assert set(await scopes(services)) == {ANN, "bob@example.com"}


async def test_an_interrupted_import_leaves_a_work_item_that_blocks_on_other_lists(
    services: Services, store: Store
) -> None:
    news, other = await make_list(services, "news"), await make_list(services, "other")

    async def attempt(fate: Fate, writes: int) -> None:
        address = Address(f"ann{writes}@example.com")
        await services.subscriptions.add(other, address, verified=True)
        await dies(take(Services(Fated(store, fate)), news, f"{address},bounced"))
        is_suppressed = bool(await services.suppressions.of_address(address))
        items = [each.message.body for each in await store.queue(SUPPRESS_QUEUE).browse(1000)]
        assert f"{SuppressionTask.APPLY_MANY},{address}" in items or not is_suppressed
        await services.suppressions.apply_to_many([address])
        [blocked] = await blocked_on(services, other, address=address)
        assert bool(blocked) == is_suppressed
        await take(services, news, f"{address},bounced")
        blocked_now = await blocked_on(services, news, other, address=address)
        assert blocked_now == ["suppressed: hard bounce"] * 2

    assert await cut_after_each_write(attempt) > 4


async def test_the_work_item_names_many_addresses(services: Services, store: Store) -> None:
    news, other = await make_list(services, "news"), await make_list(services, "other")
    people = [f"u{number:03}@example.com" for number in range(120)]
    await take(services, news, *(f"{each},bounced" for each in people))
    for each in people[::40]:  # as if they had been added at the same moment
        await services.subscriptions.add(other, each, verified=True)
    queue = store.queue(SUPPRESS_QUEUE)
    bodies = [each.message.body for each in await queue.browse(100)]
    assert len(bodies) == 2
    for body in bodies:
        await queue.put(body)
    assert await work_of(services).work_through() == 2
    for each in people[::40]:
        assert await blocked_on(services, other, address=each) == ["suppressed: hard bounce"]
