"""The MTA-STS policy of a domain (RFC 8461): where others may send to, and only with TLS.

A policy that leaves out a mail server does harm: senders that follow it do not deliver to that one.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from postroom.services.messages.domains.dns_lookups import DnsLookups
from postroom.services.messages.domains.record_findings import (
    DnsRecord,
    RecordFinding,
    RecordState,
)

HTTPS_PORT: Final = 443
KIND: Final = "MTA-STS"
POLICY_KIND: Final = "MTA-STS policy"
_PATH: Final = "/.well-known/mta-sts.txt"
_SECONDS: Final = 5.0
_LONGEST: Final = 64 * 1024  # RFC 8461 3.3: senders may ignore what is longer
_LONGEST_AGE: Final = 31_557_600  # 3.2: a year
_MODES: Final = ("enforce", "testing", "none")


class StsPolicy(msgspec.Struct, frozen=True):
    mode: str
    hosts: tuple[str, ...]
    """Names of mail servers; `*.example.com` covers one more label."""

    def covers(self, host: str) -> bool:
        name = host.lower().rstrip(".")
        parent = name.partition(".")[2]
        return any(each == name or each == f"*.{parent}" for each in self.hosts)


def parse_policy(text: str) -> StsPolicy | str:
    """Return a policy, or what is wrong with it (RFC 8461 3.2)."""
    lines = [line for each in text.splitlines() if (line := each.strip())]
    pairs = [(name.strip(), value.strip()) for name, _, value in (e.partition(":") for e in lines)]
    fields = dict(reversed(pairs))  # the first one of a name counts
    if fields.get("version") != "STSv1":
        return "it does not contain “version: STSv1”"
    mode = fields.get("mode", "")
    if mode not in _MODES:
        return f"its mode must be enforce, testing or none, not {mode[:20]!r}"
    age = fields.get("max_age", "")
    if not re.fullmatch(r"[0-9]{1,10}", age) or int(age) > _LONGEST_AGE:
        return f"its max_age must be at most {_LONGEST_AGE:,} seconds, not {age[:20]!r}"
    hosts = tuple(value.lower().rstrip(".") for name, value in pairs if name == "mx")
    if mode != "none" and not hosts:
        return "it names no mail server (mx)"
    return StsPolicy(mode, hosts)


async def check_sts(
    dns: DnsLookups,
    domain: str,
    may_try: Callable[[str], bool],
    port: int = HTTPS_PORT,
    context: ssl.SSLContext | None = None,
) -> list[RecordFinding]:
    """Look for a record, and compare its policy with the mail servers. `DnsUnavailable`."""
    name = f"_mta-sts.{domain}"
    records = [each for each in await dns.texts(name) if each.startswith("v=STSv1")]
    if not records:
        text = (
            "there is none: others may send you mail without TLS (RFC 8461). It also needs a policy"
            f" at {_url(domain)}"
        )
        record = DnsRecord(name, "TXT", "v=STSv1; id=1")
        return [RecordFinding(KIND, RecordState.INFO, text, record=record)]
    found = RecordFinding(KIND, RecordState.FINE, records[0])
    return [found, await _check_policy(dns, domain, may_try, port, context)]


async def _check_policy(
    dns: DnsLookups,
    domain: str,
    may_try: Callable[[str], bool],
    port: int,
    context: ssl.SSLContext | None,
) -> RecordFinding:
    host = f"mta-sts.{domain}"
    addresses = await dns.addresses(host)
    if not addresses:
        text = f"{host} does not exist: others ignore the record"
        return RecordFinding(POLICY_KIND, RecordState.WEAK, text, f"Publish {_url(domain)}.")
    if not all(map(may_try, addresses)):
        text = f"not tried: {host} does not have a public IP address"
        return RecordFinding(POLICY_KIND, RecordState.INFO, text)
    try:
        async with asyncio.timeout(_SECONDS):
            answer = await _fetch(host, addresses[0], port, context)
    except ssl.SSLError as exc:
        text = f"the certificate of {host} is not valid ({exc.reason or 'unknown reason'})"
        return _useless(f"{text}: others ignore the policy", domain)
    except (OSError, ValueError, asyncio.IncompleteReadError):
        text = f"not tried: {host} cannot be reached from this machine"
        return RecordFinding(POLICY_KIND, RecordState.INFO, text)
    status, text = answer
    if status != 200:  # RFC 8461 3.3: redirects are not followed
        return _useless(f"{_url(domain)} responds with status {status}", domain)
    policy = parse_policy(text)
    if isinstance(policy, str):
        return _useless(f"others ignore the policy: {policy}", domain)
    return _judge(policy, [each for each in await dns.exchangers(domain) if each not in ("", ".")])


def _judge(policy: StsPolicy, exchangers: Sequence[str]) -> RecordFinding:
    missing = [each for each in exchangers if not policy.covers(each)]
    if policy.mode == "none":
        text = "its mode is none: others may send you mail without TLS"
        return RecordFinding(POLICY_KIND, RecordState.INFO, text)
    if missing:
        names = ", ".join(missing)
        is_enforced = policy.mode == "enforce"
        text = f"it does not name {names}: " + (
            "others do not deliver mail to it" if is_enforced else "the policy cannot be enforced"
        )
        state = RecordState.WRONG if is_enforced else RecordState.WEAK
        advice = f"Add “mx: {missing[0]}” to the policy, and change the id in the record."
        return RecordFinding(POLICY_KIND, state, text, advice)
    if policy.mode == "testing":
        text = "its mode is testing: others report mail without TLS, but deliver it"
        return RecordFinding(POLICY_KIND, RecordState.INFO, text)
    return RecordFinding(POLICY_KIND, RecordState.FINE, "enforced, and names all mail servers")


def _useless(text: str, domain: str) -> RecordFinding:
    advice = f"Publish a policy at {_url(domain)}, or remove the record."
    return RecordFinding(POLICY_KIND, RecordState.WEAK, text, advice)


async def _fetch(
    host: str, address: str, port: int, context: ssl.SSLContext | None
) -> tuple[int, str]:
    """Return the status and the text of the policy. The connection goes to an address that was
    checked before, whatever DNS says now."""
    if context is None:
        context = await asyncio.to_thread(ssl.create_default_context)
    reader, writer = await asyncio.open_connection(
        address, port, ssl=context, server_hostname=host, limit=_LONGEST
    )
    try:
        # HTTP/1.0: the text is not sent in chunks, and ends with the connection.
        writer.write(f"GET {_PATH} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode("ascii"))
        await writer.drain()
        raw = bytearray()
        while len(raw) < _LONGEST and (part := await reader.read(_LONGEST)):
            raw += part
    finally:
        writer.transport.abort()
    head, _, body = bytes(raw).partition(b"\r\n\r\n")
    words = head.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/"):
        raise ValueError("not an HTTP response")
    return int(words[1]), body.decode("utf-8", "replace")


def _url(domain: str) -> str:
    return f"https://mta-sts.{domain}{_PATH}"
