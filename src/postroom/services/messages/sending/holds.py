"""Holds: emails that wait because of a fault that is not their recipients'.

A fault of the mail server, of our account, of one provider or of one message opens a hold for its
scope. Emails within it wait, which does not count as an attempt; all others continue. From time to
time a single email probes whether the cause is gone; the first success lifts the hold.

This module decides and does no I/O; `hold_rows.py` stores holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NewType

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.delivery.providers import provider_of
from postroom.domain.messages.refs import MessageRef
from postroom.services.entities import read_optional
from postroom.storage import Entity, Value
from postroom.transport.contract import FaultScope, Result, ResultKind, same_reply_key

HoldKey = NewType("HoldKey", str)
"""`account`, `provider:gmail.com` or `message:REF`."""

ACCOUNT: Final = HoldKey("account")

INTERVALS: Final = (2, 4, 8, 15, 30, 60, 120, 300)
"""Seconds between probes: we notice the end of an outage no later than after its own length."""

_LONGEST: Final = {FaultScope.ACCOUNT: 120, FaultScope.PROVIDER: 300, FaultScope.MESSAGE: 300}
"""All emails wait for the account, so it is probed more often. A provider that throttles us, or a
server that rejects a message, is probed rarely."""

PROBE_LEASE: Final = timedelta(seconds=60)
"""How long a probe may take before another sender may try: a connection and a login, each with its
timeout."""

RECURRING_WITHIN: Final = timedelta(minutes=10)
"""A hold that opens again for the same reason within this time continues the old one: its interval
keeps growing, and no alert is sent."""


class Refusal(msgspec.Struct, frozen=True):
    """An email that was refused by a reply that turned out not to be about its recipient."""

    ref: MessageRef
    page: int
    address: Address


class Fault(msgspec.Struct, frozen=True):
    """Why a hold opens. If one reply refused most recipients, `refusal` is its key
    (`same_reply_key`) and `refused` are these recipients. `rest` is how long to wait at least
    before the first probe. `is_paced`: fewer emails per second will follow, so a fault that recurs
    is probed as soon as the first one."""

    scope: FaultScope
    key: HoldKey
    reason: str
    reply: str
    refusal: str = ""
    refused: tuple[Refusal, ...] = ()
    rest: timedelta = timedelta()
    is_paced: bool = False


class Hold(msgspec.Struct, frozen=True):
    """A hold as the store keeps it.

    `interval` is the pause in seconds before `next_probe`. `probing_until` is when a probe in
    progress counts as lost. `refused` are to become pending again. `reported` is the last recorded
    event: `opened` or `lifted`.
    """

    key: HoldKey
    scope: FaultScope
    reason: str
    reply: str
    since: datetime
    next_probe: datetime
    interval: int = INTERVALS[0]
    probing_until: datetime | None = None
    lifted_at: datetime | None = None
    refusal: str = ""
    refused: tuple[Refusal, ...] = ()
    reported: str = ""
    etag: str = ""

    @property
    def is_open(self) -> bool:
        return self.lifted_at is None

    def is_due(self, now: datetime) -> bool:
        """Return whether a sender should probe now."""
        idle = self.probing_until is None or self.probing_until <= now
        return self.is_open and idle and self.next_probe <= now


class Holds:
    """The holds that are open at one moment."""

    def __init__(self, holds: Iterable[Hold] = ()) -> None:
        self.by_key = {hold.key: hold for hold in holds if hold.is_open}
        self._refusals = {hold.refusal for hold in self.by_key.values() if hold.refusal}
        self._has_providers = any(h.scope is FaultScope.PROVIDER for h in self.by_key.values())

    def __bool__(self) -> bool:
        return bool(self.by_key)

    def __contains__(self, key: str) -> bool:
        return key in self.by_key

    def covering_message(self, ref: MessageRef) -> Hold | None:
        """Return the hold that all emails of a message wait for."""
        return self.by_key.get(ACCOUNT) or self.by_key.get(message_key(ref))

    def covering(self, ref: MessageRef, address: Address) -> Hold | None:
        """Return the widest hold that an email waits for."""
        if not self.by_key:
            return None
        hold = self.covering_message(ref)
        if hold is None and self._has_providers:
            hold = self.by_key.get(provider_key(address))
        return hold

    def holds_refusal(self, result: Result) -> bool:
        """Return whether a hold was opened for this refusal, so that it is not the recipient's."""
        return (
            bool(self._refusals)
            and result.is_unknown_refusal
            and same_reply_key(result.reply) in self._refusals
        )


def message_key(ref: MessageRef) -> HoldKey:
    return HoldKey(f"message:{ref}")


def provider_key(address: Address) -> HoldKey:
    return HoldKey(f"provider:{provider_of(address)}")


def hold_key(scope: FaultScope, ref: MessageRef, address: Address) -> HoldKey:
    """Return the key of the hold for a fault of this scope that an email met."""
    if scope is FaultScope.PROVIDER:
        return provider_key(address)
    return message_key(ref) if scope is FaultScope.MESSAGE else ACCOUNT


