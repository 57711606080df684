"""Senders in front of a mail server that throttles a provider, and how emails flow there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import dns.asyncresolver
import pytest

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.delivery.adaptive_rates import AdaptiveRate
from postroom.domain.messages.delivery.providers import Provider
from postroom.scheduler import Scheduler
from postroom.sender import Sender, SenderSettings
from postroom.sender.limits.provider_limits import ProviderLimits
from postroom.sender.limits.sending_limits import SendingLimits
from postroom.services import entities
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.services.messages.domains.dns_lookups import DnsLookups
from postroom.services.messages.sending.provider_directory import ProviderDirectory
from postroom.storage import Insert
from postroom.transport.registry import open_transport
from postroom.wiring import Services
from tests.services.mail.recording_smtp import RecordingSmtp, Rule
from tests.services.waiting import BUSY

only_sqlite = pytest.mark.parametrize("engine", ["sqlite"])

BIG = Provider("big.lan")
LIMIT = 30
MINUTE = 0.5
"""Seconds that count as a clean minute here."""
PAUSE = 0.2
"""Seconds between two emails that are more than there are between the slots of such rates."""
AT_BIG = ("@one.lan", "@two.lan")
MAIL_SERVERS = {"one.lan MX": ["10 mx1.big.lan."], "two.lan MX": ["10 mx2.big.lan."]}
THROTTLING = Rule(
    "RCPT", r"@(one|two)\.lan$", "421 4.7.28 unusual rate of mail", drop=True, above=LIMIT
)


async def fill(services: Services, name: ListName, *addresses: str) -> None:
    table = services.store.table(entities.LISTS)
    for start in range(0, len(addresses), 40):
        operations = []
        for each in addresses[start : start + 40]:
            made = new_subscriber(name, Address(each), verified=True)
            operations += [Insert(entities.subscriber_entity(made))]
            operations += [Insert(entities.lookup_entity(made))]
        await table.apply(operations)


@asynccontextmanager
async def sending(
    services: Services,
    server: RecordingSmtp,
    folder: Path,
    resolver: dns.asyncresolver.Resolver | None = None,
) -> AsyncIterator[None]:
    """Send with its own scheduler and sender."""
    transport = open_transport(server.url, folder=folder)
    directory = ProviderDirectory(
        services.store, None if resolver is None else DnsLookups(resolver)
    )
    limits = ProviderLimits(services.store, services.provider_rates, directory, minute=MINUTE)
    settings = SenderSettings("http://localhost", folder / "journals")
    sender = Sender(services, transport, settings, SendingLimits(providers=limits))
    stopping = asyncio.Event()
    parts = [Scheduler(services, lease_seconds=5).run(stopping), sender.run(stopping)]
    running = [asyncio.create_task(part) for part in parts]
    try:
        yield
    finally:
        stopping.set()
        await asyncio.wait_for(asyncio.gather(*running), 60 * BUSY)
        await transport.close()


async def learned(services: Services, provider: Provider = BIG) -> AdaptiveRate:
    rate = (await services.provider_rates.get(provider)).learned
    assert rate is not None
    return rate


def accepted_at(server: RecordingSmtp, domains: tuple[str, ...]) -> list[float]:
    return [each.at for each in server.received() if each.recipients[0].endswith(domains)]


class Flow:
    """How emails were accepted one after the other, at these times."""

    def __init__(self, times: list[float]) -> None:
        self.count = len(times)
        self.began_at = times[0] if times else 0.0
        self.seconds = times[-1] - times[0] if times else 0.0
        self.paused = sum(max(0.0, later - each - PAUSE) for each, later in pairwise(times))

    @property
    def is_steady(self) -> bool:
        """Whether it paused for less than half of the time: a machine may stall for seconds, and a
        provider that has just throttled gets nothing for two seconds."""
        return self.count > 1 and self.paused < self.seconds / 2

    @property
    def per_second(self) -> float:
        """The emails per second while it did not pause. The first one begins the time."""
        return (self.count - 1) / (self.seconds - self.paused)
