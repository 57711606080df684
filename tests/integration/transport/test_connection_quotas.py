"""Emails per connection and provider: how many emails to a provider one connection carries."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from postroom.mail.mailing import Recipient
from postroom.transport.contract import ConnectionQuota, Result, ResultKind, Transport
from postroom.transport.registry import open_transport
from tests.services.mail.plain_mailing import Notes, PlainMailing, kinds, recipients
from tests.services.mail.recording_smtp import RecordingSmtp, Rule, running_recording_smtp

YAHOO = ConnectionQuota("yahoo.com", 20)
APPLE = ConnectionQuota("icloud.com", 5)
CONNECTIONS = 4


@asynccontextmanager
async def transport_to(*urls: str) -> AsyncIterator[Transport]:
    transport = open_transport(",".join(urls), folder=Path("unused"), connections=CONNECTIONS)
    try:
        yield transport
    finally:
        await transport.close()


def people(domain: str, count: int, start: int = 0) -> list[Recipient]:
    return recipients(*(f"user{start + number}@{domain}" for number in range(count)))


async def send(
    transport: Transport, some: Sequence[Recipient], quota: ConnectionQuota | None = None
) -> list[Result]:
    return await transport.send(PlainMailing(), some, Notes(), quota)


def carried(server: RecordingSmtp, domain: str) -> Counter[str]:
    """How many emails to a domain each connection carried."""
    received = server.received()
    return Counter(e.connection for e in received if e.recipients[0].endswith(f"@{domain}"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("pipelining", [True, False])
async def test_a_connection_carries_no_more_emails_to_a_provider_than_its_quota(
    pipelining: bool,
) -> None:
    with running_recording_smtp(pipelining=pipelining, keep_content=False) as server:
        async with transport_to(server.url) as transport:
            results = await asyncio.gather(
                send(transport, people("yahoo.com", 100), YAHOO),
                send(transport, people("free.fr", 300)),
                send(transport, people("icloud.com", 23), APPLE),
                send(transport, people("yahoo.com", 50, 100), YAHOO),
            )
        assert {each.kind for some in results for each in some} == {ResultKind.ACCEPTED}
        assert set(server.copies().values()) == {1}
        assert len(server.copies()) == 473
        assert max(carried(server, "yahoo.com").values()) <= YAHOO.emails
        assert max(carried(server, "icloud.com").values()) <= APPLE.emails
        # Each reconnection belongs to a quota that was used up.
        assert server.connections() <= CONNECTIONS + 150 // YAHOO.emails + 23 // APPLE.emails


@pytest.mark.timeout(120)
async def test_emails_without_a_quota_stay_on_their_connections() -> None:
    with running_recording_smtp(keep_content=False) as server:
        async with transport_to(server.url) as transport:
            await send(transport, people("yahoo.com", 19), YAHOO)
            for start in range(0, 600, 100):
                await send(transport, people("free.fr", 100, start))
        assert server.connections() <= CONNECTIONS


@pytest.mark.timeout(120)
async def test_a_quota_counts_on_connections_that_were_open_before_it() -> None:
    with running_recording_smtp(keep_content=False) as server:
        async with transport_to(f"{server.url}?connections=1") as transport:
            await send(transport, people("yahoo.com", 30))
            assert server.connections() == 1
            await send(transport, people("yahoo.com", 40, 30), YAHOO)
            assert list(carried(server, "yahoo.com").values()) == [50, 20]
            await send(transport, people("yahoo.com", 1, 70), YAHOO)
        assert server.connections() == 3


@pytest.mark.timeout(120)
async def test_a_server_s_own_limit_counts_all_providers_together() -> None:
    with running_recording_smtp(keep_content=False) as server:
        async with transport_to(
            f"{server.url}?connections=1&emails_per_connection=10"
        ) as transport:
            for start in range(0, 12, 4):
                await send(transport, people("icloud.com", 4, start), APPLE)
                await send(transport, people("free.fr", 4, start))
        assert max(carried(server, "icloud.com").values()) <= APPLE.emails
        everything = Counter(each.connection for each in server.received())
        assert max(everything.values()) <= 10
        assert sum(everything.values()) == 24


@pytest.mark.timeout(120)
async def test_servers_that_share_emails_keep_to_a_quota_each() -> None:
    with (
        running_recording_smtp(keep_content=False) as one,
        running_recording_smtp(keep_content=False) as two,
    ):
        async with transport_to(f"{one.url}?weight=1", f"{two.url}?weight=1") as transport:
            results = await send(transport, people("icloud.com", 60), APPLE)
            assert kinds(results) == [ResultKind.ACCEPTED] * 60
        for server in (one, two):
            by_connection = carried(server, "icloud.com")
            assert sum(by_connection.values()) == 30
            assert max(by_connection.values()) <= APPLE.emails


@pytest.mark.timeout(120)
async def test_refused_and_deferred_emails_count_and_nobody_is_lost_with_a_connection() -> None:
    rules = (
        Rule("RCPT", r"[05]@icloud", "550 5.1.1 unknown user"),
        Rule("RCPT", r"3@icloud", "450 4.2.1 busy"),
        Rule("end", r"user7@", drop=True),
    )
    with running_recording_smtp(*rules, keep_content=False) as server:
        async with transport_to(server.url) as transport:
            results = await send(transport, people("icloud.com", 50), APPLE)
        found = Counter(kinds(results))
        assert found[ResultKind.REFUSED] == 10
        assert found[ResultKind.DEFERRED] == 5
        assert found[ResultKind.IN_DOUBT] == 1
        assert found[ResultKind.ACCEPTED] == 34
        assert server.connections() >= 50 // APPLE.emails
        assert max(carried(server, "icloud.com").values()) <= APPLE.emails
