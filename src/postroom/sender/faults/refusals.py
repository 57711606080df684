"""The last results of this sender: whether one reply refuses nearly everybody.

Kept in the memory of each sender, not shared: a row that all senders change with every email would
cost more than the few recipients that a second sender may touch before it hears of the hold.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.providers import provider_of
from postroom.services.messages.holds import ACCOUNT, Fault, Refusal, provider_key
from postroom.transport.contract import Result, Scope
from postroom.transport.replies import same_reply_key

_LAST: Final = 50
_FEWEST: Final = 15
"""Refusals by one reply that are enough if they are most of what is known. Fewer than half of the
last 50, so that two senders with their connections together do not touch more than 50."""

REASON: Final = "The mail server refuses nearly all recipients with the same reply"


class _Refused(msgspec.Struct, frozen=True):
    key: str
    refusal: Refusal


class RecentResults:
    def __init__(self) -> None:
        self._last: deque[Address | _Refused] = deque(maxlen=_LAST)
        # Looked up once: it is called for every email.
        self.accepted = self._last.append

    def refused(self, refusal: Refusal, result: Result) -> Fault | None:
        """Note a refusal by an unknown reply; return the fault if most recipients got the same."""
        key = same_reply_key(result.reply)
        self._last.append(_Refused(key, refusal))
        same = [each for each in self._last if isinstance(each, _Refused) and each.key == key]
        if len(same) < _FEWEST or 2 * len(same) <= len(self._last):
            return None
        refused = tuple(each.refusal for each in same)
        providers = {provider_of(each.address) for each in refused}
        elsewhere = any(
            not isinstance(each, _Refused) and provider_of(each) not in providers
            for each in self._last
        )
        self._last.clear()
        if len(providers) == 1 and elsewhere:
            # Others take our mail: it is this provider that does not.
            return Fault(
                Scope.PROVIDER, provider_key(refusal.address), REASON, result.reply, key, refused
            )
        return Fault(Scope.ACCOUNT, ACCOUNT, REASON, result.reply, key, refused)
