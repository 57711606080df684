"""Checks the DNS records of domains that lists send from."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from postroom.domain.errors import NotNow
from postroom.domain.messages.delivery.dkim_keys import DkimKey, DkimKeyState
from postroom.encryption import DecryptionError
from postroom.mail.wire_addresses import ascii_domain
from postroom.services.messages.checks.link_checks import is_public_address
from postroom.services.messages.domains.dkim_keys import DkimKeyService
from postroom.services.messages.domains.dkim_records import check_own_key, check_selector
from postroom.services.messages.domains.dmarc import check_alignment, check_dmarc
from postroom.services.messages.domains.dns_lookups import (
    DnsLookups,
    DnsUnavailable,
    is_reserved,
    lookups_of_this_machine,
)
from postroom.services.messages.domains.mta_sts import check_sts
from postroom.services.messages.domains.receiving import (
    SMTP_PORT,
    MayTry,
    check_exchangers,
    check_names,
    check_policies,
)
from postroom.services.messages.domains.record_findings import RecordFinding, RecordState
from postroom.services.messages.domains.spf import check_spf

if TYPE_CHECKING:
    import dns.asyncresolver


class OurSending(msgspec.Struct, frozen=True):
    """What the settings say about how emails are sent."""

    selector: str = ""
    """That of a mail server that signs, for domains without keys of ours."""
    addresses: tuple[str, ...] = ()
    """The IP addresses that the mail server sends from, if known."""
    envelope_domain: str = ""
    """The domain of the envelope sender, if it is not that of the From address."""


class DomainChecks:
    """Looks up what receivers look up. Without a resolver, the one of this machine is asked."""

    def __init__(
        self,
        keys: DkimKeyService,
        ours: OurSending,
        resolver: dns.asyncresolver.Resolver | None = None,
        *,
        is_online: bool = True,
        smtp_port: int = SMTP_PORT,
        may_try: MayTry = is_public_address,
    ) -> None:
        self.is_online = is_online
        self._keys = keys
        self._ours = ours
        self._resolver = resolver
        self._smtp_port = smtp_port
        self._may_try = may_try

    async def check(self, domain: str) -> list[RecordFinding]:
        """Return what there is to say about SPF, DKIM, DMARC and alignment. `DnsUnavailable`."""
        domain, dns, ours = ascii_domain(domain), self._dns(), self._ours
        envelope = ours.envelope_domain or domain
        found = await asyncio.gather(
            # Receivers check the SPF record of the envelope sender.
            check_spf(dns, domain, ours.addresses if envelope == domain else ()),
            self._dkim(domain),
            check_dmarc(dns, domain),
            check_alignment(dns, domain, ours.envelope_domain),
        )
        spf, dkim, dmarc, alignment = found
        return [spf, *dkim, dmarc, *([alignment] if alignment else [])]

    async def check_everything(self, domain: str) -> list[RecordFinding]:
        """Return all that there is to say about a domain. `DnsUnavailable`."""
        domain, dns, ours = ascii_domain(domain), self._dns(), self._ours
        found = await self.check(domain)
        for key in await self._keys.of_domain(domain):
            if key.state is DkimKeyState.NEW:
                found.append(await self.check_key(key))
        envelope = ours.envelope_domain or domain
        if envelope != domain:
            kind = f"SPF of {envelope}"
            found.append(await check_spf(dns, envelope, ours.addresses, kind))
            found += await check_exchangers(
                dns, envelope, self._may_try, self._smtp_port, for_bounces=True
            )
        more = await asyncio.gather(
            check_exchangers(dns, domain, self._may_try, self._smtp_port),
            check_names(dns, ours.addresses, domain),
            check_sts(dns, domain, self._may_try),
            check_policies(dns, domain),
        )
        return [*found, *(each for part in more for each in part)]

    async def findings(self, domain: str) -> tuple[list[RecordFinding], str]:
        """Return all findings, or why nothing was looked up."""
        if is_reserved(domain):
            return [], f"{domain} is reserved for examples: nobody can send from it."
        if not self.is_online:
            return [], "DNS is not checked: the setting online_checks is no."
        try:
            return await self.check_everything(domain), ""
        except DnsUnavailable as exc:
            return [], f"The records were not looked up: {exc}. Try again in a moment."

    async def faults(self, domain: str) -> list[RecordFinding] | None:
        """Return the problems found; None if DNS does not respond."""
        try:
            found = await self.check(domain)
        except DnsUnavailable:
            return None
        return [each for each in found if each.state in (RecordState.WEAK, RecordState.WRONG)]

    async def check_key(self, key: DkimKey) -> RecordFinding:
        """Return whether the record of a key is published. `DnsUnavailable`."""
        try:
            signer = await self._keys.signer(key.domain, key.selector)
        except DecryptionError as exc:
            return RecordFinding(f"DKIM {key.selector}", RecordState.WRONG, str(exc))
        return await check_own_key(self._dns(), key, signer)

    async def activate(self, domain: str, selector: str, *, without_check: bool = False) -> DkimKey:
        """Sign with a key once its record is published. `NotNow` if it is not, unless it is not to
        be checked; `NoSuch`."""
        key = await self._keys.get(domain, selector)
        if self.is_online and not without_check:
            try:
                found = await self.check_key(key)
            except DnsUnavailable as exc:
                raise NotNow(f"the record of {selector} cannot be looked up: {exc}") from exc
            if found.state is not RecordState.FINE:
                raise NotNow(found.text)
        return await self._keys.activate(domain, selector)

    async def _dkim(self, domain: str) -> list[RecordFinding]:
        keys = await self._keys.of_domain(domain)
        signing = [each for each in keys if each.state is DkimKeyState.SIGNING]
        if not signing:
            return [await check_selector(self._dns(), domain, self._ours.selector)]
        return [await self.check_key(each) for each in signing]

    def _dns(self) -> DnsLookups:
        return DnsLookups(self._resolver) if self._resolver else lookups_of_this_machine()
