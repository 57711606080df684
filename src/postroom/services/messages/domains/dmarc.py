"""DMARC (RFC 9989): the record that applies to a domain.

It is found by the tree walk of section 4.10: from the domain itself up to the last label, with a
short cut for names that have many.
"""

from __future__ import annotations

from typing import Final

import msgspec

from postroom.services.messages.domains.dns_lookups import DnsLookups
from postroom.services.messages.domains.record_findings import (
    DnsRecord,
    RecordFinding,
    RecordState,
)

_MOST_LABELS: Final = 8  # RFC 9989 4.10: from longer names, the walk continues with one label less


_LESS: Final = {"reject": "quarantine", "quarantine": "none"}
"""What receivers apply in test mode (RFC 9989 4.7, `t`)."""


class DmarcRecord(msgspec.Struct, frozen=True):
    """A DMARC record, and the domain that it was found at."""

    domain: str
    text: str
    tags: dict[str, str]


async def check_dmarc(dns: DnsLookups, domain: str) -> RecordFinding:
    record = await find_dmarc(dns, domain)
    if record is None:
        return RecordFinding(
            "DMARC",
            RecordState.WEAK,
            "there is none: Gmail, Yahoo and Microsoft ask bulk senders for one",
            f'Publish a TXT record at _dmarc.{domain}, such as "v=DMARC1; p=none".',
            DnsRecord(f"_dmarc.{domain}", "TXT", "v=DMARC1; p=none"),
        )
    return _judged(record, domain)


async def find_dmarc(dns: DnsLookups, domain: str) -> DmarcRecord | None:
    """Return the record whose policy applies to a domain (RFC 9989 4.10.1): its own, or that of its
    organisation, or that of the public suffix above it. `DnsUnavailable`."""
    found: DmarcRecord | None = None
    below = domain
    for name in tree_walk(domain):
        record = await _dmarc_at(dns, name)
        if record is not None:
            if name == domain:
                return record
            if record.tags.get("psd") == "y":  # the organisation is the one below the suffix
                return found if found is not None and found.domain == below else record
            found = record
            if record.tags.get("psd") == "n":
                break
        below = name
    return found


def tree_walk(domain: str) -> list[str]:
    """Return the names to look at, in this order."""
    labels = domain.lower().rstrip(".").split(".")
    parents = labels[-_MOST_LABELS:][1:]
    return [domain, *(".".join(parents[start:]) for start in range(len(parents)))]


async def _dmarc_at(dns: DnsLookups, name: str) -> DmarcRecord | None:
    """Return the record at this name; several count as none."""
    records = [
        (text, tags)
        for text in await dns.texts(f"_dmarc.{name}")
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


async def check_alignment(
    dns: DnsLookups, domain: str, envelope_domain: str
) -> RecordFinding | None:
    """Say whether the domain of the envelope sender belongs to the same organisation as the From
    domain, so that SPF counts for DMARC. None if they are the same. `DnsUnavailable`."""
    if not envelope_domain or envelope_domain == domain:
        return None
    kind = "Bounce domain"
    record = await find_dmarc(dns, domain)
    if record is not None and record.tags.get("aspf") == "s":
        text = f"{envelope_domain} is not aligned: the DMARC record of {domain} has aspf=s"
        advice = "Remove aspf=s, or rely on DKIM."
        return RecordFinding(kind, RecordState.WEAK, text, advice, _changed(record, aspf=None))
    ours, theirs = await organisation(dns, envelope_domain), await organisation(dns, domain)
    if ours == theirs:
        text = f"{envelope_domain} is aligned with {domain}: SPF counts for DMARC"
        return RecordFinding(kind, RecordState.FINE, text)
    text = f"{envelope_domain} belongs to another organisation than {domain}: SPF does not count"
    advice = f"Use a subdomain, such as bounces.{domain}, or make sure that emails are signed."
    return RecordFinding(kind, RecordState.WEAK, f"{text} for DMARC", advice)


async def organisation(dns: DnsLookups, domain: str) -> str:
    """Return the organisational domain (RFC 9989 4.10.2); without any record, a domain is its own.
    `DnsUnavailable`."""
    found = domain
    below = domain
    for name in tree_walk(domain):
        record = await _dmarc_at(dns, name)
        if record is not None:
            if record.tags.get("psd") == "y":
                return below
            found = name
            if record.tags.get("psd") == "n":
                return found
        below = name
    return found


def _judged(record: DmarcRecord, domain: str) -> RecordFinding:
    """Say what a record asks receivers to do."""
    shown = f"{record.text} (at _dmarc.{record.domain})"
    tags = record.tags
    policy = tags.get("p", "none")
    if record.domain != domain:
        policy = tags.get("sp", policy)
    if policy not in ("none", "quarantine", "reject"):
        text = f"the policy {policy!r} is unknown and counts as none: {shown}"
        name = "sp" if record.domain != domain and "sp" in tags else "p"
        return RecordFinding(
            "DMARC",
            RecordState.WRONG,
            text,
            "Use p=none, quarantine or reject.",
            _changed(record, **{name: "none"}),
        )
    if "pct" in tags:
        text = f"pct no longer counts (RFC 9989): {shown}"
        advice = "Use t=y to test a policy."
        return RecordFinding("DMARC", RecordState.INFO, text, advice, _changed(record, pct=None))
    if tags.get("t") == "y" and policy != "none":
        text = f"in test mode, so that {policy} counts as {_LESS[policy]} only: {shown}"
        advice = "Remove t=y when all is well."
        return RecordFinding("DMARC", RecordState.INFO, text, advice, _changed(record, t=None))
    return RecordFinding("DMARC", RecordState.FINE, shown)


def _changed(record: DmarcRecord, **tags: str | None) -> DnsRecord:
    """Return a record with other tags; None removes one."""
    changed = {name: value for name, value in (record.tags | tags).items() if value is not None}
    text = "; ".join(f"{name}={value}" for name, value in changed.items())
    return DnsRecord(f"_dmarc.{record.domain}", "TXT", text)
