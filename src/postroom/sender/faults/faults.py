"""Faults that are not the recipient's: stops what they affect, opens holds and probes them.

Holds are read from the store at most twice per second. A fault that this sender has just met counts
immediately: everything within its scope stops, and the hold is written before the page is settled.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.messages.refs import MessageRef
from postroom.mail.mailing import Recipient
from postroom.sender.faults.refusals import ENOUGH, RecentResults, SharedSuspicions, Suspicion
from postroom.sender.sender_settings import SenderServices
from postroom.services.messages.sending.holds import (
    ACCOUNT,
    Fault,
    Hold,
    HoldKey,
    Holds,
    Refusal,
    hold_key,
    message_key,
    opened,
    provider_key,
)
from postroom.storage import StoreError
from postroom.transport.contract import FaultScope, Result, ResultKind

log = logging.getLogger(__name__)

_FRESH_SECONDS: Final = 0.5
_COMPARE_SECONDS: Final = 0.5
_COMPARED_SECONDS: Final = 60.0
_MORE: Final = 2
"""Further refusals after which a suspicion is compared again."""
_NONE: Final = Holds()


class HoldAdmission(msgspec.Struct, frozen=True):
    """The recipients of a page that may be sent to now; `probes` has the holds that some of them
    probe."""

    recipients: list[Recipient]
    probes: dict[Address, HoldKey] = {}


class Faults:
    def __init__(
        self,
        services: SenderServices,
        owner: str,
        stop: Callable[[MessageRef | None], None],
        throttled: Callable[[Address, Result], None] | None = None,
        rest_after: Callable[[Address, Result], timedelta] = lambda *_: timedelta(),
    ) -> None:
        """`stop` stops sending: one message, or all. `throttled` is called with the throttling
        reply that opens a hold, and lowers the rate of that provider. `rest_after` returns the
        minimum duration of the hold after such a reply."""
        self._service = services.holds
        self._throttled = throttled
        self._rest_after = rest_after
        self._stop = stop
        self._recent = RecentResults()
        self._known = _NONE
        self._read_at = -math.inf
        self._reading = asyncio.Lock()
        self._met: dict[HoldKey, Fault] = {}
        """Faults that are not in the store yet."""
        self._suspicions = SharedSuspicions(services.store, owner)
        self._suspected: Suspicion | None = None
        """To be compared with other senders; until then nothing is sent."""
        self._compared = ("", 0, -math.inf)
        """The suspicion that was compared last, with how many refusals, and when."""
        self._comparing = asyncio.Lock()

    # -- before sending ------------------------------------------------------------------------

    async def holds(self) -> Holds:
        """Return the holds as they were at most half a second ago, with the faults met since. Never
        raises: during a store outage, the last known holds count."""
        if clock.monotonic() - self._read_at >= _FRESH_SECONDS:
            async with self._reading:
                if clock.monotonic() - self._read_at >= _FRESH_SECONDS:
                    await self._read()
        if not self._met:
            return self._known
        now = clock.now()
        met = [opened(fault, None, now) for fault in self._met.values()]
        return Holds([*met, *self._known.by_key.values()])

    async def fresh_holds(self) -> Holds:
        """Return the holds as they are now."""
        self._read_at = -math.inf
        return await self.holds()

    async def _read(self) -> None:
        read_at = clock.monotonic()
        try:
            self._known = await self._service.open_holds()
        except StoreError as exc:
            log.warning("holds cannot be read: %s", exc)
        self._read_at = read_at

    async def admit(self, ref: MessageRef, recipients: Sequence[Recipient]) -> HoldAdmission:
        """Leave out held recipients, except for one for each probe that is due."""
        holds = await self.holds()
        if not holds:
            return HoldAdmission(list(recipients))
        going: list[Recipient] = []
        covered: dict[HoldKey, list[Recipient]] = {}
        for recipient in recipients:
            hold = holds.covering(ref, recipient.address)
            if hold is None:
                going.append(recipient)
            else:
                covered.setdefault(hold.key, []).append(recipient)
        probes: dict[Address, HoldKey] = {}
        for key, waiting in covered.items():
            if await self.may_probe(holds.by_key[key]):
                # A random one: the first recipient may have another problem.
                chosen = random.choice(waiting)  # noqa: S311
                probes[chosen.address] = key
                going.append(chosen)
        return HoldAdmission(going, probes)

    async def may_probe(self, hold: Hold) -> bool:
        """Claim the probe of this hold if it is due; return whether we got it."""
        if hold.key in self._met or not hold.is_due(clock.now()):
            return False
        claimed = await self._service.claim_probe(hold.key)
        self._read_at = -math.inf
        return claimed is not None

    # -- while sending -------------------------------------------------------------------------

    def listener(
        self, ref: MessageRef, page: int, tried: Callable[[Address], bool]
    ) -> FaultListener:
        """Return the listener for the results of a page. `tried` returns whether a recipient had an
        attempt before: then its refusal proves nothing new."""
        return FaultListener(self, ref, page, tried, self._recent.accepted)

    def met(self, ref: MessageRef, address: Address, result: Result) -> None:
        """Note a result that is not the recipient's fault."""
        key = hold_key(result.scope, ref, address)
        reason = result.reason or "The mail server does not accept our mail"
        is_paced = self._throttled is not None and result.is_throttling
        if self._throttled is not None and is_paced and not self._is_held(key):
            self._throttled(address, result)
        rest = self._rest(address, result)
        fault = Fault(_scope(result.scope), key, reason, result.reply, rest=rest, is_paced=is_paced)
        self._note(ref, fault)

    def _rest(self, address: Address, result: Result | None) -> timedelta:
        if result is None or not result.is_throttling:
            return timedelta()
        return self._rest_after(address, result)

    def has_met_provider(self, address: Address) -> bool:
        """Return whether emails to the provider of an address are held, as far as we know."""
        return self._is_held(provider_key(address))

    def _is_held(self, key: HoldKey) -> bool:
        return key in self._met or key in self._known

    def refused(self, refusal: Refusal, result: Result) -> None:
        """Note a refusal by an unknown reply."""
        found = self._recent.refused(refusal, result)
        if isinstance(found, Fault):
            self._note(refusal.ref, found)
        elif found is not None:
            self._suspect(found)

    def _suspect(self, suspicion: Suspicion) -> None:
        key, refusals, compared_at = self._compared
        is_known = (
            key == suspicion.key
            and len(self._recent.recently_refused_by(key)) < refusals + _MORE
            and clock.monotonic() - compared_at < _COMPARED_SECONDS
        )
        if self._suspected is None and not is_known:
            self._suspected = suspicion
            self._stop(None)

    def _note(self, ref: MessageRef, fault: Fault) -> None:
        if fault.key in self._met or (fault.key in self._known and not fault.refused):
            return
        self._met[fault.key] = fault
        log.warning("a hold for %s: %s (%s)", fault.key, fault.reason, fault.reply)
        if fault.scope is not FaultScope.PROVIDER:
            self._stop(ref if fault.scope is FaultScope.MESSAGE else None)

    def has_met(self, ref: MessageRef) -> bool:
        """Return whether a fault, or the suspicion of one, has just stopped this message."""
        is_suspected = self._suspected is not None
        return is_suspected or ACCOUNT in self._met or message_key(ref) in self._met

    # -- after sending -------------------------------------------------------------------------

    async def conclude(
        self, probes: dict[Address, HoldKey], results: dict[Address, Result | None]
    ) -> None:
        """Record new holds and the results of probes. During a store outage, new holds wait for the
        next page, and probes for their lease to expire."""
        if not probes and not self._met and self._suspected is None:
            return
        try:
            await self._compare()
            await self._open()
            for address, key in probes.items():
                result = results.get(address)
                await self._service.probed(key, result, self._rest(address, result))
        except StoreError as exc:
            log.warning("holds could not be written: %s", exc)
        self._read_at = -math.inf

    async def _open(self) -> None:
        """Write the holds for the faults that we have met. These count until the holds are known,
        so that a late reply is not taken for a new fault."""
        faults = list(self._met.values())
        if not faults:
            return
        for fault in faults:
            await self._service.open(fault)
        async with self._reading:
            await self._read()
        for fault in faults:
            self._met.pop(fault.key, None)

    async def _compare(self) -> None:
        """Find out whether the reply that refuses most recipients here does so at other senders,
        too. They get a moment to share their refusals."""
        async with self._comparing:
            suspicion = self._suspected
            mine: tuple[Refusal, ...] = ()
            if suspicion is None:
                return
            try:
                for seconds in (0.0, _COMPARE_SECONDS):
                    await asyncio.sleep(seconds)
                    mine = self._recent.recently_refused_by(suspicion.key)
                    await self._suspicions.share(suspicion.key, mine)
                    shared = await self._suspicions.refused_by(suspicion.key)
                    if shared.fresh < ENOUGH or shared.fresh == len(mine):
                        continue  # too few, or no other sender has met it
                    fault = self._recent.fault(suspicion, shared.refused)
                    if fault is not None:
                        self._note(shared.refused[0].ref, fault)
                        return
            finally:
                self._suspected = None
                self._compared = (suspicion.key, len(mine), clock.monotonic())
                self._read_at = -math.inf

    async def is_account_held(self) -> bool:
        """Return whether nothing at all can be sent."""
        return ACCOUNT in await self.holds()


class FaultListener:
    """Gets each result immediately, so that a fault of ours does not reach many recipients."""

    def __init__(
        self,
        faults: Faults,
        ref: MessageRef,
        page: int,
        tried: Callable[[Address], bool],
        accepted: Callable[[Address], None],
    ) -> None:
        self.accepted = accepted
        self._faults = faults
        self._ref = ref
        self._page = page
        self._tried = tried

    def failed(self, address: Address, result: Result) -> None:
        if result.kind is ResultKind.HELD:
            self._faults.met(self._ref, address, result)
        elif result.is_unknown_refusal and not self._tried(address):
            self._faults.refused(Refusal(self._ref, self._page, address), result)


def _scope(scope: FaultScope) -> FaultScope:
    """Return the scope of a hold; if a fault has none, the account."""
    return FaultScope.ACCOUNT if scope is FaultScope.RECIPIENT else scope
