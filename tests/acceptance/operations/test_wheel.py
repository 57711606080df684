"""The built wheel, installed where there is nothing else, is the whole product."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx2
import pytest

from tests.services.waiting import free_ports, wait_until

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`postroom` from the wheel, in an environment of its own.

    The packages that it depends on are those of the tests, seen through a path; Postroom itself is
    not among them: an editable installation works by a `.pth` file, which does not count there.
    """
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source],
        check=True,
        capture_output=True,
    )
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "empty", with_pip=False, symlinks=True)
    python = folder / "empty/bin/python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index",
         "--quiet", "--disable-pip-version-check", wheel],
        check=True,
        capture_output=True,
    )  # fmt: skip
    [site] = (folder / "empty/lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "empty/bin/postroom"


@dataclass
class Running:
    """Postroom, started in an empty folder."""

    program: Path
    folder: Path
    log: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.program, *arguments],
            cwd=self.folder,
            env=_environment(),
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/")}


@contextmanager
def running_up(program: Path, folder: Path) -> Iterator[Running]:
    [port] = free_ports(1)
    log = folder / "up.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [program, "up", "--demo", "--port", str(port)],
            cwd=folder,
            # The demo sends slowly, so that there is something to watch.
            env={**_environment(), "POSTROOM_RATE": "5000"},
            stderr=written,
        )
    try:
        wait_until(lambda: "/setup?" in log.read_text(), seconds=60, what="postroom up")
        yield Running(program, folder, log, port)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


class Browser:
    """Follows links and sends forms, with their tokens."""

    def __init__(self, url: str) -> None:
        self.http = httpx2.Client(base_url=url, follow_redirects=True, timeout=60)
        self.page = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def open(self, path: str) -> str:
        return self._read(self.http.get(path))

    def send(self, path: str, **fields: str) -> str:
        """A form that is on the page that is open."""
        token = re.search(r'name="csrf" value="([^"]+)"', self.page)
        assert token is not None, self.page
        return self._read(self.http.post(path, data={"csrf": token[1], **fields}))

    def _read(self, response: httpx2.Response) -> str:
        assert response.status_code == 200, (response.url, response.status_code, response.text)
        self.page = response.text
        return self.page


@pytest.mark.timeout(240)
def test_the_story_of_a_subscriber(program: Path, tmp_path: Path) -> None:
    with running_up(program, tmp_path) as postroom, Browser(postroom.url) as browser:
        link = re.search(r"/setup\?\S+", postroom.log.read_text())
        assert link is not None
        browser.open(link[0])
        token = re.search(r'name="token" value="([^"]+)"', browser.page)
        assert token is not None
        browser.send(
            "/setup", token=token[1], email="ann@example.com", password="a few words are good"
        )
        assert "Home" in browser.page
        check_files(browser)

        sign_up(browser, postroom)
        receive_a_message(browser, postroom)
        leave(browser, postroom)
        assert "Traceback" not in postroom.log.read_text()


def check_files(browser: Browser) -> None:
    """Styles, scripts and pictures are inside the wheel, too."""
    files = set(re.findall(r'(?:href|src)="(/static/[^"#]+)', browser.page))
    assert len(files) >= 4
    for file in files:
        assert browser.http.get(file).status_code == 200, file


def sign_up(browser: Browser, postroom: Running) -> None:
    """In French: the catalogues are inside as well."""
    form = browser.http.get("/subscribe?list=garden-club", headers={"Accept-Language": "fr"}).text
    assert '<html lang="fr"' in form
    key = re.search(r'"key": "([^"]+)"', postroom.run("apikey", "create", "--json"))
    assert key is not None
    answer = browser.http.post(
        "/api/v1/subscribe",
        json={"email_address": "new@example.com", "list_name": "garden-club"},
        headers={"Authorization": f"Bearer {key[1]}"},
    )
    assert answer.status_code == 202, answer.text
    found = mail_with(postroom, "new@example.com", r"/confirm\?[^\s\"<>]+")
    browser.open(found)
    id_, list_name = re.findall(r"[?&](?:id|listName)=([^&]+)", found)
    browser.http.post("/confirm", data={"id": id_, "listName": list_name})
    shown = postroom.run("subscriber", "show", "garden-club", "new@example.com", "--json")
    assert '"verified": true' in shown


def receive_a_message(browser: Browser, postroom: Running) -> None:
    body = postroom.folder / "body.txt"
    body.write_text("Hello from the wheel\n")
    postroom.run("message", "create", "garden-club", "--subject", "Only now", "--text", str(body))
    mail_with(postroom, "new@example.com", r"Hello from the wheel")
    assert "Only now" in browser.open("/messages/sending") + browser.open("/messages/sent")


def leave(browser: Browser, postroom: Running) -> None:
    found = mail_with(postroom, "new@example.com", r"/unsubscribe\?[^\s\"<>]+")
    answer = browser.http.post(found, data={"List-Unsubscribe": "One-Click"})
    assert answer.status_code == 200
    listed = postroom.run("subscriber", "ls", "garden-club", "--prefix", "new@", "--json")
    assert "new@example.com" not in listed


def mail_with(postroom: Running, address: str, pattern: str) -> str:
    """Wait for an email to this address in the outbox; return what matches the pattern in it."""
    from email import message_from_bytes, policy

    def look() -> str | None:
        for file in sorted((postroom.folder / "postroom-data/outbox").rglob("*.eml")):
            if address not in file.name:
                continue
            mail = message_from_bytes(file.read_bytes(), policy=policy.default)
            assert address in str(mail["To"])
            text = mail.get_body(("plain", "html"))
            found = re.search(pattern, "" if text is None else text.get_content())
            if found is not None:
                return found[0]
        return None

    wait_until(lambda: look() is not None, seconds=60, what=f"an email to {address}")
    found = look()
    assert found is not None
    return found
