"""How often somebody may try to log in as a user: the rule, without the store."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

TRIES = 10
WITHIN = timedelta(minutes=15)
FIRST_LOCK = timedelta(minutes=15)
LONGEST_LOCK = timedelta(hours=24)


class Tries(msgspec.Struct, frozen=True):
    """Tries since the last login. `locks` counts how often they were too many."""

    count: int = 0
    since: datetime | None = None
    locks: int = 0
    locked_until: datetime | None = None

    def is_locked(self, now: datetime) -> bool:
        return self.locked_until is not None and now < self.locked_until


def counted(tries: Tries, now: datetime) -> Tries | None:
    """With one try more, or None while no try is allowed.

    A try is counted before the password is looked at, so that many at the same time do not get
    more than their number; whoever logs in begins anew. The last of the tries locks the account:
    for a quarter of an hour, then for twice as long each time.
    """
    if tries.is_locked(now):
        return None
    count, since, locks = tries.count, tries.since, tries.locks
    if tries.locked_until is not None and now - tries.locked_until > LONGEST_LOCK:
        locks = 0
    if since is None or now - since > WITHIN:
        count, since = 0, now
    count += 1
    if count < TRIES:
        return Tries(count, since, locks, tries.locked_until)
    lock: timedelta = min(FIRST_LOCK * 2 ** min(locks, 10), LONGEST_LOCK)
    return Tries(0, None, locks + 1, now + lock)
