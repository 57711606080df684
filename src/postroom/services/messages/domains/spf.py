"""SPF (RFC 7208): who may send for a domain, and whether our server is among them."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from postroom.errors import PostroomError
from postroom.services.messages.domains.dns_lookups import DnsLookups
from postroom.services.messages.domains.record_findings import (
    DnsRecord,
    RecordFinding,
    RecordState,
)

_Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MOST_LOOKUPS: Final = 10  # RFC 7208 4.6.4
_KIND: Final = "SPF"
_LOOKING_UP: Final = frozenset({"include", "a", "mx", "ptr", "exists", "redirect"})


class SpfVerdict(StrEnum):
    """What a record says about an address."""

    ALLOWED = "pass"
    FAIL = "fail"
    SOFT_FAIL = "softfail"
    NEUTRAL = "neutral"


_QUALIFIERS: Final = {
    "+": SpfVerdict.ALLOWED,
    "-": SpfVerdict.FAIL,
    "~": SpfVerdict.SOFT_FAIL,
    "?": SpfVerdict.NEUTRAL,
}


class _Term(msgspec.Struct, frozen=True):
    verdict: SpfVerdict
    name: str
    value: str
    """The domain or the network, with what follows a slash."""


class _Broken(PostroomError):
    """A record that receivers do not evaluate (`permerror`)."""


async def check_spf(
    dns: DnsLookups, domain: str, servers: Sequence[str] = (), kind: str = _KIND
) -> RecordFinding:
    """Say whether a domain's record is valid, and whether it allows our servers, of which these are
    the IP addresses. `DnsUnavailable`."""
    records = [each for each in await dns.texts(domain) if _is_spf(each)]
    proposal = DnsRecord(domain, "TXT", _proposal(records[0] if records else "", servers))
    if not records:
        advice = f'Publish a TXT record at {domain}, such as "{proposal.value}".'
        return RecordFinding(kind, RecordState.WEAK, "there is none", advice, proposal)
    if len(records) > 1:
        text = f"there are {len(records)}: receivers ignore all"
        merged = DnsRecord(domain, "TXT", _proposal(_merged(records), servers))
        return RecordFinding(kind, RecordState.WRONG, text, "Replace them with one.", merged)
    terms = _terms(records[0])
    if any(each.name == "all" and each.verdict is SpfVerdict.ALLOWED for each in terms):
        text = f"allows everyone to send: {records[0]}"
        ended = _proposal(_without_all(records[0]) + " ~all", servers)
        replacement = DnsRecord(domain, "TXT", ended)
        return RecordFinding(kind, RecordState.WEAK, text, "End it with ~all or -all.", replacement)
    reading = _Reading(dns)
    try:
        verdicts = {each: await reading.verdict(domain, each) for each in servers}
        lookups = max([reading.lookups, await _Reading(dns).count(domain)])
    except _Broken as exc:
        return RecordFinding(
            kind, RecordState.WRONG, f"receivers ignore it, because {exc}: {records[0]}", _SHORTEN
        )
    counted = f"{records[0]} ({lookups} of {MOST_LOOKUPS} DNS lookups)"
    if lookups > MOST_LOOKUPS:
        text = f"receivers ignore it, because it needs more DNS lookups than allowed: {counted}"
        return RecordFinding(kind, RecordState.WRONG, text, _SHORTEN)
    refused = [each for each, verdict in verdicts.items() if verdict is not SpfVerdict.ALLOWED]
    if refused:
        text = f"it does not allow {', '.join(refused)}, which your emails are sent from: {counted}"
        return RecordFinding(kind, RecordState.WRONG, text, "Replace it with this one.", proposal)
    if servers:
        return RecordFinding(kind, RecordState.FINE, f"allows {', '.join(servers)}: {counted}")
    return RecordFinding(kind, RecordState.FINE, counted)


_SHORTEN: Final = "Remove what you no longer use; ip4: and ip6: need no lookup."


class _Reading:
    """The evaluation of a record, with those that it includes."""

    def __init__(self, dns: DnsLookups) -> None:
        self._dns = dns
        self.lookups = 0

    async def count(self, domain: str) -> int:
        """Return how many lookups a receiver needs at most."""
        await self._walk(domain, None, 0)
        return self.lookups

    async def verdict(self, domain: str, address: str) -> SpfVerdict:
        """Return the verdict of a record on an IP address."""
        self.lookups = 0
        return await self._walk(domain, ipaddress.ip_address(address), 0) or SpfVerdict.NEUTRAL

    async def _walk(self, domain: str, ip: _Ip | None, depth: int) -> SpfVerdict | None:
        """Return the verdict of a record; without an address, look at all of it."""
        records = [each for each in await self._dns.texts(domain) if _is_spf(each)]
        if len(records) != 1:
            raise _Broken(f"{domain} has {len(records) or 'no'} SPF records")
        redirect = ""
        for term in _terms(records[0]):
            if term.name == "redirect":
                redirect = term.value
                continue
            if term.name in _LOOKING_UP:
                self._count()
            if await self._matches(term, domain, ip, depth):
                return term.verdict
        if redirect:
            self._count()
            return await self._walk(redirect, ip, depth + 1)
        return None

    def _count(self) -> None:
        self.lookups += 1
        if self.lookups > 3 * MOST_LOOKUPS:  # a loop, or nearly so
            raise _Broken(f"it needs more than {3 * MOST_LOOKUPS} DNS lookups")

    async def _matches(self, term: _Term, domain: str, ip: _Ip | None, depth: int) -> bool:
        target, _, length = term.value.partition("/")
        if "%" in target:  # macros depend on the email
            return False
        match term.name:
            case "all":
                return ip is not None
            case "include":
                return await self._walk(target, ip, depth + 1) is SpfVerdict.ALLOWED
            case "ip4" | "ip6":
                return ip is not None and _contains(term.value, ip)
            case "a" if ip is not None:
                return await self._has(target or domain, length, ip)
            case "mx" if ip is not None:
                hosts = (await self._dns.exchangers(target or domain))[:MOST_LOOKUPS]
                return any([await self._has(each, length, ip) for each in hosts])
            case "exists" if ip is not None:
                return bool(await self._dns.addresses(target))
        return False

    async def _has(self, host: str, length: str, ip: _Ip) -> bool:
        four, _, six = length.partition("//")
        bits = (four if ip.version == 4 else six).strip("/")
        return any(
            _contains(f"{each}/{bits}" if bits else each, ip)
            for each in await self._dns.addresses(host)
        )


def _contains(network: str, ip: _Ip) -> bool:
    try:
        found = ipaddress.ip_network(network, strict=False)
    except ValueError:
        raise _Broken(f"{network} is not a network") from None
    return ip.version == found.version and ip in found


def _terms(record: str) -> list[_Term]:
    found = []
    for word in record.split()[1:]:
        verdict = _QUALIFIERS.get(word[0])
        rest = word[1:] if verdict else word
        for mark in (":", "=", "/"):
            name, separator, value = rest.partition(mark)
            if separator and name.isalnum():
                value = f"/{value}" if mark == "/" else value
                break
        else:
            name, value = rest, ""
        found.append(_Term(verdict or SpfVerdict.ALLOWED, name.lower(), value))
    return found


def _proposal(record: str, servers: Sequence[str]) -> str:
    """Return a record that allows our servers, too."""
    ours = [f"ip{ipaddress.ip_address(each).version}:{each}" for each in servers]
    if not record:
        return " ".join(["v=spf1", *(ours or ["mx"]), "-all"])
    version, *words = record.split()
    return " ".join([version, *(each for each in ours if each not in words), *words])


def _merged(records: Sequence[str]) -> str:
    """Return one record for what several allow."""
    words = [word for each in sorted(records) for word in _without_all(each).split()[1:]]
    allowed = [each for each in dict.fromkeys(words) if not each.lower().startswith("redirect=")]
    return " ".join(["v=spf1", *allowed, "~all"])


def _without_all(record: str) -> str:
    return " ".join(each for each in record.split() if each.lower().lstrip("+-~?") != "all")


def _is_spf(text: str) -> bool:
    return text.lower() == "v=spf1" or text.lower().startswith("v=spf1 ")
