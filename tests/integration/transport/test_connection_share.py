"""Connections to a mail server are shared by all senders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom.sender.limits.connection_share import PARTITION, shared_connections
from postroom.sender.limits.stored_limits import TABLE
from postroom.storage import Entity, Store, open_store
from postroom.transport.contract import Transport
from postroom.transport.registry import open_transport
from postroom.transport.smtp.smtp_transport import SmtpTransport
from tests.services.plain_mailing import Notes, PlainMailing, many
from tests.services.recording_smtp import RecordingSmtp, running_recording_smtp


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await open_store(f"sqlite:///{tmp_path}/postroom.db") as opened:
        yield opened


@asynccontextmanager
async def transport_to(server: RecordingSmtp, tmp_path: Path) -> AsyncIterator[Transport]:
    transport = open_transport(server.url, folder=tmp_path, connections=8)
    try:
        yield transport
    finally:
        await transport.close()


async def connections_of(transport: Transport) -> int:
    """How many it uses for more work than it has connections."""
    assert isinstance(transport, SmtpTransport)
    for _ in range(3):  # the first one is opened alone, and those too many end after their work
        await transport.send(PlainMailing(), many(40), Notes())
    return transport.open_connections


async def until_it_uses(transport: Transport, count: int) -> None:
    for _ in range(100):
        if await connections_of(transport) == count:
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"it uses {await connections_of(transport)}, not {count}")


async def test_each_of_two_senders_takes_half(store: Store, tmp_path: Path) -> None:
    with running_recording_smtp(delay=0.01) as server:
        async with (
            transport_to(server, tmp_path) as one,
            transport_to(server, tmp_path) as two,
            shared_connections(store, one, "one", 6),
        ):
            await until_it_uses(one, 6)
            async with shared_connections(store, two, "two", 6):
                assert await connections_of(two) <= 3, "from the beginning"
                await until_it_uses(one, 3)
                await until_it_uses(two, 3)
            await until_it_uses(one, 6)


async def test_a_sender_that_died_counts_no_more(store: Store, tmp_path: Path) -> None:
    dead = datetime.now(UTC) - timedelta(hours=1)
    await store.table(TABLE).insert(Entity(PARTITION, "dead", {"At": dead}))
    with running_recording_smtp(delay=0.01) as server:
        async with (
            transport_to(server, tmp_path) as transport,
            shared_connections(store, transport, "alive", 4),
        ):
            await until_it_uses(transport, 4)
    assert await store.table(TABLE).get(PARTITION, "dead") is None
    assert await store.table(TABLE).get(PARTITION, "alive") is None


async def test_everybody_has_one_connection_at_least(store: Store, tmp_path: Path) -> None:
    now = datetime.now(UTC) + timedelta(minutes=5)
    for number in range(5):
        await store.table(TABLE).insert(Entity(PARTITION, f"other{number}", {"At": now}))
    with running_recording_smtp() as server:
        async with (
            transport_to(server, tmp_path) as transport,
            shared_connections(store, transport, "we", 2),
        ):
            assert await connections_of(transport) == 1
