"""Limits on login attempts, counted in memory so that an attack causes no reads of the store.
Limits that must survive a restart are in the store (`services/accounts/users.py`).

| who | attempts at once | then |
|---|---|---|
| a device that the user has logged in with before | 10 | one per minute |
| a network that tries one user | 10 | one per minute |
| all unknown devices that try one user | 20 | one per minute |
| a network that tries any users | 60 | one per 15 seconds |
| a private network, which may be an unconfigured proxy | 300 | one per second |
| a session that is asked for the password again | 10 | one per minute |
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from postroom.services.accounts.login_pace import Pace

_MOST_KEPT = 20_000  # bounds the memory
_LONGEST_ADDRESS = 320


class PaceLimit:
    """A pace for each key."""

    def __init__(self, pace: Pace, clock: Callable[[], float] = monotonic) -> None:
        self._pace = pace
        self._clock = clock
        self._marks: OrderedDict[str, float] = OrderedDict()

    def wait(self, key: str) -> int:
        """Return in how many seconds the next attempt is allowed; 0 for now."""
        mark = self._marks.get(key, 0.0)
        return math.ceil(self._pace.wait(mark, self._clock()))

    def count(self, key: str) -> None:
        """Count one attempt."""
        self._marks[key] = self._pace.after(self._marks.get(key, 0.0), self._clock())
        self._marks.move_to_end(key)
        while len(self._marks) > _MOST_KEPT:
            self._marks.popitem(last=False)

    def take(self, key: str) -> int:
        """Count one attempt if it is allowed; return 0, or how many seconds to wait."""
        if wait := self.wait(key):
            return wait
        self.count(key)
        return 0

    def forget(self, key: str) -> None:
        self._marks.pop(key, None)


def network_of(place: str) -> str:
    """Return the network of an IP address: a /64 for IPv6, which one customer owns."""
    address = _address(place)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return place if address is None else str(address)


def is_private(place: str) -> bool:
    """Return whether many visitors may share this address, behind an unconfigured proxy."""
    address = _address(place)
    return address is None or not address.is_global


class LoginLimits:
    """Limits on login attempts. Unknown email addresses count like those of users."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._by_device = PaceLimit(Pace(10, 60), clock)
        self._by_address_and_network = PaceLimit(Pace(10, 60), clock)
        self._by_address = PaceLimit(Pace(20, 60), clock)
        self._by_network = PaceLimit(Pace(60, 15), clock)
        self._by_private_network = PaceLimit(Pace(300, 1), clock)
        self._by_session = PaceLimit(Pace(10, 60), clock)

    def take(self, address: str, place: str, device: str = "") -> int:
        """Count one attempt if it is allowed; return 0, or how many seconds to wait.

        `device` identifies a device that this user has logged in with before. It has its own count,
        so that strangers cannot lock it out.
        """
        if device:
            return self._by_device.take(device)
        network, who = network_of(place), _key(address)
        networks = self._by_private_network if is_private(place) else self._by_network
        counted = (
            (networks, network),
            (self._by_address_and_network, f"{who} {network}"),
            (self._by_address, who),
        )
        if wait := max(limit.wait(key) for limit, key in counted):
            return wait  # without counting, so that it takes no more memory
        for limit, key in counted:
            limit.count(key)
        return 0

    def forget(self, address: str, place: str, device: str = "") -> None:
        """Reset the counts after a login: of the device, or of the address on a new device. A known
        device's login gives strangers no more attempts."""
        if device:
            self._by_device.forget(device)
            return
        who = _key(address)
        self._by_address.forget(who)
        self._by_address_and_network.forget(f"{who} {network_of(place)}")

    def take_in_session(self, session_id: str) -> int:
        """Count one password that was entered in a session; see `take`."""
        return self._by_session.take(session_id)

    def forget_session(self, session_id: str) -> None:
        self._by_session.forget(session_id)


def _address(place: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(place.partition("%")[0])
    except ValueError:
        return None


def _key(address: str) -> str:
    """Return a key of fixed size, however much was typed."""
    counted = address.strip().lower()[:_LONGEST_ADDRESS]
    return hashlib.sha256(counted.encode(errors="replace")).hexdigest()
