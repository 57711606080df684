"""The rate of two senders together, within an hour of virtual time, at a provider that accepts no
more than a certain number of emails within any second."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Coroutine, Iterator, Sequence
from itertools import cycle, islice
from operator import itemgetter
from random import Random
from typing import Any

import pytest

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.delivery.providers import Provider
from postroom.mail.mailing import Mailing, Recipient
from postroom.sender.limits.connection_share import shared_connections
from postroom.sender.limits.paced_sending import PacedSending
from postroom.sender.limits.provider_limits import ProviderLimits
from postroom.services.messages.sending.provider_directory import ProviderDirectory
from postroom.services.messages.sending.provider_rates import ProviderRateService
from postroom.transport.contract import (
    THROTTLED,
    ConnectionQuota,
    FaultScope,
    Result,
    ResultKind,
    Transport,
    Unwatched,
    Watcher,
)
from tests.services.mail.plain_mailing import PlainMailing
from tests.simulation.environment import EPOCH, SimulatedClock
from tests.simulation.loop import Process, SimulationLoop
from tests.simulation.memory.data import MemoryData
from tests.simulation.memory.store import MemoryStore

BIG = Provider("big.lan")
LIMIT = 30
MINUTE = 60.0
PAUSE = 2.0
"""Seconds in which a provider gets nothing after it has throttled us: its hold has no probe yet."""
_LATENCY = 0.02
_PAGE = 100
_WAITING = 300
_RESTART = 5.0
_ACCEPTED = Result(ResultKind.ACCEPTED, "250 OK")
_THROTTLED = Result(ResultKind.HELD, "421 4.7.28 slow down", FaultScope.PROVIDER, THROTTLED)


class Receiver(Transport):
    """Replies 421 to more than `LIMIT` emails for the provider within a second, and accepts
    everything else."""

    def __init__(self) -> None:
        self.held_until = 0.0
        self.accepted: Counter[int] = Counter()
        """Emails for the provider by minute, as those that it throttled."""
        self.throttled: Counter[int] = Counter()
        self._last: deque[float] = deque()

    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        await asyncio.sleep(_LATENCY)
        return [self._reply(each.address) for each in recipients]

    def _reply(self, address: Address) -> Result:
        now = clock.monotonic()
        if not address.endswith(f"@{BIG}"):
            return _ACCEPTED
        while self._last and self._last[0] <= now - 1.0:
            self._last.popleft()
        if len(self._last) >= LIMIT:
            self.throttled[int(now / MINUTE)] += 1
            self.held_until = now + PAUSE
            return _THROTTLED
        self._last.append(now)
        self.accepted[int(now / MINUTE)] += 1
        return _ACCEPTED

    def is_held(self, address: Address) -> bool:
        return address.endswith(f"@{BIG}") and clock.monotonic() < self.held_until

    async def check(self) -> str:
        return ""

    async def close(self) -> None:
        return


def recipients(number: int) -> Iterator[Recipient]:
    """Yield recipients without end; one of ten is elsewhere."""
    for place in cycle(range(1_000)):
        domain = "other.lan" if place % 10 == 9 else BIG
        yield Recipient(Address(f"user{number}x{place}@{domain}"), SubscriberGuid("guid"))


async def send_until(end: float, limits: ProviderLimits, receiver: Receiver, number: int) -> None:
    """Send page after page, as a sender does. Recipients without a slot come back at their time."""
    paced, fresh, mailing = PacedSending(), recipients(number), PlainMailing()
    waiting: list[tuple[float, Recipient]] = []

    async def send(
        some: Sequence[Recipient], watcher: Watcher, quota: ConnectionQuota | None
    ) -> list[Result]:
        results = await receiver.send(mailing, some, watcher, quota)
        for each, result in zip(some, results, strict=True):
            if result.is_throttling:
                limits.throttled(each.address, result)
        return results

    while clock.monotonic() < end:
        await asyncio.sleep(max(0.0, receiver.held_until - clock.monotonic()))
        now = clock.timestamp()
        waiting.sort(key=itemgetter(0))
        count = min(_PAGE, sum(at <= now for at, _ in waiting))
        page, waiting = [each for _, each in waiting[:count]], waiting[count:]
        if not page and len(waiting) >= _WAITING:
            await asyncio.sleep(waiting[0][0] - now)
            continue
        slots = await limits.admit(page or list(islice(fresh, _PAGE)))
        results = await paced.send(slots.parts, send, Unwatched(), receiver.is_held)
        # Those whose provider was held by their turn have no result; they are the last ones.
        addresses = [each.address for each in slots.recipients]
        await limits.conclude(dict(zip(addresses, results, strict=False)))
        waiting += [
            (at.timestamp(), Recipient(each, SubscriberGuid("guid")))
            for each, at in slots.later.items()
        ]


class World:
    """Senders with a store in common, in virtual time."""

    def __init__(self) -> None:
        self.loop = SimulationLoop(Random(1))  # type: ignore[abstract]
        self.data = MemoryData(lambda: EPOCH.timestamp() + self.loop.time())
        self.rates = ProviderRateService(MemoryStore(self.data))
        self.learned: dict[int, float] = {}
        """The rate that is known at the end of each minute."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        with clock.replaced_by(SimulatedClock(self.loop)):
            self.loop.run(self.loop.start(Process("senders", "one"), work))

    async def send(self, minutes: int, receiver: Receiver) -> None:
        """Send with two new senders, which know only what is in the store."""
        end = clock.monotonic() + minutes * MINUTE
        watching = asyncio.create_task(self._watch())
        await asyncio.gather(*(self._send(end, receiver, each) for each in range(2)))
        watching.cancel()

    async def _send(self, end: float, receiver: Receiver, number: int) -> None:
        store = MemoryStore(self.data)
        async with shared_connections(store, receiver, f"sender {number}", None):
            directory = ProviderDirectory(store, None)
            limits = ProviderLimits(store, ProviderRateService(store), directory)
            await send_until(end, limits, receiver, number)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(MINUTE)
            rate = await self.rates.get(BIG)
            self.learned[int(clock.monotonic() / MINUTE)] = rate.per_second(clock.timestamp()) or 0


