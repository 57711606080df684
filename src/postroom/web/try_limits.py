"""How often somebody may try something here: counted in memory, so it costs an attacker's request
nothing but a look. What has to outlive a restart is in the store (`services/lockout.py`)."""

from __future__ import annotations

import hashlib
import ipaddress
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic

_MOST_KEPT = 20_000  # whoever comes from everywhere does not fill the memory
_LONGEST_ADDRESS = 320


class TryLimit:
    """At most `most` tries within `seconds`, of each key."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._tries: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, key: str) -> int:
        """Count one try; answers 0, or in how many seconds the next one is allowed."""
        now = self._clock()
        tries = self._tries.setdefault(key, deque())
        self._tries.move_to_end(key)
        while len(self._tries) > _MOST_KEPT:
            self._tries.popitem(last=False)
        while tries and now - tries[0] >= self._seconds:
            tries.popleft()
        if len(tries) >= self._most:
            return max(1, math.ceil(tries[0] + self._seconds - now))
        tries.append(now)
        return 0

    def forget(self, key: str) -> None:
        self._tries.pop(key, None)


def network_of(place: str) -> str:
    """An IPv6 customer has a whole /64: it counts as one."""
    try:
        address = ipaddress.ip_address(place.partition("%")[0])
    except ValueError:
        return place
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


class LoginLimits:
    """Tries to log in: of one address, whether a user has it or not, and from one place."""

    def __init__(self) -> None:
        self._by_address = TryLimit(10, 15 * 60)
        self._by_place = TryLimit(60, 15 * 60)
        self._by_session = TryLimit(10, 15 * 60)

    def wait(self, address: str, place: str) -> int:
        """Count one try; answers 0, or how many seconds to wait."""
        # The place first: one that has tried too often leaves no more addresses in the memory.
        return self._by_place.wait(network_of(place)) or self._by_address.wait(_key(address))

    def wait_in_session(self, session_id: str) -> int:
        """Count one password that somebody with a session has entered; see `wait`."""
        return self._by_session.wait(session_id)

    def forget_session(self, session_id: str) -> None:
        self._by_session.forget(session_id)

    def forget(self, address: str) -> None:
        """Somebody has logged in: tries begin anew for the address, not for the place."""
        self._by_address.forget(_key(address))


def _key(address: str) -> str:
    """Of one size, however much was typed; no address is longer than what counts."""
    counted = address.strip().lower()[:_LONGEST_ADDRESS]
    return hashlib.sha256(counted.encode(errors="replace")).hexdigest()
