"""The DNS records that receivers look up about a sending domain: SPF, DKIM and DMARC."""

from __future__ import annotations

import asyncio
import re

import dns.asyncresolver
import dns.exception
import dns.resolver

from postroom.checks.findings import Finding, FindingState
from postroom.checks.sending import sends
from postroom.errors import PostroomError
from postroom.settings import Settings

_SECONDS = 5.0
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