def opened(fault: Fault, before: Hold | None, now: datetime) -> Hold:
    """Return the hold that a fault opens; `before` is the last one of this key, now lifted."""
    interval, reported = INTERVALS[0], ""
    if before is not None and _is_recurring(fault, before, now):
        reported = "opened"
        if not fault.is_paced:
            interval = longer(before.scope, before.interval)
    return Hold(
        key=fault.key,
        scope=fault.scope,
        reason=fault.reason,
        reply=fault.reply,
        since=now,
        next_probe=now + max(timedelta(seconds=interval), fault.rest),
        interval=interval,
        refusal=fault.refusal,
        refused=fault.refused,
        reported=reported,
    )


def probed(hold: Hold, result: Result, now: datetime, rest: timedelta = timedelta()) -> Hold:
    """Return the hold after a probe: lifted, or with a later probe after a longer pause, `rest` at
    least."""
    if not _is_still_held(hold, result):
        return msgspec.structs.replace(hold, lifted_at=now, probing_until=None)
    interval = longer(hold.scope, hold.interval)
    return msgspec.structs.replace(
        hold,
        reason=result.reason or hold.reason,
        reply=result.reply or hold.reply,
        interval=interval,
        next_probe=now + max(timedelta(seconds=interval), rest),
        probing_until=None,
    )


def longer(scope: FaultScope, interval: int) -> int:
    """Return the interval after this one."""
    longest = _LONGEST.get(scope, INTERVALS[-1])
    return min(longest, next((each for each in INTERVALS if each > interval), longest))


def _is_still_held(hold: Hold, result: Result) -> bool:
    """Return whether the hold continues. Any reply about the recipient shows that it is over."""
    if result.kind is ResultKind.HELD:
        # A narrower fault opens a separate hold.
        return result.scope is hold.scope or result.scope is FaultScope.ACCOUNT
    if hold.refusal and result.is_unknown_refusal:
        return same_reply_key(result.reply) == hold.refusal
    return result.kind is ResultKind.IN_DOUBT


def _is_recurring(fault: Fault, before: Hold, now: datetime) -> bool:
    return (
        before.lifted_at is not None
        and now - before.lifted_at < RECURRING_WITHIN
        and before.reason == fault.reason
    )


HELD: Final = "Held"
"""Marks a page without a work item, whose emails all wait for a hold."""

_HELD_BY = "HeldBy"
_LONGEST_REPLY = 300
_NAMES = ("Deferred", "WaitsUntil", "WaitsBecause", HELD, _HELD_BY)


class WaitingReasons(msgspec.Struct, frozen=True):
    """Why emails of a page or a message wait: `deferred` of them for their next attempt, the first
    one until `next_try_at`, or for the holds `held_by`. `reply` is the most frequent reply.

    `is_held`: nothing can be done for the page until one of its holds is lifted.
    """

    deferred: int = 0
    next_try_at: datetime | None = None
    reply: str = ""
    held_by: tuple[str, ...] = ()
    is_held: bool = False


def with_waiting(properties: dict[str, Value], wait: WaitingReasons) -> None:
    """Set the properties of a page's row that say what its emails wait for."""
    for name in _NAMES:
        properties.pop(name, None)
    if not wait.deferred:
        return
    properties["Deferred"] = wait.deferred
    properties["WaitsBecause"] = wait.reply[:_LONGEST_REPLY]
    if wait.next_try_at is not None:
        properties["WaitsUntil"] = wait.next_try_at
    if wait.held_by:
        properties[_HELD_BY] = " ".join(wait.held_by)
        properties[HELD] = wait.is_held


def waiting_of(page: Entity) -> WaitingReasons:
    """Return what the emails of a page wait for."""
    return WaitingReasons(
        deferred=read_optional(page, "Deferred", int) or 0,
        next_try_at=read_optional(page, "WaitsUntil", datetime),
        reply=read_optional(page, "WaitsBecause", str) or "",
        held_by=held_by(page),
        is_held=read_optional(page, HELD, bool) or False,
    )


def held_by(page: Entity) -> tuple[str, ...]:
    return tuple((read_optional(page, _HELD_BY, str) or "").split())


def together(pages: Iterable[WaitingReasons]) -> WaitingReasons:
    """Return what the emails of several pages wait for. The reply is that of most emails."""
    deferred, replies = 0, dict[str, int]()
    times: list[datetime] = []
    keys: set[str] = set()
    for each in pages:
        deferred += each.deferred
        replies[each.reply] = replies.get(each.reply, 0) + each.deferred
        keys.update(each.held_by)
        if each.next_try_at is not None:
            times.append(each.next_try_at)
    reply = max(replies, key=replies.__getitem__, default="")
    return WaitingReasons(deferred, min(times, default=None), reply, tuple(sorted(keys)))
