"""Rate limits: the arithmetic, limits that are counted in memory, and which clients share one.

The generic cell rate algorithm (GCRA, ITU-T I.371): all that is kept of a limit is one moment,
`used_up`. Each event moves it on by one interval, from now if it has passed. An event is allowed
while that moment is less than a burst ahead of now.

Limits that must survive a restart, or hold for several processes, keep that moment in the store:
emails per second in `sender/limits`, passwords and codes in the user's row.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic

import msgspec

_MOST_KEYS = 20_000  # bounds the memory


class RateLimit(msgspec.Struct, frozen=True):
    """`burst` events at once, then one every `interval` seconds."""

    burst: int
    interval: float

    def wait(self, used_up: float, now: float) -> float:
        """Return in how many seconds the next event is allowed; 0 for now."""
        return max(0.0, used_up - (self.burst - 1) * self.interval - now)

    def after(self, used_up: float, now: float) -> float:
        """Return `used_up` after one more event."""
        return max(used_up, now) + self.interval

    def next_moment(self, used_up: datetime | None, now: datetime) -> datetime | None:
        """Return `used_up` after one more event; None if it is too early for one."""
        before = 0.0 if used_up is None else used_up.timestamp()
        if self.wait(before, now.timestamp()):
            return None
        return datetime.fromtimestamp(self.after(before, now.timestamp()), UTC)


class RateLimiter:
    """Applies one limit to each key separately, in memory."""

    def __init__(self, limit: RateLimit, clock: Callable[[], float] = monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._used_up: OrderedDict[str, float] = OrderedDict()

    def wait(self, key: str) -> int:
        """Return in how many seconds the next event is allowed; 0 for now."""
        return math.ceil(self.limit.wait(self._used_up.get(key, 0.0), self._clock()))

    def count(self, key: str) -> None:
        """Count one event."""
        self._used_up[key] = self.limit.after(self._used_up.get(key, 0.0), self._clock())
        self._used_up.move_to_end(key)
        while len(self._used_up) > _MOST_KEYS:
            self._used_up.popitem(last=False)

    def take(self, key: str) -> int:
        """Count one event if it is allowed; return 0, or how many seconds to wait."""
        if wait := self.wait(key):
            return wait
        self.count(key)
        return 0

    def forget(self, key: str) -> None:
        self._used_up.pop(key, None)

    def seconds_until_full(self, key: str) -> float:
        """Return in how many seconds the whole burst is available again."""
        return max(0.0, self._used_up.get(key, 0.0) - self._clock())

    def left(self, key: str) -> int:
        """Return how many events are allowed now."""
        used = self.seconds_until_full(key) / self.limit.interval
        return max(0, math.floor(self.limit.burst - used + 1e-6))  # rounding of the division


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
