"""The DNS records of a sending domain: SPF, DKIM and DMARC.

The DMARC record is found by the tree walk of RFC 9989 4.10: from the domain itself up to the last
label, with a short cut for names that have many.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import dns.asyncresolver
import dns.exception
import dns.resolver
import msgspec

from postroom.errors import PostroomError

_SECONDS: Final = 5.0
# RFC 2606 and RFC 6761: nobody can send from these, so there is nothing to look up.
_RESERVED: Final = re.compile(r"(^|\.)(example(\.(com|net|org))?|test|invalid|localhost|local)$")
_MOST_LABELS: Final = 8  # RFC 9989 4.10: from longer names, the walk continues with one label less


class DnsUnavailable(PostroomError):
    """DNS did not answer."""


class RecordState(StrEnum):
    FINE = "fine"
    WEAK = "weak"
    WRONG = "wrong"


class RecordFinding(msgspec.Struct, frozen=True):
    """What was found about one kind of record, and what to do about it."""

    kind: str
    state: RecordState
    text: str
    advice: str = ""


class DmarcRecord(msgspec.Struct, frozen=True):
    """A DMARC record, and the domain that it was found at."""

    domain: str
    text: str
    tags: dict[str, str]


def is_reserved(domain: str) -> bool:
    """Return whether nobody can send from this domain."""
    return _RESERVED.search(domain) is not None


def resolver_of_this_machine() -> dns.asyncresolver.Resolver | None:
    """Return the resolver that this machine is configured with, if any."""
    try:
        resolver = dns.asyncresolver.Resolver()
    except dns.resolver.NoResolverConfiguration:
        return None
    resolver.lifetime = _SECONDS
    return resolver


async def check_domain(
    resolver: dns.asyncresolver.Resolver, domain: str, selector: str
) -> list[RecordFinding]:
    """Return what there is to say about each kind of record. `DnsUnavailable`."""
    return [
        await _check_spf(resolver, domain),
        await _check_dkim(resolver, domain, selector),
        await _check_dmarc(resolver, domain),
    ]


async def _check_spf(resolver: dns.asyncresolver.Resolver, domain: str) -> RecordFinding:
    records = [each for each in await _texts(resolver, domain) if _is_spf(each)]
    if not records:
        advice = f'Publish a TXT record at {domain}, such as "v=spf1 mx -all".'
        return RecordFinding("SPF", RecordState.WEAK, "there is none", advice)
    if len(records) > 1:
        text = f"there are {len(records)}: receivers ignore all"
        return RecordFinding("SPF", RecordState.WRONG, text, "Keep one.")
    if re.search(r"\s\+?all\b", records[0]):
        text = f"allows everybody to send: {records[0]}"
        return RecordFinding("SPF", RecordState.WEAK, text, "End it with -all or ~all.")
    return RecordFinding("SPF", RecordState.FINE, records[0])


async def _check_dkim(
    resolver: dns.asyncresolver.Resolver, domain: str, selector: str
) -> RecordFinding:
    if not selector:
        return RecordFinding(
            "DKIM",
            RecordState.WEAK,
            "not looked up: the signing mail server knows its selector",
            "Set dkim_selector.",
        )
    name = f"{selector}._domainkey.{domain}"
    keys = [each for each in await _texts(resolver, name) if "p=" in each]
    if not keys:
        text = f"there is no key at {name}"
        return RecordFinding("DKIM", RecordState.WEAK, text, "Publish the signing server's key.")
    if re.search(r"\bp=\s*(;|$)", keys[0]):
        text = f"the key at {name} is revoked"
        return RecordFinding("DKIM", RecordState.WRONG, text, "Publish a new one.")
    return RecordFinding("DKIM", RecordState.FINE, f"there is a key at {name}")


async def _check_dmarc(resolver: dns.asyncresolver.Resolver, domain: str) -> RecordFinding:
    record = await find_dmarc(resolver, domain)
    if record is None:
        return RecordFinding(
            "DMARC",
            RecordState.WEAK,
            "there is none: Gmail, Yahoo and Microsoft ask bulk senders for one",
            f'Publish a TXT record at _dmarc.{domain}, such as "v=DMARC1; p=none".',
        )
    return RecordFinding("DMARC", RecordState.FINE, f"{record.text} (at _dmarc.{record.domain})")


async def find_dmarc(resolver: dns.asyncresolver.Resolver, domain: str) -> DmarcRecord | None:
    """Return the record whose policy applies to a domain: its own, or that of its organisation, or
    that of the public suffix above it. `DnsUnavailable`."""
    found: list[DmarcRecord] = []
    for name in tree_walk(domain):
        record = await _dmarc_at(resolver, name)
        if record is None:
            continue
        if name == domain:
            return record
        is_suffix = record.tags.get("psd") == "y"
        if is_suffix and found:
            break  # the organisation is the one below the suffix
        found.append(record)
        if is_suffix or record.tags.get("psd") == "n":
            break
    return found[-1] if found else None


def tree_walk(domain: str) -> list[str]:
    """Return the names to look at, in this order."""
    labels = domain.lower().rstrip(".").split(".")
    parents = labels[-_MOST_LABELS:][1:]
    return [domain, *(".".join(parents[start:]) for start in range(len(parents)))]


async def _dmarc_at(resolver: dns.asyncresolver.Resolver, name: str) -> DmarcRecord | None:
    """Return the record at this name; several count as none."""
    records = [
        (text, tags)
        for text in await _texts(resolver, f"_dmarc.{name}")
        if (tags := _tags(text)) is not None
    ]
    return DmarcRecord(name, *records[0]) if len(records) == 1 else None


def _tags(text: str) -> dict[str, str] | None:
    """Return the tags of a DMARC record; None if it is something else."""
    pairs = [each.partition("=") for each in text.split(";")]
    tags = [(name.strip().lower(), value.strip()) for name, _, value in pairs if name.strip()]
    if not tags or tags[0][0] != "v" or tags[0][1].upper() != "DMARC1":
        return None
    return dict(tags)


def _is_spf(text: str) -> bool:
    return text.lower() == "v=spf1" or text.lower().startswith("v=spf1 ")


async def _texts(resolver: dns.asyncresolver.Resolver, name: str) -> list[str]:
    """Return the TXT records of a name; none if it does not exist. `DnsUnavailable`."""
    try:
        answer = await resolver.resolve(name, "TXT")
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except (dns.exception.DNSException, OSError) as exc:
        raise DnsUnavailable("DNS does not answer") from exc
    return [b"".join(each.strings).decode("utf-8", "replace") for each in answer]


class DomainRecords:
    """Looks up the records of domains that messages are sent from."""

    def __init__(self, selector: str, resolver: dns.asyncresolver.Resolver | None = None) -> None:
        self._selector = selector
        self._resolver = resolver

    async def faults(self, domain: str) -> list[RecordFinding] | None:
        """Return what is not as it should be; None if DNS does not answer."""
        resolver = self._resolver or resolver_of_this_machine()
        if resolver is None:
            return None
        try:
            found = await check_domain(resolver, domain, self._selector)
        except DnsUnavailable:
            return None
        return [each for each in found if each.state is not RecordState.FINE]
