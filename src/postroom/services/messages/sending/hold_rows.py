"""Holds in the store: shared by all senders, and surviving their restarts.

| table   | partition | row                                           | holds                    |
|---------|-----------|-----------------------------------------------|--------------------------|
| `holds` | `hold`    | `account`, `provider:DOMAIN` or `message:REF` | one hold, open or lifted |

Rows are changed under their ETags: of several senders that meet a fault, one opens the hold, and
one at a time probes. A lifted hold stays for a while, so that a recurring fault is recognised.
`sender/faults/refusals.py` describes another partition.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.errors import Overtaken
from postroom.domain.messages.messages import FINAL, Message
from postroom.services.concurrency import retry_on_conflict
from postroom.services.entities import read, read_optional
from postroom.services.events import EventService, Severity
from postroom.services.messages.sending.holds import (
    INTERVALS,
    PROBE_LEASE,
    RECURRING_WITHIN,
    Fault,
    Hold,
    HoldKey,
    Holds,
    Refusal,
    opened,
    probed,
)
from postroom.storage import Conflict, Entity, KeyRange, NotFound, Store, Value
from postroom.transport.contract import FaultScope, Result

TABLE = "holds"
_PARTITION = "hold"
_UNREPORTED = timedelta(seconds=5)  # after that, the process that changed the hold was interrupted
_LONGEST_TEXT = 1000
_MOST_REFUSED = 50


class HoldService:
    def __init__(self, store: Store, events: EventService) -> None:
        self._table = store.table(TABLE)
        self._events = events

    async def all(self) -> list[Hold]:
        """Return every hold, including recently lifted ones."""
        return [_hold(row) async for row in self._table.scan(KeyRange.only(_PARTITION))]

    async def open_holds(self) -> Holds:
        return Holds(await self.all())

    async def open(self, fault: Fault) -> None:
        """Open a hold; if it is open already, only add the other refused recipients."""

        def change(hold: Hold | None) -> Hold | None:
            if hold is None or not hold.is_open:
                return opened(fault, hold, clock.now())
            refused = tuple(dict.fromkeys((*hold.refused, *fault.refused)))[:_MOST_REFUSED]
            refusal = hold.refusal or fault.refusal
            changed = msgspec.structs.replace(hold, refused=refused, refusal=refusal)
            return None if changed == hold else changed

        await self._change(fault.key, change)

    async def claim_probe(self, key: HoldKey) -> Hold | None:
        """Claim the right to probe; None if it is not due, or another sender was faster."""
        now = clock.now()
        found = await self._get(key)
        if found is None or not found.is_due(now):
            return None
        claimed = msgspec.structs.replace(found, probing_until=now + PROBE_LEASE)
        with contextlib.suppress(Conflict):
            etag = await self._table.replace(_entity(claimed), found.etag)
            return msgspec.structs.replace(claimed, etag=etag)
        return None

    async def probed(
        self, key: HoldKey, result: Result | None, rest: timedelta = timedelta()
    ) -> None:
        """Record the result of a probe; None: it was not sent after all. If the hold continues, it
        is not probed again before `rest` is over."""

        def change(hold: Hold | None) -> Hold | None:
            if hold is None or not hold.is_open:
                return None
            if result is None:
                return msgspec.structs.replace(hold, probing_until=None)
            return probed(hold, result, clock.now(), rest)

        await self._change(key, change)

    async def try_now(self, keys: Collection[str]) -> int:
        """Make the probes of these holds due, and restart with short intervals; return how many are
        open."""
        count = 0

        def change(hold: Hold | None) -> Hold | None:
            if hold is None or not hold.is_open:
                return None
            now = clock.now()
            return msgspec.structs.replace(
                hold, next_probe=now, interval=INTERVALS[0], probing_until=None
            )

        for key in keys:
            count += await self._change(HoldKey(key), change) is not None
        return count

    async def restored(self, hold: Hold, refusals: Collection[Refusal]) -> None:
        """Record that these refused emails are pending again."""

        def change(found: Hold | None) -> Hold | None:
            if found is None:
                return None
            left = tuple(each for each in found.refused if each not in refusals)
            return msgspec.structs.replace(found, refused=left)

        await self._change(hold.key, change)

    async def forget(self, key: HoldKey) -> None:
        if await self._get(key) is not None:
            with contextlib.suppress(NotFound):
                await self._table.delete(_PARTITION, key)

    async def tidy(self) -> None:
        """Record events that an interruption has lost, and delete old holds."""
        now = clock.now()
        for hold in await self.all():
            changed_at = hold.lifted_at or hold.since
            if _event_of(hold) != hold.reported and now - changed_at > _UNREPORTED:
                await self._record_event(hold)
            elif not hold.is_open and not hold.refused and now - changed_at > RECURRING_WITHIN:
                with contextlib.suppress(Conflict):
                    await self._table.delete(_PARTITION, hold.key, hold.etag)

    # -- parts -------------------------------------------------------------------------------

    async def _get(self, key: HoldKey) -> Hold | None:
        found = await self._table.get(_PARTITION, key)
        return None if found is None else _hold(found)

    async def _change(
        self, key: HoldKey, change: Callable[[Hold | None], Hold | None]
    ) -> Hold | None:
        """Change a hold under its ETag, and record an event if it was opened or lifted. Return the
        hold as it was written; None if nothing was to be changed."""

        async def attempt() -> Hold | None:
            before = await self._get(key)
            after = change(before)
            if after is None:
                return None
            if before is None:
                etag = await self._table.insert(_entity(after))
            else:
                etag = await self._table.replace(_entity(after), before.etag)
            return msgspec.structs.replace(after, etag=etag)

        try:
            after = await retry_on_conflict(attempt, "hold", key)
        except Overtaken:
            return None  # the next email that meets the fault tries again
        if after is not None and _event_of(after) != after.reported:
            await self._record_event(after)
        return after

    async def _record_event(self, hold: Hold) -> None:
        """Record the event, then mark that: an interruption in between records it twice."""
        subject = hold.key if hold.scope is FaultScope.MESSAGE else ""
        if hold.is_open:
            reply = f" Reply: {hold.reply}" if hold.reply else ""
            text, severity = f"{describe(hold)}{reply}", Severity.WARNING
        else:
            text, severity = f"Sending resumed: {_what(hold)} works again", Severity.INFO
        await self._events.record("sender", text, severity=severity, subject=subject)
        reported = msgspec.structs.replace(hold, reported=_event_of(hold))
        with contextlib.suppress(Conflict):
            await self._table.replace(_entity(reported), hold.etag)


def describe(hold: Hold) -> str:
    """Return in plain words what waits and why."""
    return f"{waiting_part(hold)} are on hold: {hold.reason[:1].lower()}{hold.reason[1:]}."


def why_all_wait(holds: Holds, message: Message) -> str:
    """Return in plain words why all emails of a message wait; "" if it is not being sent, or if
    some of its emails do not wait."""
    is_sending = message.queued_at is not None and message.status not in FINAL
    hold = holds.covering_message(message.ref) if is_sending else None
    return describe(hold) if hold else ""


def waiting_part(hold: Hold) -> str:
    """Name the emails that a hold covers."""
    if hold.scope is FaultScope.PROVIDER:
        return f"Emails to {hold.key.partition(':')[2]}"
    return "The emails of this message" if hold.scope is FaultScope.MESSAGE else "All emails"


def reason_of(hold: Hold) -> str:
    """Return the reason, with the provider that it is about."""
    if hold.scope is FaultScope.PROVIDER:
        return f"{hold.key.partition(':')[2]}: {hold.reason}"
    return hold.reason


def _what(hold: Hold) -> str:
    if hold.scope is FaultScope.PROVIDER:
        return f"delivery to {hold.key.partition(':')[2]}"
    return "the message" if hold.scope is FaultScope.MESSAGE else "the mail server"


def _event_of(hold: Hold) -> str:
    return "opened" if hold.is_open else "lifted"


def _entity(hold: Hold) -> Entity:
    properties: dict[str, Value] = {
        "FaultScope": hold.scope.value,
        "Reason": hold.reason[:_LONGEST_TEXT],
        "Reply": hold.reply[:_LONGEST_TEXT],
        "Since": hold.since,
        "NextProbe": hold.next_probe,
        "Interval": hold.interval,
        "Refusal": hold.refusal[:_LONGEST_TEXT],
        "Refused": msgspec.json.encode(hold.refused).decode(),
        "Told": hold.reported,
    }
    optional = {"ProbingUntil": hold.probing_until, "LiftedAt": hold.lifted_at}
    properties |= {name: value for name, value in optional.items() if value is not None}
    return Entity(_PARTITION, hold.key, properties)


def _hold(entity: Entity) -> Hold:
    return Hold(
        key=HoldKey(entity.row),
        scope=FaultScope(read(entity, "FaultScope", str)),
        reason=read(entity, "Reason", str),
        reply=read(entity, "Reply", str),
        since=read(entity, "Since", datetime),
        next_probe=read(entity, "NextProbe", datetime),
        interval=read(entity, "Interval", int),
        probing_until=read_optional(entity, "ProbingUntil", datetime),
        lifted_at=read_optional(entity, "LiftedAt", datetime),
        refusal=read(entity, "Refusal", str),
        refused=msgspec.json.decode(read(entity, "Refused", str), type=tuple[Refusal, ...]),
        reported=read(entity, "Told", str),
        etag=entity.etag,
    )
