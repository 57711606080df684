"""The last results of this sender: whether one reply refuses nearly everybody.

They are kept in memory: a row that all senders change with every email would cost too much. After a
few refusals by one reply a sender compares them with those of the others (`suspicions.py`).
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.providers import provider_of
from postroom.services.messages.holds import ACCOUNT, Fault, Refusal, provider_key
from postroom.transport.contract import Result, Scope, same_reply_key

_LAST: Final = 50
_FEW: Final = 4
"""Refusals after which a sender stops to compare. What is on its connections at that moment may be
refused as well, and nothing more: the transport begins one email at a time then."""
ENOUGH: Final = 12
"""Refusals by one reply, of all senders, that show that it is not about the recipients."""

REASON: Final = "The mail server is refusing nearly all recipients with the same reply"


class _Refused(msgspec.Struct, frozen=True):
    key: str
    refusal: Refusal


class Suspicion(msgspec.Struct, frozen=True):
    """One reply has refused most recipients so far, but only a few. `key` is what such replies have
    in common."""

    key: str
    reply: str


class RecentResults:
    def __init__(self) -> None:
        self._last: deque[Address | _Refused] = deque(maxlen=_LAST)
        # Looked up once: it is called for every email.
        self.accepted = self._last.append

    def refused(self, refusal: Refusal, result: Result) -> Fault | Suspicion | None:
        """Note a refusal by an unknown reply; return what follows if most recipients got it."""
        suspicion = Suspicion(same_reply_key(result.reply), result.reply)
        self._last.append(_Refused(suspicion.key, refusal))
        same = self._refused_by(suspicion.key)
        if 2 * len(same) > len(self._last) and (fault := self.fault(suspicion, same)) is not None:
            return fault
        return suspicion if len(self.lately_refused_by(suspicion.key)) >= _FEW else None

    def _refused_by(self, key: str) -> tuple[Refusal, ...]:
        return tuple(
            each.refusal for each in self._last if isinstance(each, _Refused) and each.key == key
        )

    def lately_refused_by(self, key: str) -> tuple[Refusal, ...]:
        """Return whom such a reply has refused since it began to refuse most recipients. All of
        the last 50 may have been accepted before."""
        refusals, most = 0, 0
        for results, each in enumerate(reversed(self._last), 1):
            refusals += isinstance(each, _Refused) and each.key == key
            if 2 * refusals > results:
                most = refusals
        return self._refused_by(key)[-most:] if most else ()

    def fault(self, suspicion: Suspicion, refused: tuple[Refusal, ...]) -> Fault | None:
        """Return the fault if the reply has refused enough recipients, of all senders."""
        if len(refused) < ENOUGH:
            return None
        key, reply = suspicion.key, suspicion.reply
        providers = {provider_of(each.address) for each in refused}
        elsewhere = any(
            not isinstance(each, _Refused) and provider_of(each) not in providers
            for each in self._last
        )
        self._last.clear()
        if len(providers) == 1 and elsewhere:
            # Others take our mail: it is this provider that does not.
            provider = provider_key(refused[0].address)
            return Fault(Scope.PROVIDER, provider, REASON, reply, key, refused)
        return Fault(Scope.ACCOUNT, ACCOUNT, REASON, reply, key, refused)
