"""`postroom bounce receive`, and `postroom inbound` without a port."""

from __future__ import annotations

from pathlib import Path

from tests.services.mail.dsn_mails import dsn
from tests.services.postroom import CommandLine


def test_an_email_from_standard_input_is_stored_and_queued(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    printed = cli.ok("bounce", "receive", "--recipient", "b@bounce.example", stdin=dsn())
    assert printed.startswith("Stored and queued as ")
    [item] = cli.json("queue", "peek", "mail/bounce")["items"]
    assert item["body"] == printed.split()[-1]
    assert item["properties"] == {"source": "pipe", "to": "b@bounce.example"}
    assert "mail: must not be empty" in cli.fails("bounce", "receive")


def test_the_mail_server_keeps_the_mail_if_the_store_cannot_be_used(tmp_path: Path) -> None:
    done = CommandLine(tmp_path).run(
        "bounce", "receive", stdin=dsn(), store="sqlite:////proc/none/x.db"
    )
    assert done.returncode == 75  # EX_TEMPFAIL
    assert done.stderr.startswith("postroom: ")


def test_inbound_needs_a_port_or_a_mailbox(tmp_path: Path) -> None:
    assert "set POSTROOM_INBOUND_PORT" in CommandLine(tmp_path).fails("inbound")
