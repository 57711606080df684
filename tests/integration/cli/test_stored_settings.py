"""Settings in the store: precedence, other processes, crashes, and a missing key."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from postroom.settings import SETTINGS, load_settings
from postroom.web.admin.operations.settings import PAGES
from postroom.wiring import load_stored, opened_live, opened_services
from tests.services.mail.recording_smtp import RecordingSmtp, running_recording_smtp
from tests.services.postroom import CommandLine
from tests.services.waiting import wait_until

SECRET = "hunter2-and-more"


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def shown(cli: CommandLine, name: str, **settings: str) -> dict[str, Any]:
    [found] = [each for each in cli.json("settings", "ls", **settings)["items"]
               if each["name"] == name]  # fmt: skip
    return dict(found)


def test_every_setting_that_can_be_stored_is_on_a_page() -> None:
    assert {each.name for each in SETTINGS if each.storable} == set(PAGES)


def test_the_environment_and_the_file_take_precedence_over_the_store(cli: CommandLine) -> None:
    assert shown(cli, "alert_email")["from"] == "default"
    cli.ok("settings", "set", "alert_email", "ann@example.com")
    assert shown(cli, "alert_email") == {
        "name": "alert_email",
        "value": "ann@example.com",
        "from": "stored",
    }
    (cli.folder / "postroom.toml").write_text('alert_email = "file@example.com"\n')
    assert shown(cli, "alert_email")["from"] == "postroom.toml"
    by_environment = shown(cli, "alert_email", alert_email="bob@example.com")
    assert by_environment["from"] == "POSTROOM_ALERT_EMAIL"
    done = cli.run("settings", "set", "alert_email", "eve@example.com")
    assert "postroom.toml takes precedence here" in done.stderr
    (cli.folder / "postroom.toml").unlink()
    cli.ok("settings", "reset", "alert_email")
    assert shown(cli, "alert_email")["from"] == "default"


def test_a_stored_secret_is_shown_nowhere_and_check_names_its_source(cli: CommandLine) -> None:
    url = f"smtp://me:{SECRET}@127.0.0.1:9"
    cli.ok("settings", "set", "transport", "-", stdin=f"{url}\n".encode())
    checked = cli.run("check", "--json").stdout
    found = {each["name"]: each for each in json.loads(checked)["settings"]}
    assert found["transport"]["from"] == "stored"
    assert found["transport"]["value"] == "smtp://●●●@127.0.0.1:9"
    texts = [checked, cli.ok("settings", "ls"), cli.ok("table", "show", "audit")]
    assert all(SECRET not in each for each in texts)
    cli.ok("settings", "set", "alert_webhook", f"https://example.com/{SECRET}")
    assert SECRET not in cli.ok("table", "show", "audit")
    files = [each for each in cli.folder.rglob("*") if each.is_file()]
    assert files
    assert all(SECRET.encode() not in each.read_bytes() for each in files)


def test_what_cannot_be_stored_is_refused(cli: CommandLine) -> None:
    for name, value, problem in (
        ("store", "sqlite:///x", "must be set in the environment or in postroom.toml"),
        ("transport", "javascript:alert(1)", "must start with smtp://"),
        ("transport", "smtp://", "the mail server's host is missing"),
        ("transport", "smtp://me:word@h:x", "is not a valid URL"),
        ("transport", "outbox:/etc", "must be only 'outbox:'"),
        ("bounce_mailbox", "imaps://mail.example.com", "must look like imaps://user:password@"),
        ("alert_email", "nobody", "must be an email address"),
        ("alert_email", "a@example.com\r\nBcc: b@example.com", "must be a single line"),
        ("bounce_domain", "x" * 3000, "must have at most 2,000 characters, not 3,000"),
        ("postmark_webhook_secret", "short", "must have at least 16 characters"),
    ):
        refused = " ".join(cli.misused("settings", "set", name, value).split())
        assert problem in refused, name
        assert "short" not in refused
    for wrong in (("reset", "nothing"), ("set", "nothing", "smtp://example.com")):
        assert "there is no setting 'nothing'" in cli.misused("settings", *wrong)


def test_a_running_sender_uses_a_new_mail_server_without_a_restart(cli: CommandLine) -> None:
    cli.ok("list", "create", "news", "--description", "News", "--from", "news@example.com")
    outbox = cli.folder / "postroom-data" / "outbox"
    sender = cli.start("sender")
    try:
        with running_recording_smtp() as first, running_recording_smtp() as second:
            ask(cli, "ann")
            wait_until(
                lambda: any(each.is_file() for each in outbox.rglob("*")),
                seconds=20,
                what="the outbox is used",
            )
            for number, server in enumerate((first, second)):
                cli.ok("settings", "set", "transport", server.url)
                asked_until_received(cli, server, f"person{number}-")
                assert sender.poll() is None, "it is still the same process"
    finally:
        sender.send_signal(signal.SIGTERM)
        sender.communicate(timeout=60)
    assert sender.returncode == 0


def ask(cli: CommandLine, name: str) -> None:
    cli.ok("subscriber", "add", "news", f"{name}@example.com")
    cli.ok("subscriber", "ask", "news", f"{name}@example.com")


def asked_until_received(cli: CommandLine, server: RecordingSmtp, name: str) -> None:
    """Ask one person after the other to confirm, until a request goes through this server. Return
    when the last one did, too."""
    count = 0

    def received() -> bool:
        nonlocal count
        ask(cli, f"{name}{count}")
        count += 1
        return bool(server.received())

    wait_until(received, seconds=20, what="the new server is used")
    last = f"{name}{count - 1}@example.com"
    wait_until(
        lambda: any(last in each.recipients for each in server.received()),
        seconds=20,
        what="the last request is sent",
    )


WRITER = """
import asyncio, sys
from pathlib import Path
from postroom.settings import load_settings
from postroom.wiring import opened_services

