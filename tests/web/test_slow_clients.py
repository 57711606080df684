"""Clients that send half of a request, or open connections without end, over real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import httpx2
import msgspec
import pytest

from postroom.services.messages.message_contents import NewBodies
from postroom.web.serving.connection_guard import ConnectionLimits
from tests.web.site import Site, running_site

QUICK = ConnectionLimits(
    overall=150,
    per_client=40,
    head_seconds=0.6,
    body_seconds=0.6,
    body_rate=2000,
    stalled_seconds=0.6,
    check_seconds=0.1,
)
PATIENT = ConnectionLimits(overall=150, per_client=40)
ATTACKERS = 330
HALVES = {
    "nothing": b"",
    "request line": b"GET /healt",
    "headers": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n",
    "body": b"POST /subscribe HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\nemail=",
    "chunks": b"POST /api/v1/subscribe HTTP/1.1\r\nHost: a\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
}
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(site: Site, sent: bytes = b"") -> Connection:
    port = httpx2.URL(site.url).port
    assert port is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def until_closed(reader: asyncio.StreamReader, seconds: float) -> bytes:
    """What the server sends until it closes the connection; fails if it does not."""
    async with asyncio.timeout(seconds):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def attack(site: Site, count: int, sent: bytes) -> AsyncIterator[list[Connection]]:
    opened = [await connect(site, sent) for _ in range(count)]
    try:
        yield opened
    finally:
        for _, writer in opened:
            writer.close()


async def closed(connections: list[Connection], least: int = 1) -> bool:
    """Return whether the server closes at least so many connections. None: look for a second."""
    ends = {asyncio.create_task(until_closed(reader, 60)) for reader, _ in connections}
    still_open, rounds = ends, 1 if least == 1 else 30
    for _ in range(rounds):
        _, still_open = await asyncio.wait(still_open, timeout=1)
        if len(ends) - len(still_open) >= least:
            break
    for each in still_open:
        each.cancel()
    return len(ends) - len(still_open) >= least


async def healthz(site: Site) -> int:
    async with httpx2.AsyncClient(base_url=site.url, timeout=60) as http:
        return (await http.get("/healthz")).status_code


@pytest.mark.parametrize("half", HALVES)
async def test_half_a_request_is_closed_after_a_while(tmp_path: Path, half: str) -> None:
    async with running_site(tmp_path, limits=QUICK) as site:
        start = monotonic()
        reader, writer = await connect(site, HALVES[half])
        answer = await until_closed(reader, 60)
        assert monotonic() - start > 0.3
        writer.close()
        # Without a key it is refused at once; and who has asked for nothing gets no answer.
        expected = {"chunks": b"HTTP/1.1 401 ", "nothing": b""}.get(half, b"HTTP/1.1 408 ")
        assert answer.startswith(expected)
        assert answer.count(b"HTTP/1.1") == (half != "nothing")


@pytest.mark.parametrize("half", ["request line", "headers", "body"])
async def test_a_client_that_trickles_bytes_cannot_keep_a_connection(
    tmp_path: Path, half: str
) -> None:
    async with running_site(tmp_path, limits=QUICK) as site:
        reader, writer = await connect(site, HALVES[half])
        end = asyncio.create_task(until_closed(reader, 60))
        for _ in range(1200):
            if end.done():
                break
            writer.write(b"x")
            await asyncio.sleep(0.05)
        assert end.done()
        await end
        writer.close()


@pytest.mark.parametrize("half", ["nothing", "headers", "body"])
async def test_the_server_responds_while_one_client_holds_hundreds_of_connections(
    tmp_path: Path, half: str
) -> None:
    async with (
        running_site(tmp_path, limits=PATIENT) as site,
        attack(site, ATTACKERS, HALVES[half]) as opened,
    ):
        assert await healthz(site) == 200
        assert (await site.visitor().get("/login")).status_code == 200
        assert await closed(opened, least=ATTACKERS - PATIENT.per_client)


async def test_requests_that_are_not_http_do_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    upgrade = (
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    async with running_site(tmp_path, limits=QUICK) as site:
        for sent, status in ((b"\x16\x03\x01\r\n\r\n", b"400"), (upgrade, b"200")):
            for _ in range(20):
                reader, writer = await connect(site, sent)
                assert (await until_closed(reader, 60)).startswith(b"HTTP/1.1 " + status)
                writer.close()
    assert len(caplog.records) <= 1, caplog.text


async def test_connections_that_are_at_work_are_not_given_up(tmp_path: Path) -> None:
    limits = ConnectionLimits(overall=150, per_client=3)
    async with running_site(tmp_path, limits=limits) as site:
        user = await site.user()
        cookie = f"{site.context.cookies.session}={user.session}"
        await site.services.lists.create("news", "News", "news@example.org")
        later = datetime.now(UTC) + timedelta(days=1)
        message = await site.services.messages.create("news", "Hello", NewBodies("Hi"), later)
        path = f"/messages/{message.ref}/events"  # goes on and on
        live = f"GET {path} HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n".encode()
        streams = [await connect(site, live) for _ in range(3)]
        for reader, _ in streams:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        more, writer = await connect(site, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await until_closed(more, 60))[:12] in (b"HTTP/1.1 503", b"")
        assert not await closed(streams)
        for _, each in [*streams, (more, writer)]:
            each.close()


async def test_a_trusted_proxy_may_have_more_connections_than_one_client(tmp_path: Path) -> None:
    settings = {"trusted_proxies": "127.0.0.1"}
    async with (
        running_site(tmp_path, settings, PATIENT) as site,
        attack(site, PATIENT.per_client + 20, HALVES["headers"]) as opened,
    ):
        assert await healthz(site) == 200
        assert not await closed(opened)


async def test_a_client_that_does_not_read_its_response_is_disconnected(tmp_path: Path) -> None:
    async with running_site(tmp_path, limits=QUICK) as site:
        port = httpx2.URL(site.url).port
        asked = b"GET /static/vendor/htmx.min.js HTTP/1.1\r\nHost: a\r\n\r\n"
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)

        async def ask_on() -> None:
            """The answers fill every buffer on the way, as nobody reads them."""
            while True:
                writer.write(asked * 20)
                await writer.drain()

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(ask_on(), 60)
        writer.close()
        assert await healthz(site) == 200


async def test_a_slow_but_honest_upload_is_taken(tmp_path: Path) -> None:
    """Longer than `body_seconds`, with enough bytes per second."""
    async with running_site(tmp_path, limits=QUICK) as site:
        key = (await site.services.keys.create("import")).secret
        await site.services.lists.create("news", "News", "news@example.org")

        async def lines() -> AsyncIterator[bytes]:
            yield b"email,name\n"
            name = b"x" * 100  # ten times `body_rate`: a busy machine is not too slow either
            for number in range(15):
                await asyncio.sleep(0.1)
                yield b"".join(b"u%d-%d@example.com,%s\n" % (number, n, name) for n in range(20))

        async with httpx2.AsyncClient(base_url=site.url, timeout=60) as http:
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "text/csv"}
            answer = await http.post("/api/v1/lists/news/import", content=lines(), headers=headers)
        assert answer.status_code == 200, answer.text
        assert json.loads(answer.text)["added"] == 300


async def test_a_reused_connection_gets_the_full_time_again(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(QUICK, head_seconds=4.0, body_seconds=4.0)
    async with running_site(tmp_path, limits=limits) as site:
        reader, writer = await connect(site)
        for _ in range(4):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            while (await reader.readline()).strip():
                pass
            await reader.readexactly(len('{"status":"ok"}'))
            await asyncio.sleep(1.2)
        writer.close()
