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
| password reset links for one user | 3 | one per 20 minutes |
| password reset links that a network asks for | 20 | one per minute |
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from time import monotonic

from postroom.domain.rate_limits import RateLimit, RateLimiter, client_network, may_be_shared

_LONGEST_ADDRESS = 320


class LoginLimits:
    """Limits on login attempts. Unknown email addresses count like those of users."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._by_device = RateLimiter(RateLimit(10, 60), clock)
        self._by_address_and_network = RateLimiter(RateLimit(10, 60), clock)
        self._by_address = RateLimiter(RateLimit(20, 60), clock)
        self._by_network = RateLimiter(RateLimit(60, 15), clock)
        self._by_private_network = RateLimiter(RateLimit(300, 1), clock)
        self._by_session = RateLimiter(RateLimit(10, 60), clock)
        self._resets_by_address = RateLimiter(RateLimit(3, 20 * 60), clock)
        self._resets_by_network = RateLimiter(RateLimit(20, 60), clock)

    def take(self, address: str, place: str, device: str = "") -> int:
        """Count one attempt if it is allowed; return 0, or how many seconds to wait.

        `device` identifies a device that this user has logged in with before. It has its own count,
        so that strangers cannot lock it out.
        """
        if device:
            return self._by_device.take(device)
        network, who = client_network(place), _key(address)
        networks = self._by_private_network if may_be_shared(place) else self._by_network
        counted = (
            (networks, network),
            (self._by_address_and_network, f"{who} {network}"),
            (self._by_address, who),
        )
        return _take_all(counted)

    def forget(self, address: str, place: str, device: str = "") -> None:
        """Reset the counts after a login: of the device, or of the address on a new device. A login
        on a known device gives strangers no further attempts."""
        if device:
            self._by_device.forget(device)
            return
        who = _key(address)
        self._by_address.forget(who)
        self._by_address_and_network.forget(f"{who} {client_network(place)}")

    def take_in_session(self, session_id: str) -> int:
        """Count one password that was entered in a session; see `take`."""
        return self._by_session.take(session_id)

    def take_reset(self, address: str, place: str) -> int:
        """Count one password reset link that someone asks for; see `take`."""
        counted = (
            (self._resets_by_address, _key(address)),
            (self._resets_by_network, client_network(place)),
        )
        return _take_all(counted)

    def forget_session(self, session_id: str) -> None:
        self._by_session.forget(session_id)


def _take_all(counted: Sequence[tuple[RateLimiter, str]]) -> int:
    """Count an attempt if all limits allow it; return 0, or how many seconds to wait."""
    if wait := max(limit.wait(key) for limit, key in counted):
        return wait  # without counting, so that it takes no more memory
    for limit, key in counted:
        limit.count(key)
    return 0


def _key(address: str) -> str:
    """Return a key of fixed size, however much was typed."""
    counted = address.strip().lower()[:_LONGEST_ADDRESS]
    return hashlib.sha256(counted.encode(errors="replace")).hexdigest()
