"""Emails that someone made to keep the reader busy take no time worth mentioning."""

from __future__ import annotations

import time

import pytest

from postroom.domain.messages.delivery.bounces import BounceKind, BounceSource
from postroom.services.audience.bounces.processing import read_reports

HEAD = b"From: MAILER-DAEMON@example.com\nReturn-Path: <>\nSubject: Undelivered\n"
REPORT = (
    HEAD + b"Content-Type: multipart/report; report-type=delivery-status; boundary=B\n\n--B\n\n"
)
STATUS = b"\n--B\nContent-Type: message/delivery-status\n\n"
PARTS = HEAD + b"Content-Type: multipart/mixed; boundary=B\n\n"


def report(text: bytes, recipients: int) -> bytes:
    """Return a bounce that says nothing about its recipients, with this text."""
    blocks = b"\n\n".join(
        b"Final-Recipient: rfc822; user%d@example.com\nAction: failed\nStatus: 5.0.0" % number
        for number in range(recipients)
    )
    return REPORT + text + STATUS + blocks + b"\n--B--\n"


@pytest.mark.parametrize(
    "mail",
    [
        report(b"a\n\n" * 21_000, 50),
        report((b"could not " * 400 + b"\n\n") * 16, 50),
        PARTS + b"--B\n\nx\n" * 200_000,
    ],
    ids=["paragraphs for each recipient", "sentences for each recipient", "parts"],
)
def test_hostile_bounces_take_no_time(mail: bytes) -> None:
    begun = time.process_time()
    assert len(read_reports(mail, BounceSource.SMTP, "bounces@example.com")) == 1
    assert time.process_time() - begun < 10


def test_a_report_after_a_long_text_is_read() -> None:
    text = b"--\nThis could not be delivered.\n" * 900
    last = report(text, 1).replace(b"Status: 5.0.0", b"Status: 5.1.1")
    [found] = read_reports(last, BounceSource.SMTP, "bounces@example.com")
    assert found.verdict.kind is BounceKind.GONE
