"""What to do about a mail server that does not work, in plain words.

The first entry whose pattern is found in the problem counts. A problem is what the handshake or the
table of replies says ("The mail server does not allow this From address"), with the server's reply.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec


class Advice(msgspec.Struct, frozen=True):
    """What is wrong, as a headline, and what to do."""

    headline: str
    action: str


_TABLE: Final[tuple[tuple[str, Advice], ...]] = (
    (
        r"name cannot be resolved|not a valid host name",
        Advice(
            "The host name is unknown",
            "Check its spelling: your provider's help names it. If it is right, this machine cannot"
            " look up names at the moment.",
        ),
    ),
    (
        r"no answer within",
        Advice(
            "No answer: the port is probably blocked",
            "Many hosting providers and networks block outgoing mail ports. Try port 587, or 2525"
            " if your provider has it, or ask your hosting provider to open the port.",
        ),
    ),
    (
        r"connection refused",
        Advice(
            "Nothing accepts connections on this port",
            "Check host and port. Most providers use port 587 with STARTTLS, or 465 with TLS.",
        ),
    ),
    (
        r"no route to host|network is unreachable|host is unreachable",
        Advice(
            "This machine cannot reach the mail server",
            "Check the host, and whether this machine may connect to the internet.",
        ),
    ),
    (
        r"expects TLS from the first byte",
        Advice(
            "This port needs TLS from the start",
            "Choose the encryption “TLS”, or another port: STARTTLS is usually on 587.",
        ),
    ),
    (
        r"does not speak TLS from the first byte",
        Advice(
            "This port does not use TLS from the start",
            "Choose the encryption “STARTTLS”, or another port: TLS is usually on 465.",
        ),
    ),
    (
        r"does not offer (encryption|STARTTLS)",
        Advice(
            "The mail server does not offer encryption on this port",
            "Use port 587, or port 465 with the encryption “TLS”. A mail server on this machine"
            " needs no encryption: choose “None”. To others, a password is never sent without it.",
        ),
    ),
    (
        r"certificate is not trusted",
        Advice(
            "The mail server's certificate is not trusted",
            "Check that the host is the name in the certificate. For a server of your own with a"
            " self-signed certificate, tick “Accept any certificate”.",
        ),
    ),
    (
        r"TLS failed",
        Advice(
            "No encrypted connection could be established",
            "Check port and encryption: STARTTLS is usually on 587, TLS on 465.",
        ),
    ),
    (
        r"application-specific password|5\.7\.9 .*password",
        Advice(
            "Google requires an app password",
            "Create one at myaccount.google.com/apppasswords and enter its 16 letters instead of"
            " your usual password.",
        ),
    ),
    (
        r"5\.7\.139|SmtpClientAuthentication is disabled|basic authentication is disabled",
        Advice(
            "Microsoft 365 does not allow this mailbox to log in by SMTP",
            "In the admin centre, open the user, then Mail → Manage email apps, and tick"
            " “Authenticated SMTP”. Security defaults must allow it, too.",
        ),
    ),
    (
        r"check user and password|user name or password",
        Advice(
            "Wrong user name or password",
            "Copy both again. Many providers require a separate SMTP password, an app password or"
            " an API key here, not the password that you log in with.",
        ),
    ),
    (
        r"does not offer a login",
        Advice(
            "The mail server does not accept a login here",
            "Leave user name and password empty if it needs none, or use port 587.",
        ),
    ),
    (
        r"requires a user name and password",
        Advice(
            "The mail server requires a login",
            "Enter the user name and password that your provider gave you for SMTP.",
        ),
    ),
    (
        r"does not allow this From address",
        Advice(
            "The mail server does not allow this From address",
            "Verify the address or its domain with your provider, or use an address that it knows,"
            " such as that of the account itself.",
        ),
    ),
    (
        r"does not relay mail",
        Advice(
            "The mail server does not pass on mail for this machine",
            "Enter a user name and password, or allow this machine's IP address in the server's"
            " configuration (mynetworks in Postfix).",
        ),
    ),
    (
        r"limit",
        Advice(
            "The mail server's sending limit is reached",
            "Wait until it allows more, or raise the limit with your provider.",
        ),
    ),
    (
        r"too slow|not responding|does not respond|no reply",
        Advice(
            "The mail server did not answer in time",
            "Try again. If it happens every time, check host and port: something else may be"
            " listening there.",
        ),
    ),
    (
        r"in reply to RCPT",
        Advice(
            "The mail server does not accept the recipient",
            "Check the address that the test goes to, or try another one.",
        ),
    ),
)
_OTHERWISE: Final = Advice(
    "The mail server does not accept the email",
    "Its reply says why: it is the last line of the dialogue. Your provider's help may explain it.",
)


def advice_for(problem: str, reason: str) -> Advice:
    """Return what to do about a problem and the reason that a rule found for it, if one did."""
    text = f"{reason}: {problem}"
    found = (advice for pattern, advice in _TABLE if re.search(pattern, text, re.IGNORECASE))
    return next(found, _OTHERWISE)
