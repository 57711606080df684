"""Questions to DNS.

dnspython is imported when it is used: it takes as long to load as a quarter of Postroom.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from postroom.errors import PostroomError

if TYPE_CHECKING:
    import dns.asyncresolver

_SECONDS: Final = 5.0
# RFC 2606 and RFC 6761: nobody can send from these, so there is nothing to look up.
_RESERVED: Final = re.compile(r"(^|\.)(example(\.(com|net|org))?|test|invalid|localhost|local)$")


class DnsUnavailable(PostroomError):
    """DNS did not answer."""


def is_reserved(domain: str) -> bool:
    """Return whether nobody can send from this domain."""
    return _RESERVED.search(domain) is not None


class DnsLookups:
    """Each lookup returns nothing for a name that does not exist, and raises `DnsUnavailable` if
    there is no answer."""

    def __init__(self, resolver: dns.asyncresolver.Resolver) -> None:
        self._resolver = resolver

    async def texts(self, name: str) -> list[str]:
        """Return the TXT records of a name."""
        found = await self._ask(name, "TXT")
        return [b"".join(each.strings).decode("utf-8", "replace") for each in found]

    async def exchangers(self, name: str) -> list[str]:
        """Return the hosts that receive mail for a domain, the preferred one first."""
        found = await self._ask(name, "MX")
        return [_host(each.exchange) for each in sorted(found, key=lambda each: each.preference)]

    async def addresses(self, name: str) -> list[str]:
        """Return the IPv4 and IPv6 addresses of a host."""
        found = [*await self._ask(name, "A"), *await self._ask(name, "AAAA")]
        return [each.address for each in found]

    async def hosts(self, address: str) -> list[str]:
        """Return the names of an IP address (PTR)."""
        import dns.reversename

        name = dns.reversename.from_address(address).to_text(omit_final_dot=True)
        return [_host(each.target) for each in await self._ask(name, "PTR")]

    async def _ask(self, name: str, kind: str) -> list[Any]:
        import dns.exception
        import dns.resolver

        try:
            return list(await self._resolver.resolve(name, kind))
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return []
        except (dns.exception.DNSException, OSError) as exc:
            raise DnsUnavailable("DNS does not respond") from exc


def lookups_of_this_machine() -> DnsLookups:
    """Return lookups with the resolver that this machine is configured with. `DnsUnavailable`."""
    import dns.asyncresolver
    import dns.resolver

    try:
        resolver = dns.asyncresolver.Resolver()
    except dns.resolver.NoResolverConfiguration as exc:
        raise DnsUnavailable("this machine has no DNS server configured") from exc
    resolver.lifetime = _SECONDS
    return DnsLookups(resolver)


def _host(name: Any) -> str:
    return str(name.to_text(omit_final_dot=True)).lower()
