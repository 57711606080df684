"""Files that are made to harm: a real server and a real command stay small, and stop in time."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from tests.services.postroom import CommandLine
from tests.services.waiting import BUSY, accepts_connections, free_ports, wait_until

MB = 1024 * 1024
MOST_GROWTH = 64 * MB
EDITOR, PASSWORD = "eve@contoso.example", "a very long pass phrase of Eve"


@dataclass(frozen=True)
class Server:
    """`postroom web` as a process, and what it takes to call it."""

    cli: CommandLine
    process: subprocess.Popen[bytes]
    port: int
    key: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reset_peak(self) -> int:
        """Forget the peak so far; return the memory in use."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self._memory("VmRSS")

    def peak(self) -> int:
        return self._memory("VmHWM")

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def import_by_api(self, file: Path) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "text/csv"}
        with file.open("rb") as body:
            url = f"{self.url}/api/v1/lists/news/import"
            return httpx2.post(url, content=body, headers=headers, timeout=60 * BUSY)

    def import_by_page(self, browser: httpx2.Client, file: Path) -> str:
        """Upload, and return the page that shows how the check of the file ended."""
        token = _csrf(browser, "/lists/news/import")
        with file.open("rb") as upload:
            shown = browser.post("/lists/news/import", data={"csrf": token}, files={"file": upload})
        assert shown.status_code == 200, shown.text
        for _ in range(600 * BUSY):
            if 'hx-trigger="every' not in shown.text:
                return shown.text
            time.sleep(0.1)
            shown = browser.get(str(shown.url))
        raise TimeoutError("the import did not end")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024


def _csrf(browser: httpx2.Client, path: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', browser.get(path).text)
    assert found is not None
    return found[1]


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    made = CommandLine(tmp_path)
    made.ok("list", "create", "news", "--description", "The news", "--from", "news@contoso.com")
    return made


@pytest.fixture
def server(cli: CommandLine) -> Iterator[Server]:
    cli.ok("user", "add", EDITOR, "--password-stdin", stdin=PASSWORD.encode())
    key = cli.json("apikey", "create")["key"]
    [port] = free_ports(1)
    process = cli.start("web", "--port", str(port))
    try:
        wait_until(lambda: accepts_connections(port), seconds=60, what="the web server")
        yield Server(cli, process, port, key)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def browser(server: Server) -> Iterator[httpx2.Client]:
    """A logged-in browser."""
    with httpx2.Client(base_url=server.url, follow_redirects=True, timeout=60) as made:
        fields = {"email": EDITOR, "password": PASSWORD, "csrf": _csrf(made, "/login")}
        assert made.post("/login", data=fields).status_code == 200
        yield made


@pytest.fixture
def one_long_line(cli: CommandLine) -> Path:
    """A single line, and good ones before and after it."""
    path = cli.folder / "long.csv"
    with path.open("wb") as file:
        file.write(b"email,name\nann@example.org,Ann\n")
        for _ in range(100):
            file.write(b"x" * MB)
        file.write(b"\nbob@example.org,Bob\n")
    return path


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.timeout(240)
def test_a_line_without_end_takes_no_memory_of_the_server(
    server: Server, browser: httpx2.Client, one_long_line: Path
) -> None:
    before = server.reset_peak()

    report = server.import_by_api(one_long_line).json()

    assert (report["added"], report["rejected"]) == (2, 1)
    [error] = report["errors"]
    assert (error["line"], error["reason"]) == (3, "the line is longer than 131,072 characters")
    assert server.peak() < before + MOST_GROWTH

    before = server.reset_peak()

    page = server.import_by_page(browser, one_long_line)

    assert "the line is longer than 131,072 characters" in page
    assert server.peak() < before + MOST_GROWTH


def test_a_line_without_end_takes_no_memory_of_the_command(
    cli: CommandLine, one_long_line: Path
) -> None:
    short = cli.folder / "short.csv"
    short.write_text("email\nann@example.org\n")
    usual = cli.peak_memory("subscriber", "import", "news", short.name)
    assert cli.peak_memory("subscriber", "import", "news", one_long_line.name) < usual + MOST_GROWTH


@pytest.mark.parametrize(
    "line",
    [b"x\n", b"\n", b'","\n', b'"' + b'a,""' * 100 + b"\n"],
    ids=["no address", "empty", "quotes that close and open", "quotes inside"],
)
def test_lines_of_any_kind_take_no_memory_of_the_command(cli: CommandLine, line: bytes) -> None:
    short, hostile = cli.folder / "short.csv", cli.folder / "hostile.csv"
    short.write_text("email\nann@example.org\n")
    hostile.write_bytes(b"email\n" + line * (8 * MB // len(line)))
    usual = cli.peak_memory("subscriber", "import", "news", short.name)
    command = ("subscriber", "import", "news", hostile.name)
    assert cli.peak_memory(*command, fails=True) < usual + MOST_GROWTH


def test_an_import_of_nothing_but_bad_lines_stops_and_says_why(
    cli: CommandLine, server: Server, browser: httpx2.Client
) -> None:
    bad = cli.folder / "bad.csv"
    bad.write_bytes(b"email\n" + b"x\n" * 5_000_000)
    before = server.processor_seconds()

    refused = server.import_by_api(bad)

    assert refused.status_code == 422
    detail = refused.json()["detail"]
    assert "too many lines cannot be used: 11,000 of 11,000, up to line 11,001" in detail
    assert "(line 2: An email address must have an @-sign" in detail
    assert server.processor_seconds() - before < 20
    error = cli.fails("subscriber", "import", "news", bad.name, "--rejected", "why.csv")
    assert "too many lines cannot be used: 11,000 of 11,000" in error
    assert len((cli.folder / "why.csv").read_text().splitlines()) < 15_000
    assert "too many lines cannot be used: 11,000 of 11,000" in server.import_by_page(browser, bad)


def test_an_import_stops_when_its_client_has_gone(server: Server, cli: CommandLine) -> None:
    """Four million lines that are fine and say the same: nothing but the client ends that."""
    body = b"email\n" + b"ann@example.org\n" * 4_000_000
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(
        "POST",
        "/api/v1/lists/news/import",
        body,
        {"Authorization": f"Bearer {server.key}", "Content-Type": "text/csv"},
    )
    shown = ("subscriber", "show", "news", "ann@example.org", "--json")
    wait_until(lambda: cli.run(*shown).returncode == 0, seconds=30, what="the first chunk")
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()

    _wait_until_idle(server)

    assert server.process.poll() is None
    assert not [each for each in cli.json("events")["items"] if "import" in each["source"]]


def _wait_until_idle(server: Server) -> None:
    """After a little work; to read the whole file would take more processor time."""
    start = before = server.processor_seconds()
    deadline = time.monotonic() + 60 * BUSY
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = server.processor_seconds()
        assert now - start < 15, "the server goes on reading"
        if now - before < 0.02:
            return
        before = now
    raise TimeoutError("the server is still busy")
