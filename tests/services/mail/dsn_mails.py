"""Bounces, as a mail system writes them."""

from __future__ import annotations

_DSN = """\
Return-Path: <>
From: MAILER-DAEMON@mx.example (Mail Delivery System)
To: {to}
Subject: Undelivered Mail Returned to Sender
Message-Id: <{identity}@mx.example>
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b
Content-Type: text/plain

This is the mail system at host mx.example.

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example

Final-Recipient: rfc822; {recipient}
Action: {action}
Status: {status}
Diagnostic-Code: smtp; {reply}

--b
Content-Type: text/rfc822-headers

{returned}

--b--
"""


def dsn(
    *,
    to: str = "bounces@contoso.example",
    recipient: str = "somebody@elsewhere.example",
    reply: str = "550 5.1.1 User unknown",
    returned: str = "Subject: News",
    identity: str = "1",
    action: str = "failed",
) -> bytes:
    """Return a delivery status notification (RFC 3464)."""
    status = reply.split(" ")[1] if reply[4:6] in ("4.", "5.") else f"{reply[0]}.0.0"
    text = _DSN.format(
        to=to,
        recipient=recipient,
        reply=reply,
        returned=returned.strip(),
        identity=identity,
        action=action,
        status=status,
    )
    return text.encode()


def complaint(*, to: str, returned: str, identity: str = "1") -> bytes:
    """Return a feedback report (RFC 5965)."""
    return f"""\
Return-Path: <>
From: <feedback@arf.example>
To: {to}
Subject: FW: News
Message-Id: <{identity}@arf.example>
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report; boundary=b

--b
Content-Type: text/plain

This is an email abuse report.

--b
Content-Type: message/feedback-report

Feedback-Type: abuse
User-Agent: Example/1.0
Version: 1

--b
Content-Type: text/rfc822-headers

{returned.strip()}

--b--
""".encode()


def out_of_office(*, to: str, sender: str, identity: str = "1") -> bytes:
    """Return what a mailbox replies whose owner is away."""
    return f"""\
From: <{sender}>
To: {to}
Subject: Automatic reply: News
Message-Id: <{identity}@away.example>
Auto-Submitted: auto-replied
Content-Type: text/plain

I am away until Monday. Delivery of parcels has failed before: user unknown.
""".encode()
