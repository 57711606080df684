"""A web server that is killed while it imports a file, and started again."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.services.postroom import CommandLine
from tests.services.waiting import accepts_connections, free_ports, wait_until

EDITOR, PASSWORD = "eve@contoso.example", "a very long pass phrase of Eve"
PEOPLE = 200_000
WAIT = 120


class Browser:
    def __init__(self, port: int) -> None:
        url = f"http://127.0.0.1:{port}"
        self.http = httpx2.Client(base_url=url, follow_redirects=True, timeout=60)

    def post(self, page: str, to: str, fields: dict[str, str], file: Path | None = None) -> str:
        """Send the form of a page; return the address of what it leads to."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.http.get(page).text)
        assert found is not None
        files = None if file is None else {"file": (file.name, file.read_bytes())}
        response = self.http.post(to, data={"csrf": found[1], **fields}, files=files)
        assert response.status_code == 200, response.text
        return str(response.url)

    def shows(self, where: str, text: str) -> bool:
        return text in self.http.get(where).text


def started(cli: CommandLine, port: int) -> subprocess.Popen[bytes]:
    process = cli.start("web", "--port", str(port))
    wait_until(lambda: accepts_connections(port), seconds=60, what="the web server")
    return process


@pytest.mark.timeout(300)
def test_an_import_is_completed_after_a_kill_and_a_restart(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    cli.ok("list", "create", "news", "--description", "The news", "--from", "news@contoso.com")
    cli.ok("user", "add", EDITOR, "--password-stdin", stdin=PASSWORD.encode())
    file = tmp_path / "people.csv"
    file.write_text("email\n" + "".join(f"user{n:06}@example.org\n" for n in range(PEOPLE)))
    [port] = free_ports(1)
    process = started(cli, port)
    browser = Browser(port)
    try:
        browser.post("/login", "/login", {"email": EDITOR, "password": PASSWORD})
        place = "/lists/news/import"
        where = browser.post(place, place, {}, file)
        wait_until(lambda: browser.shows(where, "What will happen"), seconds=WAIT, what="a preview")
        confirmed = {"action": "import", "create_fields": "", "existing": "overwrite"}
        browser.post(where, where, confirmed)
        wait_until(
            lambda: not browser.shows(where, '<p class="under">Added</p><p class="figure">0</p>'),
            seconds=WAIT,
            what="the first lines",
        )
        assert not browser.shows(where, "Import complete.")

        process.send_signal(signal.SIGKILL)
        process.communicate()
        there = cli.json("list", "show", "news", "--count")["subscribers"]
        assert 0 < there < PEOPLE
        process = started(cli, port)

        wait_until(lambda: browser.shows(where, "Import complete."), seconds=WAIT, what="the rest")
        counted = cli.json("list", "show", "news", "--count")
        assert counted["subscribers"] == PEOPLE
    finally:
        browser.http.close()
        process.kill()
        process.communicate()
