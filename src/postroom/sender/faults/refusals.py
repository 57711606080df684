"""Finds out whether one unknown reply refuses nearly all recipients: then it is not about them.

The last results of this sender are kept in memory, because a row that all senders change with every
email would cost too much. After a few refusals by one reply, senders share them in the store, so
that all of them together meet only as many as one would alone:

| table   | partition   | row        | holds                                                       |
|---------|-------------|------------|-------------------------------------------------------------|
| `holds` | `suspicion` | the sender | `Refusal`: the reply, without what differs each time;       |
|         |             |            | `Refused`: the recipients; `At`: when the row was written   |
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.messages.delivery.providers import provider_of
from postroom.services.entities import read
from postroom.services.messages.sending.hold_rows import TABLE
from postroom.services.messages.sending.holds import ACCOUNT, Fault, Refusal, provider_key
from postroom.storage import Entity, KeyRange, NotFound, Store, Value
from postroom.transport.contract import FaultScope, Result, same_reply_key

_PARTITION: Final = "suspicion"
_KEPT: Final = timedelta(minutes=1)
_FRESH: Final = timedelta(seconds=10)
"""Senders that meet the same fault do so at about the same time."""
_LONGEST_KEY: Final = 1000
_LAST: Final = 50
_FEW: Final = 4
"""Refusals after which a sender stops and compares. Emails in progress at that moment may be
refused as well, but no more: the transport then starts one email at a time."""
ENOUGH: Final = 12
"""Refusals by one reply, at all senders, that prove that it is not about the recipients."""

REASON: Final = "The mail server is refusing nearly all recipients with the same reply"


class _Refused(msgspec.Struct, frozen=True):
    key: str
    refusal: Refusal


class Suspicion(msgspec.Struct, frozen=True):
    """One reply has refused most recipients, but only a few so far. `key` is what such replies have
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
        return suspicion if len(self.recently_refused_by(suspicion.key)) >= _FEW else None

    def _refused_by(self, key: str) -> tuple[Refusal, ...]:
        return tuple(
            each.refusal for each in self._last if isinstance(each, _Refused) and each.key == key
        )

    def recently_refused_by(self, key: str) -> tuple[Refusal, ...]:
        """Return who was refused by such a reply since it began to refuse most recipients. All of
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
            # Others accept our mail: the problem is this provider.
            provider = provider_key(refused[0].address)
            return Fault(FaultScope.PROVIDER, provider, REASON, reply, key, refused)
        return Fault(FaultScope.ACCOUNT, ACCOUNT, REASON, reply, key, refused)


class SharedRefusals(msgspec.Struct, frozen=True):
    """The recipients that one reply has refused within the last minute, at any sender. `fresh` of
    them were reported within the last seconds."""

    refused: tuple[Refusal, ...]
    fresh: int


class SharedSuspicions:
    """The suspicions of all senders, in the store."""

    def __init__(self, store: Store, owner: str) -> None:
        self._table = store.table(TABLE)
        self._owner = owner

    async def share(self, key: str, refused: tuple[Refusal, ...]) -> None:
        """Share with other senders who was refused by such a reply here."""
        properties: dict[str, Value] = {
            "At": clock.now(),
            "Refusal": key[:_LONGEST_KEY],
            "Refused": msgspec.json.encode(refused).decode(),
        }
        await self._table.upsert(Entity(_PARTITION, self._owner, properties))

    async def refused_by(self, key: str) -> SharedRefusals:
        """Return who was refused by such a reply, at all senders."""
        now, found, fresh = clock.now(), dict[Refusal, None](), 0
        async for row in self._table.scan(KeyRange.only(_PARTITION)):
            age = now - read(row, "At", datetime)
            if age > _KEPT:
                with suppress(NotFound):
                    await self._table.delete(_PARTITION, row.row)
            elif read(row, "Refusal", str) == key[:_LONGEST_KEY]:
                refused = msgspec.json.decode(read(row, "Refused", str), type=list[Refusal])
                found |= dict.fromkeys(refused)
                fresh += len(refused) if age <= _FRESH else 0
        return SharedRefusals(tuple(found), fresh)