def share(counts: Sequence[float], least: float, most: float) -> float:
    return sum(least <= each <= most for each in counts) / len(counts)


@pytest.mark.parametrize(
    ("known", "minutes", "settling"),
    [(None, 36, 5), (24.0, 50, 18)],
    ids=["from above", "from below"],
)
def test_two_senders_settle_within_a_fifth_of_the_limit_and_new_ones_begin_there(
    known: float | None, minutes: int, settling: int
) -> None:
    """From above: nothing is known, and the first emails go as fast as they can. From below: the
    provider once throttled 24 per second, which was halved. Throttling every quarter of an hour
    costs two minutes below the range."""
    world, receiver = World(), Receiver()
    if known is not None:
        world.run(world.rates.throttled(BIG, known, "421"))
    world.run(world.send(minutes, receiver))
    measured = sorted(receiver.accepted)[settling:-1]
    accepted = [receiver.accepted[each] / MINUTE for each in measured]
    offered = [(receiver.accepted[e] + receiver.throttled[e]) / MINUTE for e in measured]
    rates = [world.learned[each] for each in measured]
    least, most = 0.8 * LIMIT, 1.2 * LIMIT
    assert share(accepted, least, most) > 0.8, accepted
    assert sum(accepted) / len(accepted) >= least, accepted
    assert max(offered) <= most, "the provider has to throttle only what is a little too much"
    assert share(rates, least, most) > 0.8, rates

    kept, before = world.learned[max(world.learned)], receiver.throttled.total()
    world.run(asyncio.sleep(_RESTART))
    receiver.accepted.clear()
    world.run(world.send(3, receiver))
    assert receiver.throttled.total() == before, "the new senders began with too much at once"
    assert receiver.accepted.total() / (3 * MINUTE) >= 0.9 * kept, "the new senders began slowly"
