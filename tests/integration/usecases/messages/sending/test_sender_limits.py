"""Rate limits in a store: no slot is granted twice, and transports keep to them."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from postroom.mail.mailing import Mailing, Recipient
from postroom.sender.limits.domain_limits import DomainLimits
from postroom.sender.limits.email_rates import DomainRates, EmailRate, reserve
from postroom.sender.limits.pacing import PacedTransport
from postroom.sender.limits.stored_limits import (
    DOMAIN,
    OVERALL,
    TABLE,
    Found,
    Moments,
    StoredLimits,
)
from postroom.storage import Store
from postroom.transport.contract import ConnectionQuota, Result, ResultKind, Transport, Watcher
from tests.contract.conftest import address, engine, other_store, store
from tests.services.mail.plain_mailing import Notes, PlainMailing, kinds, many, recipients

__all__ = ["address", "engine", "other_store", "store"]

NOW = 1_800_000_000.0
only_sqlite = pytest.mark.parametrize("engine", ["sqlite"])


class Keeping(Transport):
    """Accepts everything, and notes when."""

    def __init__(self) -> None:
        self.batches: list[tuple[float, list[str]]] = []

    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        at = asyncio.get_running_loop().time()
        self.batches.append((at, [each.address for each in recipients]))
        results = [Result(ResultKind.ACCEPTED, each.address) for each in recipients]
        for position, result in enumerate(results):
            watcher.handing_over(position)
            watcher.settled(position, result)
        return results

    async def check(self) -> str:
        return "kept"

    async def close(self) -> None:
        pass


@pytest.mark.timeout(120)
async def test_no_slot_is_given_twice_although_many_ask_at_once(
    store: Store, other_store: Store
) -> None:
    def take(found: Found) -> tuple[Found, float]:
        slots = reserve(EmailRate(10), found[OVERALL].used_up, 5, NOW)
        return {OVERALL: Moments(slots.used_up)}, slots.used_up

    askers = [StoredLimits(each, OVERALL) for each in (store, other_store, store, other_store)]
    given = await asyncio.gather(*(each.change([OVERALL], take) for each in askers * 10))

    assert sorted(given) == pytest.approx([NOW + 0.5 * (n + 1) for n in range(40)], abs=1e-3)


async def test_a_hundred_domains_are_changed_with_one_write(store: Store) -> None:
    limits = DomainLimits(store, DomainRates({}, EmailRate(1)), lambda: NOW)
    some = recipients(*(f"anna@domain{number}.example" for number in range(100)))

    assert await limits.admit(some) == (some, {})
    going, later = await limits.admit([*some[:1], *recipients("bert@other.example")])

    assert [each.address for each in going] == ["bert@other.example"]
    assert later == {some[0].address: datetime.fromtimestamp(NOW + 1, UTC)}


@only_sqlite
async def test_without_a_limited_recipient_the_store_is_not_asked(store: Store) -> None:
    limits = DomainLimits(store, DomainRates({"slow.example": EmailRate(1)}))
    some = many(100)
    assert await limits.admit(some) == (some, {})
    assert TABLE not in await store.tables()


@only_sqlite
async def test_an_internationalised_domain_is_known_in_both_spellings(store: Store) -> None:
    limits = DomainLimits(store, DomainRates({"xn--bcher-kva.example": EmailRate(1)}), lambda: NOW)
    await limits.admit(recipients("anna@bücher.example"))
    row = await store.table(TABLE).get(DOMAIN, "xn--bcher-kva.example")
    assert row is not None
    assert row.properties["UsedUpAt"] == datetime.fromtimestamp(NOW + 1, UTC)


@only_sqlite
async def test_a_page_with_no_email_that_may_be_sent_waits_for_a_moment_if_that_helps(
    store: Store,
) -> None:
    # Its clock stands still: on a busy machine the pause might be over before it is begun.
    limits = DomainLimits(store, DomainRates({"slow.example": EmailRate(4)}), lambda: NOW)
    some = recipients(*(f"user{number}@slow.example" for number in range(12)))
    going, later = await limits.admit(some)
    assert (len(going), len(later)) == (4, 8)
    loop = asyncio.get_running_loop()
    started = loop.time()
    going, later = await limits.admit(some[4:])
    assert loop.time() - started > 0.5
    assert (len(going), len(later)) == (4, 4)


@only_sqlite
async def test_a_paced_batch_goes_in_chunks_each_at_its_time(store: Store) -> None:
    keeping, notes = Keeping(), Notes()
    paced = PacedTransport(keeping, store, EmailRate(40))
    some = many(75)

    start = asyncio.get_running_loop().time()
    results = await paced.send(PlainMailing(), some, notes)

    assert [result.reply for result in results] == [each.address for each in some]
    assert {position: result.reply for position, result in notes.settled_as.items()} == {
        position: each.address for position, each in enumerate(some)
    }
    assert [len(batch) for _, batch in keeping.batches] == [10] * 7 + [5]
    waited = [at - start for at, _ in keeping.batches]
    least = [0, 0, 0, 0, 0.25, 0.5, 0.75, 0.87]
    assert all(real > wanted - 0.05 for real, wanted in zip(waited, least, strict=True))
    assert waited[-1] < 20


@only_sqlite
async def test_a_paced_batch_that_is_cancelled_hands_over_nothing_more(store: Store) -> None:
    keeping, notes = Keeping(), Notes()
    paced = PacedTransport(keeping, store, EmailRate(4))
    first = asyncio.create_task(paced.send(PlainMailing(), many(40), notes))
    second = asyncio.create_task(paced.send(PlainMailing(), recipients("next"), Notes()))
    async with asyncio.timeout(60):
        while len(notes.handed_over) < 4:  # noqa: ASYNC110 - the transport has no event for it
            await asyncio.sleep(0.05)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    handed_over = len(notes.handed_over)
    assert 4 <= handed_over < 40
    assert set(notes.handed_over) == set(notes.settled_as)

    async with asyncio.timeout(30):
        assert kinds(await second) == [ResultKind.ACCEPTED]
    assert len(notes.handed_over) == handed_over
