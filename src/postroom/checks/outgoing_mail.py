"""Sending: does the mail server or provider work, do links in emails lead to Postroom, and are the
DNS records of the sending domains (SPF, DKIM, DMARC) right?"""

from __future__ import annotations

import asyncio
import re
import secrets
import urllib.error
import urllib.request
from datetime import UTC, datetime
from http.client import HTTPException
from urllib.parse import urlsplit

import dns.asyncresolver
import dns.exception
import dns.resolver

from postroom.checks.findings import Finding, FindingState, one_line
from postroom.domain.audience.addresses import Address, parse_address
from postroom.errors import PostroomError
from postroom.notices import NoFromAddress, NoticeSender, send_notice
from postroom.settings import Settings
from postroom.transport.contract import ResultKind
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
    try:
        async with opened_transport(settings) as transport:
            result = await send_notice(
                transport,
                from_address=sender,
                to=address,
                subject="Postroom: a test mail",
                text="If you read this, Postroom can send emails.\n",
                date=datetime.now(UTC),
                key=secrets.token_hex(8),
            )
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
# RFC 2606 and RFC 6761: nobody can send from these, so there is nothing to look up.
_RESERVED = re.compile(r"(^|\.)(example(\.(com|net|org))?|test|invalid|localhost|local)$")


class _NoAnswer(PostroomError):
    """DNS did not answer."""


async def check_sending_domains(
    settings: Settings, domains: list[str], resolver: dns.asyncresolver.Resolver | None = None
) -> list[Finding]:
    """Check the domains of lists' From addresses, if emails leave this machine at all."""
    real = [each for each in domains if not _RESERVED.search(each)][:_MOST_DOMAINS]
    if not real or not sends(settings):
        return []
    resolver = resolver or _resolver_of_this_machine()
    if resolver is None:
        return [_unreachable()]
    selector = settings.transport.dkim_selector
    found = await asyncio.gather(*(_check_domain(resolver, each, selector) for each in real))
    return [each for findings in found for each in findings]


def _resolver_of_this_machine() -> dns.asyncresolver.Resolver | None:
    try:
        resolver = dns.asyncresolver.Resolver()
    except dns.resolver.NoResolverConfiguration:
        return None
    resolver.lifetime = _SECONDS
    return resolver


async def _check_domain(
    resolver: dns.asyncresolver.Resolver, domain: str, selector: str
) -> list[Finding]:
    try:
        return [
            await _check_spf(resolver, domain),
            await _check_dkim(resolver, domain, selector),
            await _check_dmarc(resolver, domain),
        ]
    except _NoAnswer:
        return [_unreachable(domain)]


async def _check_spf(resolver: dns.asyncresolver.Resolver, domain: str) -> Finding:
    records = [each for each in await _texts(resolver, domain) if _is_spf(each)]
    part = f"SPF of {domain}"
    if not records:
        advice = f'Publish a TXT record at {domain}, such as "v=spf1 mx -all".'
        return Finding(part, FindingState.WARNING, "there is none", advice)
    if len(records) > 1:
        return Finding(
            part, FindingState.ERROR, f"there are {len(records)}: receivers ignore all", "Keep one."
        )
    if re.search(r"\s\+?all\b", records[0]):
        advice = "End it with -all or ~all."
        return Finding(
            part, FindingState.WARNING, f"allows everybody to send: {records[0]}", advice
        )
    return Finding(part, FindingState.OK, records[0])


async def _check_dkim(resolver: dns.asyncresolver.Resolver, domain: str, selector: str) -> Finding:
    part = f"DKIM of {domain}"
    if not selector:
        return Finding(
            part,
            FindingState.WARNING,
            "not looked up: the signing mail server knows its selector",
            "Set dkim_selector.",
        )
    name = f"{selector}._domainkey.{domain}"
    keys = [each for each in await _texts(resolver, name) if "p=" in each]
    if not keys:
        return Finding(
            part,
            FindingState.WARNING,
            f"there is no key at {name}",
            "Publish the signing server's key.",
        )
    if re.search(r"\bp=\s*(;|$)", keys[0]):
        return Finding(
            part, FindingState.ERROR, f"the key at {name} is revoked", "Publish a new one."
        )
    return Finding(part, FindingState.OK, f"there is a key at {name}")


async def _check_dmarc(resolver: dns.asyncresolver.Resolver, domain: str) -> Finding:
    part = f"DMARC of {domain}"
    for name in _upwards(domain):
        found = await _texts(resolver, f"_dmarc.{name}")
        records = [each for each in found if each.lower().startswith("v=dmarc1")]
        if records:
            return Finding(part, FindingState.OK, f"{records[0]} (at _dmarc.{name})")
    return Finding(
        part,
        FindingState.WARNING,
        "there is none: Gmail, Yahoo and Microsoft ask bulk senders for one",
        f'Publish a TXT record at _dmarc.{domain}, such as "v=DMARC1; p=none".',
    )


def _upwards(domain: str) -> list[str]:
    """Return the domain and those above it, without the last label."""
    labels = domain.split(".")
    return [".".join(labels[start:]) for start in range(max(1, len(labels) - 1))]


def _is_spf(text: str) -> bool:
    return text.lower() == "v=spf1" or text.lower().startswith("v=spf1 ")


async def _texts(resolver: dns.asyncresolver.Resolver, name: str) -> list[str]:
    """Return the TXT records of a name; none if it does not exist. `_NoAnswer`."""
    try:
        answer = await resolver.resolve(name, "TXT")
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except (dns.exception.DNSException, OSError) as exc:
        raise _NoAnswer from exc
    return [b"".join(each.strings).decode("utf-8", "replace") for each in answer]


def _unreachable(domain: str = "") -> Finding:
    about = f"SPF, DKIM and DMARC of {domain} were" if domain else "SPF, DKIM and DMARC were"
    return Finding(
        "DNS",
        FindingState.WARNING,
        f"{about} not looked up: DNS does not answer here",
        "Check again where there is a network.",
    )
