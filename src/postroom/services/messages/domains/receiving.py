"""What a domain says about mail to it (MX and its TLS, TLS-RPT), and what receivers look at:
BIMI, and the names of our servers."""

from __future__ import annotations

import asyncio
import ipaddress
import smtplib
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from postroom.services.messages.domains.dns_lookups import DnsLookups
from postroom.services.messages.domains.record_findings import (
    DnsRecord,
    RecordFinding,
    RecordState,
)

SMTP_PORT: Final = 25
_SECONDS: Final = 5.0
_NO_SERVERS: Final = "the IP addresses that your mail server sends from are not known"

MayTry = Callable[[str], bool]
"""Return whether a connection to an IP address is allowed."""


async def check_exchangers(
    dns: DnsLookups,
    domain: str,
    may_try: MayTry,
    port: int = SMTP_PORT,
    *,
    for_bounces: bool = False,
) -> list[RecordFinding]:
    """Say who receives replies, or bounces, and whether encrypted. `DnsUnavailable`.

    Anyone can publish any MX, so all its addresses are judged before a connection to the first."""
    mx, tls = "MX", "TLS of the MX"
    if for_bounces:
        mx, tls = f"MX of {domain}", f"TLS of the MX of {domain}"
    hosts = [each for each in await dns.exchangers(domain) if each not in ("", ".")]
    if not hosts:
        lost = "bounces do not" if for_bounces else "replies do not"
        return [
            RecordFinding(
                mx,
                RecordState.WRONG if for_bounces else RecordState.WEAK,
                f"there is none: {lost} arrive, and some receivers refuse mail from domains that"
                " cannot receive any",
                "Publish the host that receives your mail.",
                DnsRecord(domain, "MX", f"10 mail.{domain}."),
            )
        ]
    found = RecordFinding(mx, RecordState.FINE, ", ".join(hosts))
    addresses = await dns.addresses(hosts[0])
    if not addresses or not all(map(may_try, addresses)):
        text = f"not tried: {hosts[0]} does not have a public IP address"
        return [found, RecordFinding(tls, RecordState.INFO, text)]
    tried = await asyncio.to_thread(_try_tls, tls, hosts[0], addresses[0], port)
    return [found, tried]


class _PinnedSmtp(smtplib.SMTP):
    """A connection to an IP address that was looked up before."""

    def __init__(self, host: str, address: str, port: int) -> None:
        self._pinned = address
        super().__init__(host, port, timeout=_SECONDS)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return socket.create_connection((self._pinned, port), timeout)


def _try_tls(kind: str, host: str, address: str, port: int) -> RecordFinding:
    """Begin TLS as another mail server would, and send nothing."""
    try:
        with _PinnedSmtp(host, address, port) as connection:
            connection.ehlo()
            if not connection.has_extn("starttls"):
                text = f"{host} does not offer STARTTLS: mail to you is not encrypted"
                return RecordFinding(kind, RecordState.WEAK, text, "Turn TLS on at your server.")
            connection.starttls(context=ssl.create_default_context())
    except ssl.SSLError as exc:
        text = f"the certificate of {host} is not valid ({exc.reason or 'unknown reason'})"
        return RecordFinding(kind, RecordState.WEAK, text, "Renew it.")
    except (OSError, smtplib.SMTPException):
        text = f"not tried: {host} cannot be reached at port {port} from this machine"
        return RecordFinding(kind, RecordState.INFO, text)
    return RecordFinding(kind, RecordState.FINE, f"{host} offers TLS with a valid certificate")


async def check_policies(dns: DnsLookups, domain: str) -> list[RecordFinding]:
    """Look for records that are useful, but not needed. `DnsUnavailable`."""
    wanted = (
        (
            "TLS-RPT",
            f"_smtp._tls.{domain}",
            "v=TLSRPTv1",
            f"v=TLSRPTv1; rua=mailto:postmaster@{domain}",
            "there is none: nobody tells you when TLS to your server fails (RFC 8460)",
        ),
        (
            "BIMI",
            f"default._bimi.{domain}",
            "v=BIMI1",
            f"v=BIMI1; l=https://{domain}/logo.svg; a=",
            "there is none: some email programs show a logo if there is one and DMARC is enforced;"
            " most want a certificate for it, too",
        ),
    )
    found = []
    for kind, name, begin, example, text in wanted:
        records = [each for each in await dns.texts(name) if each.startswith(begin)]
        if records:
            found.append(RecordFinding(kind, RecordState.FINE, records[0]))
        else:
            record = DnsRecord(name, "TXT", example)
            found.append(RecordFinding(kind, RecordState.INFO, text, record=record))
    return found


async def check_names(dns: DnsLookups, servers: Sequence[str], domain: str) -> list[RecordFinding]:
    """Say whether the IP addresses of our servers have names that lead back to them (PTR): large
    providers refuse mail from others. `DnsUnavailable`."""
    if not servers:
        return [
            RecordFinding(
                "PTR",
                RecordState.INFO,
                f"not looked up: {_NO_SERVERS}",
                "Set sending_addresses, unless a provider sends your emails.",
            )
        ]
    found = []
    for address in servers:
        kind = f"PTR of {address}"
        hosts = await dns.hosts(address)
        back = [each for each in hosts if address in await dns.addresses(each)]
        if back:
            found.append(RecordFinding(kind, RecordState.FINE, back[0]))
            continue
        text = "the IP address has no name: Gmail and others refuse mail from it"
        if hosts:
            text = f"{hosts[0]} does not lead back to it: Gmail and others refuse mail from it"
        advice = "The provider of the IP address can set its name; the name must lead back to it."
        record = DnsRecord(ipaddress.ip_address(address).reverse_pointer, "PTR", f"mail.{domain}.")
        found.append(RecordFinding(kind, RecordState.WRONG, text, advice, record))
    return found
