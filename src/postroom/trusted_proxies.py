"""Whose word about the visitor's address is believed."""

from __future__ import annotations

import ipaddress


class TrustedProxies:
    """The setting `trusted_proxies`: addresses and networks, or `*` for everybody."""

    def __init__(self, setting: str) -> None:
        named = [each.strip() for each in setting.split(",") if each.strip()]
        self._everybody = "*" in named
        self._networks = [ipaddress.ip_network(each) for each in named if each != "*"]

    def __contains__(self, address: str) -> bool:
        if self._everybody:
            return True
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)
