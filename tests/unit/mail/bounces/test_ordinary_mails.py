"""Mail that is no bounce is not taken for one, in whatever language it says 'not delivered'."""

from __future__ import annotations

import tomllib
from email.message import EmailMessage, Message
from email.mime.message import MIMEMessage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

import pytest

from postroom.mail.bounces.mail_kinds import MailKind
from postroom.mail.bounces.reading import read_mail
from postroom.services.audience.bounces.processing import classify

MAILS = Path(__file__).parents[3] / "fixtures" / "ordinary_mails"
ORDINARY = tomllib.loads((MAILS / "ordinary.toml").read_text())
AUTOMATIC = tomllib.loads((MAILS / "automatic.toml").read_text())


def test_there_are_enough_samples() -> None:
    assert len(ORDINARY) >= 60
    assert len(AUTOMATIC) >= 20


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_email_is_not_a_bounce(name: str) -> None:
    found = read_mail(bytes(_mail(ORDINARY[name])))
    assert found.kind is MailKind.ORDINARY
    assert classify(found) == []


@pytest.mark.parametrize("name", AUTOMATIC)
def test_out_of_office_notes_and_read_receipts_are_automatic_replies(name: str) -> None:
    assert read_mail(bytes(_mail(AUTOMATIC[name]))).kind is MailKind.AUTO_REPLY


def _mail(described: dict[str, Any]) -> Message:
    kind = described.get("raw", "")
    mail = _with_report(kind, described["text"]) if kind else _plain(described["text"])
    mail["From"] = described.get("from", "Ann Smith <ann@example.com>")
    mail["To"] = "bounces@contoso.example"
    mail["Subject"] = described["subject"]
    mail["Message-ID"] = "<ordinary@example.com>"
    for name, value in described.get("headers", {}).items():
        mail[name] = value
    return mail


def _plain(text: str) -> Message:
    mail = EmailMessage()
    mail.set_content(text)
    return mail


def _with_report(kind: str, text: str) -> Message:
    """Return a mail with a second part, as calendars and receipts have it."""
    if kind == "calendar":
        mail = MIMEMultipart("alternative")
        mail.attach(MIMEText(text))
        mail.attach(MIMEText("BEGIN:VCALENDAR\nMETHOD:REPLY\nEND:VCALENDAR\n", "calendar"))
        return mail
    if kind == "read_receipt":
        mail = MIMEMultipart("report", report_type="disposition-notification")
        mail.attach(MIMEText(text))
        notification = Message()
        notification["Final-Recipient"] = "rfc822; ann@example.com"
        notification["Disposition"] = "manual-action/MDN-sent-manually; displayed"
        mail.attach(MIMEMessage(notification, "disposition-notification"))
        return mail
    mail = MIMEMultipart("report", report_type="delivery-status")
    mail.attach(MIMEText(text))
    status = Message()
    status["Final-Recipient"] = "rfc822; ann@example.com"
    status["Action"] = kind
    status["Status"] = "2.0.0"
    mail.attach(MIMEMessage(status, "delivery-status"))
    return mail
