"""Nobody can be bombed with confirmations: not by one visitor, not by many, not after a restart."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.pages import CONFIRM_QUEUE
from postroom.services.audience.signup import signup_limits
from postroom.services.audience.signup.signup_limits import (
    AT_ONCE,
    PER_ADDRESS_AND_LIST,
    PER_MAILBOX,
    PER_PLACE,
    PER_WIDER_PLACE,
    SignupLimits,
    network_for_limits,
)
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.making import bodies_of, make_list

ANN = Address("ann@example.com")
NEWS = ListName("news")


class Clock:
    """Noon, so that a few hours more are the same day."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def goes_on(self, **time: float) -> None:
        self.now += timedelta(**time)


async def asks(
    limits: SignupLimits, address: str = ANN, name: str = NEWS, place: str | None = None
) -> bool:
    allowance = await limits.check(Address(address), ListName(name), place)
    return allowance is not None and await limits.take(allowance)


async def test_an_address_is_asked_twice_at_once_and_three_times_a_day(store: Store) -> None:
    clock = Clock()
    limits = SignupLimits(store, clock)
    assert [await asks(limits) for _ in range(4)] == [True] * AT_ONCE + [False] * 2
    clock.goes_on(minutes=6)
    restarted = SignupLimits(store, clock)
    assert [await asks(restarted) for _ in range(2)] == [True, False]
    clock.goes_on(hours=1)
    assert not await asks(limits)
    assert await asks(limits, "bob@example.com")
    clock.goes_on(days=1)
    assert await asks(limits)


async def test_a_mailbox_counts_over_all_lists_and_spellings(store: Store) -> None:
    limits = SignupLimits(store, Clock())
    asked = [
        await asks(limits, f"Ann+{n}@example.com", f"list{n}", place="")
        for n in range(PER_MAILBOX + 2)
    ]
    assert asked == [True] * PER_MAILBOX + [False] * 2
    assert not await asks(limits, place="")
    await limits.forget(ANN)
    assert await asks(limits)


async def test_a_program_may_sign_a_mailbox_up_more_often(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signup_limits, "PER_MAILBOX_BY_PROGRAM", PER_MAILBOX + 3)
    limits = SignupLimits(store, Clock())
    asked = [await asks(limits, f"ann+{n}@example.com") for n in range(PER_MAILBOX + 5)]
    assert asked == [True] * (PER_MAILBOX + 3) + [False] * 2


async def test_simultaneous_requests_get_no_more_than_the_limit(store: Store) -> None:
    many = [SignupLimits(store, Clock()) for _ in range(3)]
    asked = await asyncio.gather(*(asks(each) for each in many * 4))
    assert 1 <= sum(asked) <= AT_ONCE


async def test_a_place_is_limited_for_visitors_and_not_for_programs(store: Store) -> None:
    clock = Clock()
    limits = SignupLimits(store, clock)
    place = network_for_limits("93.184.216.34")
    asked = [await asks(limits, f"u{n}@example.com", place=place) for n in range(PER_PLACE + 3)]
    assert asked == [True] * PER_PLACE + [False] * 3
    assert await asks(limits, "other@example.com", place=network_for_limits("93.184.216.35"))
    assert await asks(limits, "program@example.com")
    clock.goes_on(minutes=11)
    assert await asks(limits, "late@example.com", place=place)


async def test_dotted_spellings_of_a_mailbox_at_google_are_one_mailbox(store: Store) -> None:
    limits = SignupLimits(store, Clock())
    name = "abcdefghij"
    spellings = [f"{name[:n]}.{name[n:]}@gmail.com" for n in range(1, 10)]
    spellings += [spelling.replace("gmail", "googlemail") for spelling in spellings]
    asked = [await asks(limits, spelling, place="") for spelling in spellings]
    assert sum(asked) == PER_MAILBOX


@pytest.mark.parametrize(
    ("prefix", "limit"), [(56, PER_WIDER_PLACE[56]), (48, PER_WIDER_PLACE[48])]
)
async def test_neighbouring_networks_of_one_customer_are_limited_together(
    store: Store, prefix: int, limit: int
) -> None:
    """Each sign-up comes from its own /64, inside one /56 or one /48."""
    limits = SignupLimits(store, Clock())
    step = 1 if prefix == 56 else 256
    places = [network_for_limits(f"2606:4700:1:{step * n:x}::1") for n in range(limit + 3)]
    assert len(set(places)) == len(places)
    asked = [await asks(limits, f"u{n}@example.com", place=place) for n, place in enumerate(places)]
    assert asked == [True] * limit + [False] * 3
    assert await asks(limits, "else@example.com", place=network_for_limits("2606:4700:2::1"))


