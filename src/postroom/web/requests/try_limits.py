"""How often somebody may try to log in here: counted in memory, so it costs an attacker's request
nothing but a look. What has to outlive a restart is in the store (`services/accounts/users.py`).

| who | attempts at once | then |
|---|---|---|
| a device that this user has logged in with before | 10 | one per minute |
| a network that tries one user | 10 | one per minute |
| all unknown devices that try one user | 20 | one per minute |
| a network that tries any users | 60 | one per 15 seconds |
| a private network, which may be a proxy that nobody has named | 300 | one per second |
| a session whose password is asked again | 10 | one per minute |
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from postroom.services.accounts.login_pace import Pace

_MOST_KEPT = 20_000  # requests from everywhere do not fill the memory
_LONGEST_ADDRESS = 320


class PaceLimit:
    """The same pace for each key."""

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
    """An IPv6 customer has a whole /64: it counts as one."""
    address = _address(place)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return place if address is None else str(address)


def is_private(place: str) -> bool:
    """Whether many visitors may share this address: those behind a proxy that nobody has named."""
    address = _address(place)
    return address is None or not address.is_global


class LoginLimits:
    """Attempts to log in. An address counts whether a user has it or not."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._by_device = PaceLimit(Pace(10, 60), clock)
        self._by_address_and_network = PaceLimit(Pace(10, 60), clock)
        self._by_address = PaceLimit(Pace(20, 60), clock)
        self._by_network = PaceLimit(Pace(60, 15), clock)
        self._by_private_network = PaceLimit(Pace(300, 1), clock)
        self._by_session = PaceLimit(Pace(10, 60), clock)

    def take(self, address: str, place: str, device: str = "") -> int:
        """Count one attempt if it is allowed; return 0, or how many seconds to wait.

        `device` names a device that the user of this address has logged in with before. It has a
        count of its own: nothing that strangers do keeps it out.
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
            return wait  # a network that has tried too often leaves no more in the memory
        for limit, key in counted:
            limit.count(key)
        return 0

    def forget(self, address: str, place: str, device: str = "") -> None:
        """Somebody has logged in: begin again for the device, or for an address whose password was
        known on a new device. What a known device does gives strangers no more attempts."""
        if device:
            self._by_device.forget(device)
            return
        who = _key(address)
        self._by_address.forget(who)
        self._by_address_and_network.forget(f"{who} {network_of(place)}")

    def take_in_session(self, session_id: str) -> int:
        """Count one password that somebody with a session has entered; see `take`."""
        return self._by_session.take(session_id)

    def forget_session(self, session_id: str) -> None:
        self._by_session.forget(session_id)


def _address(place: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(place.partition("%")[0])
    except ValueError:
        return None


def _key(address: str) -> str:
    """Of one size, however much was typed; no address is longer than what counts."""
    counted = address.strip().lower()[:_LONGEST_ADDRESS]
    return hashlib.sha256(counted.encode(errors="replace")).hexdigest()
