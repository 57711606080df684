"""Connections to a mail server are shared by all senders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postroom import hosted
from postroom.domain.messages.delivery.bounces import BOUNCE_QUEUE
from postroom.domain.messages.hits import HIT_QUEUE
from postroom.sender.limits import connection_share
from postroom.sender.limits.connection_share import PARTITION, count_senders, shared_connections
from postroom.sender.limits.stored_limits import TABLE
from postroom.storage import Entity, KeyRange, Store, StoreOutage, open_store
from postroom.transport.contract import Transport
from postroom.transport.registry import open_transport
from postroom.transport.smtp.smtp_transport import SmtpTransport
from tests.integration.usecases.faults import Fate, Fated
from tests.services.mail.plain_mailing import Notes, PlainMailing, many
from tests.services.mail.recording_smtp import RecordingSmtp, running_recording_smtp
from tests.services.waiting import until

App = Callable[[asyncio.Event, Callable[[bool], None]], Awaitable[None]]


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


async def test_everyone_has_one_connection_at_least(store: Store, tmp_path: Path) -> None:
    now = datetime.now(UTC) + timedelta(minutes=5)
    for number in range(5):
        await store.table(TABLE).insert(Entity(PARTITION, f"other{number}", {"At": now}))
    with running_recording_smtp() as server:
        async with (
            transport_to(server, tmp_path) as transport,
            shared_connections(store, transport, "we", 2),
        ):
            assert await connections_of(transport) == 1


async def test_a_sender_that_starts_in_an_outage_begins_with_one_connection(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_share, "_EVERY", 0.05)
    is_down = True

    async def fail() -> None:
        if is_down:
            raise StoreOutage("the store does not answer")

    fated = Fated(store, Fate(before=dict.fromkeys(range(1, 100_000), fail)))
    with running_recording_smtp(delay=0.01) as server:
        async with (
            transport_to(server, tmp_path) as transport,
            shared_connections(fated, transport, "we", 4),
        ):
            assert await connections_of(transport) == 1
            is_down = False
            await until_it_uses(transport, 4)


async def test_senders_without_a_common_limit_are_counted(store: Store, tmp_path: Path) -> None:
    with running_recording_smtp(delay=0.01) as server:
        async with (
            transport_to(server, tmp_path) as one,
            transport_to(server, tmp_path) as two,
            shared_connections(store, one, "one", None),
            shared_connections(store, two, "two", None),
        ):
            assert await count_senders(store) == 2
            await until_it_uses(one, 8)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a worker process with the same store."""
    monkeypatch.setattr(hosted, "set_up_observability", lambda *_, **__: None)
    monkeypatch.setenv("POSTROOM_DATA", str(tmp_path))
    monkeypatch.setenv("POSTROOM_STORE", f"sqlite:///{tmp_path}/postroom.db")
    monkeypatch.setenv("POSTROOM_TRANSPORT", "outbox:")


async def signs_of_life(store: Store) -> int:
    return len([row async for row in store.table(TABLE).scan(KeyRange.only(PARTITION))])


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("serve", [hosted.serve_sender, hosted.serve_confirmations])
async def test_parts_that_send_count_as_senders(serve: App, store: Store) -> None:
    stopping = asyncio.Event()
    running = asyncio.ensure_future(serve(stopping, lambda _: None))

    async def is_counted() -> bool:
        return running.done() or await signs_of_life(store) == 1

    await until(is_counted, "it counts as a sender")
    stopping.set()
    await running
    assert await signs_of_life(store) == 0


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("serve", "queue"), [(hosted.serve_hits, HIT_QUEUE), (hosted.serve_bounces, BOUNCE_QUEUE)]
)
async def test_parts_that_only_record_do_not(serve: App, queue: str, store: Store) -> None:
    await store.queue(queue).put("nonsense, which is set aside")
    stopping = asyncio.Event()
    running = asyncio.ensure_future(serve(stopping, lambda _: None))

    async def has_worked() -> bool:
        return running.done() or (await store.queue(queue).info()).length == 0

    await until(has_worked, "it has worked")
    found = await signs_of_life(store)
    stopping.set()
    await running
    assert found == 0
    assert len(await store.queue(f"{queue};poison").peek(2)) == 1
