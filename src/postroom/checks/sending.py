"""Sending: does the mail server or provider work, and do links in emails lead to Postroom?"""

from __future__ import annotations

import asyncio
import secrets
import urllib.error
import urllib.request
from datetime import UTC, datetime
from http.client import HTTPException
from urllib.parse import urlsplit

from postroom.alerts import NoFromAddress, NoticeSender
from postroom.checks.findings import Finding, FindingState, one_line
from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.lists import SubscriberGuid
from postroom.errors import PostroomError
from postroom.mail.mailing import Recipient
from postroom.mail.system_mail import compile_notice
from postroom.settings import Settings
from postroom.transport.contract import ResultKind, Unwatched
from postroom.transport.registry import sends_mail
from postroom.wiring import Services, opened_store, opened_transport


async def check_transport(settings: Settings) -> list[Finding]:
    try:
        async with opened_transport(settings) as transport:
            found = await transport.check()
    except PostroomError as exc:
        origin = settings.found["transport"].origin
        advice = f"Check the setting transport (from {origin})."
        return [Finding("transport", FindingState.ERROR, one_line(exc), advice)]
    if not sends(settings):
        advice = "To send emails, set transport to smtp://… or sendgrid://."
        return [Finding("transport", FindingState.WARNING, found, advice)]
    return [Finding("transport", FindingState.OK, found)]


async def send_test_mail(settings: Settings, to: str, from_address: str = "") -> Finding:
    """Send a short email on request: the only check that sends."""
    address = parse_address(to)
    try:
        sender = parse_address(from_address) if from_address else await _sender(settings)
    except NoFromAddress as exc:
        return Finding(
            "test mail", FindingState.ERROR, str(exc), "Or give one with --from ADDRESS."
        )
    except PostroomError as exc:
        return Finding("test mail", FindingState.ERROR, one_line(exc))
    mailing = compile_notice(
        from_address=sender,
        subject="Postroom: a test mail",
        text="If you read this, Postroom can send emails.\n",
        date=datetime.now(UTC),
        key=secrets.token_hex(8),
    )
    recipient = Recipient(address, SubscriberGuid("administrator"))
    try:
        async with opened_transport(settings) as transport:
            [result] = await transport.send(mailing, [recipient], Unwatched())
    except PostroomError as exc:
        return Finding("test mail", FindingState.ERROR, one_line(exc))
    if result.kind is not ResultKind.ACCEPTED:
        advice = "The server's reply says why."
        return Finding("test mail", FindingState.ERROR, f"{result.kind}: {result.reply}", advice)
    return Finding("test mail", FindingState.OK, f"from {sender} to {address}: {result.reply}")


async def _sender(settings: Settings) -> Address:
    async with opened_store(settings) as store:
        return await NoticeSender(Services(store).lists, settings.alerts.from_address).address()


def sends(settings: Settings) -> bool:
    """Return whether emails leave this machine at all."""
    return sends_mail(settings.transport.url)


_SECONDS = 5
_HERE = ("localhost", "127.0.0.1", "::1")


async def check_base_url(settings: Settings) -> list[Finding]:
    url = settings.web.base_url
    found = [await asyncio.to_thread(_reach, url)]
    if not sends(settings):
        return found
    if (urlsplit(url).hostname or "") in _HERE:
        found.append(
            Finding(
                "base_url",
                FindingState.WARNING,
                f"links in emails lead to {url}, which only this machine can open",
                "Set base_url to the address that subscribers can reach.",
            )
        )
    elif url.startswith("http://"):
        found.append(
            Finding(
                "base_url",
                FindingState.WARNING,
                f"links in emails lead to {url}, without encryption",
                "One-click unsubscribing needs https (RFC 8058).",
            )
        )
    return found


def _reach(url: str) -> Finding:
    try:
        # The setting allows http and https only.
        with urllib.request.urlopen(f"{url}/healthz", timeout=_SECONDS) as response:  # noqa: S310
            status = response.status
    except urllib.error.HTTPError as exc:
        status = exc.code
    except (OSError, ValueError, HTTPException) as exc:
        cause = getattr(exc, "reason", None) or exc
        reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        return Finding(
            "web",
            FindingState.WARNING,
            f"no response at {url} ({reason})",
            "Is `postroom up` or `postroom web` running, and does base_url lead to it?",
        )
    if status != 200:
        return Finding(
            "web",
            FindingState.WARNING,
            f"{url} responds, but not like Postroom (status {status})",
            "Does base_url lead to this Postroom, or to something in front of it?",
        )
    return Finding("web", FindingState.OK, f"responds at {url}")