async def test_a_mailbox_is_counted_once_even_if_others_share_its_network(
    store: Store,
) -> None:
    limits = SignupLimits(store, Clock())
    place = network_for_limits("93.184.216.34")
    allowance = await limits.check(ANN, NEWS, place)
    assert allowance is not None
    assert await asks(limits, "bob@example.com", place=place)
    assert await limits.take(allowance)
    assert [await asks(limits) for _ in range(AT_ONCE)] == [True] * (AT_ONCE - 1) + [False]


async def test_a_list_is_limited_over_all_web_servers(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signup_limits, "PER_LIST", 25)
    clock = Clock()
    one, other = SignupLimits(store, clock), SignupLimits(store, clock)
    asked = [
        await asks(limits, f"u{n}@example.com", place="")
        for n, limits in enumerate([one, other] * 20)
    ]
    assert sum(asked) == 25
    assert await asks(one, "else@example.com", "else", place="")
    assert await asks(one, "program@example.com")
    clock.goes_on(hours=1)
    assert await asks(one, "later@example.com", place="")


async def test_expired_counts_are_removed(store: Store) -> None:
    clock = Clock()
    limits = SignupLimits(store, clock)
    for n in range(5):
        await asks(limits, f"u{n}@example.com", place=network_for_limits(f"93.184.216.{n}"))
    rows = store.table(signup_limits.TABLE)
    assert len((await rows.query()).entities) == 11
    clock.goes_on(days=2)
    assert await asks(limits)
    assert len((await rows.query()).entities) == 1
    [left] = (await rows.query()).entities
    assert "ann" not in f"{left.row} {left.properties}", "no address can be read there"


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("93.184.216.34", "93.184.216.34"),
        ("::ffff:93.184.216.34", "93.184.216.34"),
        ("2606:4700:1:2:3:4:5:6", "2606:4700:1:2::/64"),
        ("2606:4700:1:2:ffff::1", "2606:4700:1:2::/64"),
        ("127.0.0.1", ""),
        ("10.1.2.3", ""),
        ("fe80::1%eth0", ""),
        ("", ""),
        ("testclient", ""),
    ],
)
def test_a_customers_network_is_one_client_and_a_proxy_is_none(host: str, place: str) -> None:
    assert network_for_limits(host) == place


async def test_too_many_sign_ups_change_nothing_and_get_the_same_response(
    services: Services, store: Store
) -> None:
    limits = SignupLimits(store, Clock())
    use = SubscriptionService(
        store,
        services.subscriber_rows,
        services.lists,
        services.counts,
        services.fields,
        limits,
        services.unsubscribes,
    )
    name, place = await make_list(services), network_for_limits("93.184.216.34")
    answers = [
        await use.subscribe(name, f"u{n}@example.com", place=place) for n in range(PER_PLACE + 5)
    ]
    assert answers == [True] * len(answers)
    assert len((await use.slice(name)).subscribers) == PER_PLACE
    assert len(await bodies_of(store, CONFIRM_QUEUE)) == PER_PLACE


async def test_after_following_a_link_one_can_sign_up_again_at_once(
    services: Services, store: Store
) -> None:
    use, name = services.subscriptions, await make_list(services)
    for _ in range(2 * PER_ADDRESS_AND_LIST):
        assert await use.subscribe(name, ANN)
        [_] = await bodies_of(store, CONFIRM_QUEUE)
        ann = await use.get(name, ANN)
        await use.confirm(name, ann.guid)
        assert not await use.subscribe(name, ANN)
        await use.unsubscribe(name, ann.guid)


async def test_the_language_travels_with_the_work_item(services: Services, store: Store) -> None:
    name = await make_list(services)
    for language in ("", "fr-CA", "es"):
        await services.subscriptions.subscribe(name, f"u{language}@example.com", language=language)
    items = await store.queue(CONFIRM_QUEUE).peek(5)
    assert [dict(each.properties) for each in items] == [{}, {"language": "fr"}, {}]
