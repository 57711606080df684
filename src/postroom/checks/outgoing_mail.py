"""Sending: does the mail server or provider work, do links in emails lead to Postroom, and are the
DNS records of the sending domains (SPF, DKIM, DMARC) right?"""

from __future__ import annotations

import asyncio
import secrets
import urllib.error
import urllib.request
from datetime import UTC, datetime
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from postroom.checks.findings import Finding, FindingState, one_line
from postroom.domain.audience.addresses import parse_address
from postroom.errors import PostroomError
from postroom.notices import NoFromAddress, NoticeSender, send_notice
from postroom.services.messages.domains.dns_lookups import DnsUnavailable, is_reserved
from postroom.services.messages.domains.domain_checks import DomainChecks
from postroom.services.messages.domains.record_findings import RecordFinding, RecordState
from postroom.settings import Settings
from postroom.transport.contract import ResultKind
from postroom.transport.registry import sends_mail
from postroom.wiring import (
    Services,
    make_domain_checks,
    make_keyring,
    opened_store,
    opened_transport,
)

if TYPE_CHECKING:
    import dns.asyncresolver


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
        async with opened_store(settings) as store:
            services = Services(store, make_keyring(settings))
            known = NoticeSender(services.lists, settings.alerts.from_address)
            sender = parse_address(from_address) if from_address else await known.address()
            async with opened_transport(settings, services) as transport:
                result = await send_notice(
                    transport,
                    from_address=sender,
                    to=address,
                    subject="Postroom: test email",
                    text="If you read this, Postroom can send emails.\n",
                    date=datetime.now(UTC),
                    key=secrets.token_hex(8),
                )
    except NoFromAddress as exc:
        return Finding(
            "test email", FindingState.ERROR, str(exc), "Or give one with --from ADDRESS."
        )
    except PostroomError as exc:
        return Finding("test email", FindingState.ERROR, one_line(exc))
    if result.kind is not ResultKind.ACCEPTED:
        advice = "The server's reply says why."
        return Finding("test email", FindingState.ERROR, f"{result.kind}: {result.reply}", advice)
    return Finding("test email", FindingState.OK, f"from {sender} to {address}: {result.reply}")


def sends(settings: Settings) -> bool:
    """Return whether emails leave this machine at all."""
    return sends_mail(settings.transport.url)


_SECONDS = 5.0
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


_MOST_DOMAINS = 20
_STATES = {
    RecordState.FINE: FindingState.OK,
    RecordState.INFO: FindingState.OK,
    RecordState.WEAK: FindingState.WARNING,
    RecordState.WRONG: FindingState.ERROR,
}


async def check_sending_domains(
    settings: Settings, domains: list[str], resolver: dns.asyncresolver.Resolver | None = None
) -> list[Finding]:
    """Check the domains of lists' From addresses, if emails leave this machine at all."""
    real = [each for each in domains if not is_reserved(each)][:_MOST_DOMAINS]
    if not real or not sends(settings) or settings.transport.online_checks == "no":
        return []
    async with opened_store(settings) as store:
        checks = make_domain_checks(Services(store, make_keyring(settings)), settings, resolver)
        found = await asyncio.gather(*(_check_domain(checks, each) for each in real))
    return [each for findings in found for each in findings]


async def _check_domain(checks: DomainChecks, domain: str) -> list[Finding]:
    try:
        found = await checks.check_everything(domain)
    except DnsUnavailable:
        return [_unreachable(domain)]
    return [
        Finding(f"{each.kind} of {domain}", _STATES[each.state], each.text, _advice(each))
        for each in found
    ]


def _advice(finding: RecordFinding) -> str:
    """Return what to do, with the record to publish."""
    record = finding.record
    if record is None or record.value in finding.advice or finding.state is RecordState.FINE:
        return finding.advice
    shown = f'{record.name} {record.type} "{record.value}"'
    return f"{finding.advice} {shown}".strip()


def _unreachable(domain: str) -> Finding:
    about = f"SPF, DKIM and DMARC of {domain} were"
    return Finding(
        "DNS",
        FindingState.WARNING,
        f"{about} not looked up: DNS does not respond",
        "Check the network connection of this machine, and try again.",
    )
