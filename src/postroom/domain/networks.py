"""Networks of clients, for limits: who shares an address, and which addresses one client owns."""

from __future__ import annotations

import ipaddress


def client_network(host: str) -> str:
    """Return the network of one client: an IPv4 address, or an IPv6 /64, which every customer owns.
    Anything else is returned as it is."""
    address = _address(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host if address is None else str(address)


def may_be_shared(host: str) -> bool:
    """Return whether many clients may share this address: a private one may be a proxy's."""
    address = _address(host)
    return address is None or not address.is_global


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address
    return address