async def main():
    settings = load_settings({"POSTROOM_DATA": sys.argv[1]}, Path(sys.argv[1]))
    async with opened_services(settings) as services:
        print("ready", flush=True)
        for number in range(100_000):
            name = f"d{number}"
            changes = {"bounce_domain": f"{name}.example.com", "alert_email": f"{name}@example.com"}
            await services.stored_settings.change(changes, by="a test")

asyncio.run(main())
"""


def test_a_crash_between_writes_leaves_settings_that_belong_together(tmp_path: Path) -> None:
    settings = load_settings({"POSTROOM_DATA": str(tmp_path)}, tmp_path)

    async def read() -> tuple[str, str]:
        async with opened_services(settings) as services:
            found = await load_stored(services, settings)
            return found.bounces.domain, str(found.alerts.email)

    seen = set()
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            before = asyncio.run(read())
            wait_until(lambda: asyncio.run(read()) != before, seconds=20, what="it writes")  # noqa: B023
            writer.kill()
        domain, email = asyncio.run(read())
        assert email.replace("@", ".") == domain
        seen.add(domain)
    assert seen


def test_a_process_without_the_key_says_so_instead_of_using_the_outbox(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    cli.ok("settings", "set", "transport", "smtp://127.0.0.1:9")
    (tmp_path / "postroom-data" / "secret.key").unlink()
    problem = cli.fails("sender")
    assert "was encrypted with the secret key" in problem
    found = json.loads(cli.run("check", "--json").stdout)["findings"]
    assert found[0]["part"] == "settings"
    assert "same POSTROOM_SECRET_KEY on every machine" in found[0]["advice"]


async def test_nothing_stored_needs_no_key(tmp_path: Path) -> None:
    """As before: a process on another machine may do without it."""
    settings = load_settings({"POSTROOM_DATA": str(tmp_path)}, tmp_path)
    async with opened_live(settings) as (_, live):
        assert live.current is settings
    assert not (tmp_path / "secret.key").exists()
