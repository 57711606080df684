"""Secrets that an operator sets appear nowhere: not in logs, answers, records or error messages."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx2
import pytest

from tests.services.mail.recording_smtp import running_recording_smtp
from tests.services.postroom import CommandLine
from tests.services.waiting import BUSY, accepts_connections, free_ports, wait_until

MARK = "hush-hush"  # a part of every secret
PASSWORD = f"{MARK} in the password of a user"


def secrets_of(transport: str, webhook_port: int) -> dict[str, str]:
    return {
        "POSTROOM_SECRET_KEY": f"{MARK}-in-the-secret-key-{'0123456789abcdef' * 2}",
        "POSTROOM_OLD_SECRET_KEYS": f"{MARK}-in-an-old-secret-key-{'0123456789abcdef' * 2}",
        "POSTROOM_TRANSPORT": transport,
        "POSTROOM_ALERT_WEBHOOK": f"http://127.0.0.1:{webhook_port}/{MARK}",
        "POSTROOM_ALERT_EMAIL": "operator@contoso.example",
        "POSTROOM_SENDGRID_API_KEY": f"SG.{MARK}",
        "POSTROOM_AZURE_CONNECTION_STRING": f"AccountName=x;AccountKey={MARK}",
    }


def without_marks(text: str, what: str) -> None:
    found = [line for line in text.splitlines() if MARK in line]
    assert not found, f"{what}: {found[:3]}"


def _call_with_secrets(url: str, key: str) -> None:
    """Calls that carry a secret and go wrong."""
    with httpx2.Client(base_url=url, timeout=60) as client:
        client.get("/api/v1/lists", headers={"Authorization": f"Bearer pr_0123_{MARK}"})
        client.get("/api/v1/lists/none", headers={"Authorization": f"Bearer {key}"})
        client.get(f"/join?token={MARK}")
        client.get(f"/setup?token={MARK}")
        client.get(f"/confirm?id={MARK}&listName=news")
        client.post("/login", data={"email": "eve@example.com", "password": f"{MARK} wrong"})


@pytest.mark.timeout(240)
def test_no_secret_leaks_while_everything_that_needs_one_fails(tmp_path: Path) -> None:
    """The mail server refuses the login, nobody listens at the webhook, and people mistype."""
    port, nobody = free_ports(2)
    with running_recording_smtp(user="me@x.test", password="another one") as server:
        transport = f"smtp://me%40x.test:{MARK}@127.0.0.1:{server.port}?tls=off"
        cli = CommandLine(tmp_path, secrets_of(transport, nobody))
        cli.ok("list", "create", "news", "--description", "News", "--from", "news@contoso.com")
        cli.ok("subscriber", "add", "news", "ann@example.com", "--verified")
        cli.ok("user", "add", "eve@example.com", "--password-stdin", stdin=PASSWORD.encode())
        key = cli.json("apikey", "create")["key"]
        (tmp_path / "body.txt").write_text("Hello")
        cli.ok("message", "create", "news", "--subject", "Hello", "--text", "body.txt")
        log = tmp_path / "up.log"
        up = cli.start("up", "--port", str(port))
        try:
            wait_until(lambda: accepts_connections(port), seconds=60, what="the web server")
            _call_with_secrets(f"http://127.0.0.1:{port}", key)
            wait_until(
                lambda: server.connections() > 0, seconds=60, what="a login at the mail server"
            )
        finally:
            up.send_signal(signal.SIGTERM)
            printed, errors = up.communicate(timeout=60 * BUSY)
        log.write_bytes(printed + errors)

    without_marks(log.read_text(errors="replace"), "the log")
    _, _, secret = key.split("_", maxsplit=2)  # the secret may contain "_" itself
    assert secret not in log.read_text(errors="replace")
    nowhere = f"me:{MARK}@127.0.0.1:{nobody}/db"
    for command in (
        ("check", "--json"),
        ("events", "--json"),
        ("table", "show", "audit", "--json"),
        ("store", "rekey", "--json"),
        ("check", "--transport", f"{transport}&x=1"),
        ("store", "copy", f"postgresql://{nowhere}", "sqlite:///copy.db"),
        ("list", "ls", "--store", f"postgresql://{nowhere}"),
        ("list", "ls", "--store", f"postgres:/{nowhere}"),
    ):
        done = cli.run(*command)
        without_marks(done.stdout + done.stderr, " ".join(command[:2]))
