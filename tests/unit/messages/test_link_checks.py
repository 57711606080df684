"""Links are tried over real connections, and never lead to addresses that are not public."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from postroom.services.messages.checks import link_checks
from postroom.services.messages.checks.background_checks import BackgroundChecks
from postroom.services.messages.checks.link_checks import LinkTrial, is_public, web_links
from tests.services.waiting import BUSY

NAMES = {"site.contoso.com": ["127.0.0.1"], "inside.contoso.com": ["10.0.0.1"],
         "both.contoso.com": ["127.0.0.1", "192.168.1.1"]}  # fmt: skip


class WebServer:
    """A web server that has a response for each path, and remembers its requests."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, path, _ = (await reader.readline()).decode().split()
        self.asked.append(f"{method} {path}")
        answer = self.answers.get(f"{method} {path}") or self.answers.get(path, "404 Not Found")
        if answer == "hang":
            await reader.read()
        writer.write(f"HTTP/1.1 {answer}\r\n\r\n".replace("PORT", str(self.port)).encode())
        writer.close()


@asynccontextmanager
async def serving(answers: Mapping[str, str]) -> AsyncIterator[WebServer]:
    web = WebServer(answers)
    server = await asyncio.start_server(web.handle, "127.0.0.1", 0)
    web.port = server.sockets[0].getsockname()[1]
    try:
        yield web
    finally:
        server.close()


async def resolve(host: str, port: int) -> list[str]:
    if host not in NAMES:
        raise OSError("unknown")
    return NAMES[host]


def only_loopback(address: str, port: int) -> bool:
    """Treat our own server as the only public address."""
    return address == "127.0.0.1"


TRIAL = LinkTrial(resolve, only_loopback)


async def fault(web: WebServer, path: str, host: str = "site.contoso.com") -> str:
    return await TRIAL.fault(f"http://{host}:{web.port}{path}")


async def test_a_page_is_fine_however_it_is_reached() -> None:
    answers = {
        "/ok": "200 OK",
        "/moved": "301 Moved\r\nLocation: /ok",
        "HEAD /get-only": "405 No",
        "GET /get-only": "200 OK",
        "/login": "403 Forbidden",
        "/caf%C3%A9?q=%20x": "200 OK",
    }
    async with serving(answers) as web:
        for path in ("/ok", "/moved", "/get-only", "/login", "/café?q= x"):
            assert await fault(web, path) == "", path
    assert web.asked[:3] == ["HEAD /ok", "HEAD /moved", "HEAD /ok"]
    assert "GET /get-only" in web.asked


async def test_a_link_that_does_not_work_is_named_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_checks, "_SECONDS", 0.5 * BUSY)
    answers = {"/loop": "302 Found\r\nLocation: /loop", "/broken": "500 No", "/hang": "hang"}
    async with serving(answers) as web:
        assert await fault(web, "/gone") == "responds with status 404"
        assert web.asked == ["HEAD /gone", "GET /gone"]
        assert await fault(web, "/broken") == "responds with status 500"
        assert await fault(web, "/loop") == "redirects too often"
        assert "does not respond within" in await fault(web, "/hang")
        assert "does not exist" in await fault(web, "/", "nowhere.contoso.com")
        assert await TRIAL.fault("http://[nonsense") == "is not a valid address"


async def test_no_request_goes_to_an_address_that_is_not_public() -> None:
    redirects = {
        "/inside": "302 Found\r\nLocation: http://inside.contoso.com:PORT/secret",
        "/file": "302 Found\r\nLocation: file:///etc/passwd",
    }
    async with serving(redirects) as web:
        for host in ("inside.contoso.com", "both.contoso.com"):
            assert "not a public address" in await fault(web, "/", host)
        assert web.asked == []
        assert "not a public address" in await fault(web, "/inside")
        assert await fault(web, "/file") == "does not lead to a website"
    assert web.asked == ["HEAD /inside", "HEAD /file"]


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "0.1.2.3", "::1",
     "fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "224.0.0.1",
     "100.64.0.1", "64:ff9b:1::7f00:1", "fec0::1", "::127.0.0.1", "::ffff:0:127.0.0.1"],
)  # fmt: skip
def test_private_addresses_are_not_public(address: str) -> None:
    assert not is_public(address, 443)


