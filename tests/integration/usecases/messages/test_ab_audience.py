"""Everybody gets one variant of an A/B test, on every engine."""

import pytest

from postroom.domain.messages.waves.ab_tests import AbState
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.messages.ab_testing import (
    deliver,
    end_wait,
    prepared,
    recipients,
    running,
)
from tests.integration.usecases.pages import check_pages, fan_out_whole, use_small_pages


@pytest.fixture(params=["sqlite", "postgres", "azure"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_variants_and_the_rest_reach_everyone_once(services: Services, store: Store) -> None:
    test = await running(services, store, people=240, variants=3)
    parts = []
    for ref in test.variants:
        parts.append(await recipients(services, await services.messages.get(ref)))
        assert 15 < len(parts[-1]) < 65, "about a sixth of everybody"
    name = (await services.messages.get(test.key)).list_name
    # Somebody who came meanwhile gets the rest, whatever their bucket; so does nobody who got a
    # variant, left, and came back with another GUID.
    for number in range(20):
        await services.subscriptions.add(name, f"late{number:02}@example.com", verified=True)
    back = sorted(parts[0])[0]
    await services.subscriptions.remove(name, back)
    await services.subscriptions.add(name, back, verified=True)
    await end_wait(services, test.key)
    done = await services.ab_tests.advance(test.key)
    assert (done.state, done.winner) == (AbState.DONE, "")
    rest = await fan_out_whole(store, done.rest)
    parts.append(set(await check_pages(store, rest)))
    everybody = {f"user{number:06}@example.com" for number in range(240)}
    everybody |= {f"late{number:02}@example.com" for number in range(20)}
    assert sum(map(len, parts)) == len(everybody), "nobody twice"
    assert set[str]().union(*parts) == everybody
    assert (await deliver(store, rest.ref)).subject == "Subject A"


async def test_small_shares_still_fill_their_pages(
    services: Services, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, size=4, pages=3)
    test = await prepared(services, store, people=300)
    await services.ab_tests.start(test.key, share=30)
    await services.ab_tests.advance(test.key)
    message = await fan_out_whole(store, test.key)
    found = await check_pages(store, message)
    assert 15 < len(found) < 75, "about 15 in a hundred"
    assert message.queued_pages == -(-len(found) // 4)
