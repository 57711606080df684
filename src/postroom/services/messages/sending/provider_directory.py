"""Which provider receives the mail of a domain: by the domain's mail server in DNS (MX).

| table      | partition | row        | holds                                        |
|------------|-----------|------------|----------------------------------------------|
| `throttle` | `mx`      | the domain | Provider; Until: when it is looked up again  |

Domains are looked up only while a provider is limited. A domain whose mail server cannot be found
is its own provider. If the answer takes too long, the last known provider counts for a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, domain_of
from postroom.domain.messages.delivery.providers import (
    Provider,
    is_known_domain,
    provider_of,
    provider_of_mx,
)
from postroom.mail.wire_addresses import ascii_domain
from postroom.services.entities import read
from postroom.services.messages.domains.dns_lookups import (
    DnsLookups,
    DnsUnavailable,
    is_reserved,
)
from postroom.services.messages.sending.provider_rates import TABLE
from postroom.storage import Entity, Store, Value

log = logging.getLogger(__name__)

_PARTITION: Final = "mx"
_FOUND_SECONDS: Final = 7 * 86_400.0
_MISSING_SECONDS: Final = 3_600.0
_LATE_SECONDS: Final = 60.0
_LOOKUP_SECONDS: Final = 1.5
_PAGE_SECONDS: Final = 2.0
"""The emails of a page wait no longer for the lookups of their domains."""
_AT_ONCE: Final = 20
_MOST_KNOWN: Final = 20_000


class _Known(msgspec.Struct, frozen=True):
    provider: Provider
    until: float


class ProviderDirectory:
    """`dns` is None if it may not be asked: then the domain alone decides."""

    def __init__(self, store: Store, dns: DnsLookups | None) -> None:
        self._table = store.table(TABLE)
        self._dns = dns
        self._known: dict[str, _Known] = {}
        """By domain, the least recently used one first."""
        self._lookups = asyncio.Semaphore(_AT_ONCE)

    def provider(self, address: Address) -> Provider:
        """Return the provider of an address, as far as it has been looked up."""
        found = self._known.get(domain_of(address).lower())
        return Provider(ascii_domain(provider_of(address))) if found is None else found.provider

    async def look_up(self, addresses: Collection[Address]) -> None:
        """Find the providers of these addresses, from now on known to `provider`."""
        if self._dns is None:
            return
        now = clock.timestamp()
        missing: set[str] = set()
        for domain in {domain_of(each).lower() for each in addresses}:
            if is_known_domain(domain) or is_reserved(domain):
                continue
            if self._is_known(domain, now):
                self._remember(domain, self._known[domain])
            else:
                missing.add(domain)
        if missing:
            await self._find_soon(missing, now)

    async def _find_soon(self, domains: Collection[str], now: float) -> None:
        try:
            async with asyncio.timeout(_PAGE_SECONDS):
                await asyncio.gather(*(self._find(each, now) for each in domains))
        except TimeoutError:
            late = [each for each in domains if not self._is_known(each, now)]
            log.warning("the mail servers of %d domains are not known yet", len(late))
            for domain in late:
                before = self._known.get(domain)
                own = Provider(ascii_domain(domain)) if before is None else before.provider
                self._remember(domain, _Known(own, now + _LATE_SECONDS))

    def _is_known(self, domain: str, now: float) -> bool:
        known = self._known.get(domain)
        return known is not None and known.until >= now

    def _remember(self, domain: str, known: _Known) -> None:
        self._known.pop(domain, None)
        self._known[domain] = known
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]

    async def _find(self, domain: str, now: float) -> None:
        name = ascii_domain(domain)
        async with self._lookups:
            row = await self._table.get(_PARTITION, name)
            if row is not None:
                known = _Known(
                    Provider(read(row, "Provider", str)), read(row, "Until", datetime).timestamp()
                )
                if known.until >= now:
                    self._remember(domain, known)
                    return
            host = await self._mail_server(name)
            provider = provider_of_mx(host) if host else Provider(name)
            until = now + (_FOUND_SECONDS if host else _MISSING_SECONDS)
            until_at = datetime.fromtimestamp(until, UTC)
            properties: dict[str, Value] = {"Provider": provider, "Until": until_at}
            await self._table.upsert(Entity(_PARTITION, name, properties))
            self._remember(domain, _Known(provider, until))

    async def _mail_server(self, domain: str) -> str:
        """Return the preferred mail server of a domain; empty if there is none."""
        assert self._dns is not None  # noqa: S101 - `look_up` has checked it
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                hosts = await self._dns.exchangers(domain)
        except (DnsUnavailable, TimeoutError):
            return ""
        return hosts[0].rstrip(".") if hosts else ""


async def stored_providers(store: Store, domains: Collection[Provider]) -> dict[Provider, Provider]:
    """Return the providers that receive the mail of these domains, as senders have found out last.
    Domains that nobody has looked up are left out."""
    table = store.table(TABLE)
    wanted = [each for each in domains if not is_known_domain(each)]
    rows = await asyncio.gather(*(table.get(_PARTITION, ascii_domain(each)) for each in wanted))
    return {
        domain: Provider(read(row, "Provider", str))
        for domain, row in zip(wanted, rows, strict=True)
        if row is not None
    }