def test_public_addresses_are_public_on_web_ports() -> None:
    assert is_public("93.184.216.34", 80)
    assert is_public("2606:2800:220:1::1", 443)
    assert not is_public("93.184.216.34", 25)


async def test_a_real_lookup_of_this_machine_is_refused() -> None:
    trial = LinkTrial()
    assert "not a public address" in await trial.fault("http://localhost/")
    assert "not a public address" in await trial.fault("http://127.1/")
    trial.close()


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".contoso.com", ".contoso.com"])
async def test_a_host_that_cannot_exist_is_a_fault(host: str) -> None:
    trial = LinkTrial()
    assert "does not exist" in await trial.fault(f"http://{host}/")
    trial.close()


async def test_a_redirect_to_nonsense_is_a_fault() -> None:
    async with serving({"/away": "302 Found\r\nLocation: http://["}) as web:
        assert await fault(web, "/away") == "redirects to an address that is not valid"


async def test_slow_lookups_keep_no_other_thread_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_checks, "_SECONDS", 0.1)
    gate = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: gate.wait(30.0 * BUSY))
    trial = LinkTrial()
    links = [f"http://{number}.contoso.com/" for number in range(40)]
    try:
        faults = await asyncio.gather(*map(trial.fault, links))
        assert all("does not respond within" in each for each in faults)
        async with asyncio.timeout(5.0 * BUSY):
            assert await asyncio.to_thread(lambda: "free") == "free"
    finally:
        gate.set()
        trial.close()


def test_certificates_are_read_once() -> None:
    assert link_checks._tls() is link_checks._tls()


def test_only_other_websites_are_tried() -> None:
    links = ["https://a.contoso.com/", "mailto:x@y.z", "#top", " https://a.contoso.com/",
             "https://own.contoso.com/unsubscribe", "http://[x"]  # fmt: skip
    assert web_links(links, "own.contoso.com") == ["https://a.contoso.com/", "http://[x"]


async def test_checks_run_in_the_background_once_and_are_remembered() -> None:
    asked: list[str] = []
    gate = asyncio.Event()

    async def check(name: str) -> str:
        asked.append(name)
        await gate.wait()
        return name.upper()

    checks = BackgroundChecks(check)
    checks.start(["a", "b"])
    checks.start(["a"])
    await checks.wait(["a", "b"], 0.01)
    assert checks.results(["a", "b"]) == {}
    assert checks.waiting(["a", "b", "c"]) == 2
    gate.set()
    await checks.wait(["a", "b"], 5.0 * BUSY)
    assert checks.results(["a", "b"]) == {"a": "A", "b": "B"}
    checks.start(["a"])
    assert checks.waiting(["a"]) == 0
    assert asked == ["a", "b"]
    gate.clear()
    checks.start(["c"])
    await checks.close()
    assert checks.waiting(["c"]) == 0


async def test_a_result_that_is_not_remembered_is_checked_again() -> None:
    asked: list[str] = []

    async def check(name: str) -> str:
        asked.append(name)
        return name

    checks = BackgroundChecks(check, remembered=0.0)
    for _ in range(2):
        checks.start(["a"])
        await checks.wait(["a"], 5.0 * BUSY)
    assert asked == ["a", "a"]


async def test_a_server_that_ignores_head_requests_is_asked_with_get() -> None:
    class Rude(WebServer):
        async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if (await reader.readline()).startswith(b"GET"):
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            writer.close()

    web = Rude({})
    server = await asyncio.start_server(web.handle, "127.0.0.1", 0)
    web.port = server.sockets[0].getsockname()[1]
    async with server:
        assert await fault(web, "/rude") == ""


async def test_a_host_with_a_dead_address_is_reached_at_its_next_one() -> None:
    async def resolve_both(host: str, port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    trial = LinkTrial(resolve_both, lambda address, port: True)
    async with serving({"/ok": "200 OK"}) as web:
        assert await trial.fault(f"http://dual.contoso.com:{web.port}/ok") == ""
        port = web.port
    assert "does not respond" in await trial.fault(f"http://dual.contoso.com:{port}/ok")
