"""What happens to a message after a failed cycle (another cycle, or the end of its attempts) and
after its time to live.

History is written before the action it describes, and a message moves between queues in one step
(`Queue.move`): a process that dies in between leaves work to do again.

| table         | partition | row               | holds                                         |
|---------------|-----------|-------------------|-----------------------------------------------|
| `queuestate`  | `fault`   | hash of the queue | Queue, Reason, Time                           |
| `queueexpiry` | `expiry`  | time `,` id       | Queue, Id, Tries: how often it was looked for |
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from postroom import clock
from postroom.domain.queues.app_options import LONGEST_DELAY, OnPoison
from postroom.domain.queues.apps import App
from postroom.domain.queues.queue_names import (
    POISON,
    dead_letter_queue,
    is_internal,
    is_subqueue,
    poison_queue,
    retry_queue,
    root_queue,
)
from postroom.services import entities
from postroom.services.events import EventService, Severity
from postroom.services.queues.attempts import (
    CRASHED,
    DEAD_LETTERS,
    DROPPED,
    ORIGIN,
    AttemptFailure,
    AttemptHistory,
    cycle_of,
    for_new_round,
    stable_id,
    with_stable_id,
    without,
)
from postroom.services.queues.hosts import HostStatusService
from postroom.storage import Entity, InvalidName, KeyRange, NotFound, QueueMessage, Store, Value

_log = logging.getLogger(__name__)

_FAULT = "fault"
_EXPIRY = "expiry"
_EXPIRY_BATCH = 100
_EXPIRY_TRIES = 8
_EXPIRY_DELAY = timedelta(seconds=15)
_LONGEST_REASON = 2_000
_SECONDS_BETWEEN_EVENTS = 60.0
_QUEUES_REMEMBERED = 1000


class Disposition(StrEnum):
    """What was done with a message that was not accepted."""

    RELEASED = "released"
    RETRY = "retry"
    POISONED = "poisoned"
    DEAD_LETTERED = "dead-lettered"
    DROPPED = "dropped"
    FAULTED = "faulted"


class DispositionResult(msgspec.Struct, frozen=True):
    """What was done with a message, where it is now, and after how many seconds it is ready."""

    action: Disposition
    queue: str
    delay: float = 0.0
    reason: str = ""


class DispositionService:
    def __init__(
        self,
        store: Store,
        history: AttemptHistory,
        faults: QueueFaults,
        events: EventService,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._history = history
        self._faults = faults
        self._events = events
        self._poison_events = PoisonEvents(self._events)
        self._now = now

    async def end_cycle(
        self, message: QueueMessage, app: App, failure: AttemptFailure
    ) -> DispositionResult:
        """Move the message to `;retry`, or end its attempts after the last cycle."""
        if cycle_of(message.properties) >= app.max_retry_cycles:
            return await self.end(message, app, failure.error)
        delay = max(app.retry_cycle_delay.total_seconds(), requested_delay(failure))
        to = retry_queue(message.queue)
        properties = without(with_stable_id(message), CRASHED)
        if failure.exit_status is not None:
            properties[CRASHED] = "1"
        await self.move(message, to, properties, delay)
        return DispositionResult(Disposition.RETRY, to, delay, failure.error)

    async def end(self, message: QueueMessage, app: App, error: str) -> DispositionResult:
        """Apply `on_poison`. A message that fails in a poison queue never returns to one."""
        if app.on_poison is OnPoison.DROP:
            return await self._drop(message, error)
        if app.on_poison is OnPoison.FAULT:
            return await self._fault(message, error)
        if app.on_poison is OnPoison.REJECT or message.queue.endswith(POISON):
            to = self._dead_letters_of(message)
            await self._poison_events.record(
                message.queue, stable_id(message), f"moved to {to}", error
            )
            return await self.dead_letter(message, error)
        to = poison_queue(message.queue)
        await self._history.add_event(message, f"moved to {to}", self._now(), to=to)
        await self._poison_events.record(message.queue, stable_id(message), f"moved to {to}", error)
        await self.move(message, to, for_new_round(message))
        return DispositionResult(Disposition.POISONED, to, 0.0, error)

    async def _drop(self, message: QueueMessage, error: str) -> DispositionResult:
        """Delete the message. Its history, the only trace, is kept for a while."""
        await self._history.add_event(message, DROPPED, self._now())
        await self._poison_events.record(message.queue, stable_id(message), DROPPED, error)
        await self._store.queue(message.queue).delete(message)
        _log.warning(
            "message %s of queue %s was dropped: %s", stable_id(message), message.queue, error
        )
        return DispositionResult(Disposition.DROPPED, "", 0.0, error)

    async def _fault(self, message: QueueMessage, error: str) -> DispositionResult:
        """Stop the queue, then put the message back: the other way round it would be retried."""
        reason = f"message {message.id} failed: {error}"
        await self._history.add_event(message, "stopped the queue", self._now(), to=message.queue)
        await self.stop(message.queue, reason)
        await self.move(message, message.queue, for_new_round(message))
        return DispositionResult(Disposition.FAULTED, message.queue, 0.0, reason)

    async def stop(self, queue: str, reason: str) -> None:
        await self._faults.set(queue, reason)
        await self._events.record(
            "host",
            f"queue {queue} is stopped: {reason}",
            severity=Severity.ERROR,
            subject=f"queue:{queue}",
        )

    async def dead_letter(self, message: QueueMessage, reason: str) -> DispositionResult:
        """Move the message to its dead-letter queue."""
        to = self._dead_letters_of(message)
        await self._history.add_event(message, f"moved to {to}: {reason}", self._now(), to=to)
        properties = without(for_new_round(message), DEAD_LETTERS)
        if not is_subqueue(to):
            properties[ORIGIN] = root_queue(message.queue)
        await self.move(message, to, properties)
        return DispositionResult(Disposition.DEAD_LETTERED, to, 0.0, reason)

    async def move(
        self, message: QueueMessage, to: str, properties: Mapping[str, str], delay: float = 0.0
    ) -> None:
        await self._store.queue(message.queue).move(message, to, delay=delay, properties=properties)

    def _dead_letters_of(self, message: QueueMessage) -> str:
        """Return the sender's own dead-letter queue if it can be used, otherwise `;dead-letter`."""
        wanted = message.properties.get(DEAD_LETTERS, "")
        try:
            self._store.queue(wanted)
        except InvalidName:
            return dead_letter_queue(message.queue)
        is_own = root_queue(wanted) == root_queue(message.queue)
        is_closed = is_own or is_internal(root_queue(wanted))
        return dead_letter_queue(message.queue) if is_closed else wanted


def requested_delay(failure: AttemptFailure) -> float:
    """Return the delay until the next attempt that the handler has requested, in seconds."""
    return min(max(failure.retry_in or 0.0, 0.0), LONGEST_DELAY.total_seconds())


class QueueFaults:
    """Queues that are stopped until an operator handles a message."""

    def __init__(self, store: Store, hosts: HostStatusService) -> None:
        self._table = store.table("queuestate")
        self._hosts = hosts

    async def all(self) -> dict[str, str]:
        """Return every stopped queue with the reason."""
        rows = self._table.scan(KeyRange.only(_FAULT))
        return {
            entities.read(row, "Queue", str): entities.read(row, "Reason", str)
            async for row in rows
        }

    async def reason(self, queue: str) -> str | None:
        """Return why a queue is stopped; None if it is not."""
        found = await self._table.get(_FAULT, _row(queue))
        return None if found is None else entities.read(found, "Reason", str)

    async def set(self, queue: str, reason: str) -> None:
        properties: dict[str, Value] = {
            "Queue": queue,
            "Reason": reason[:_LONGEST_REASON],
            "Time": clock.now(),
        }
        await self._table.upsert(Entity(_FAULT, _row(queue), properties))
        await self._hosts.ring_bells("fault")

    async def clear(self, queue: str) -> bool:
        """Resume a queue; return whether it was stopped."""
        cleared = False
        with contextlib.suppress(NotFound):
            await self._table.delete(_FAULT, _row(queue))
            cleared = True
        await self._hosts.ring_bells("fault cleared")
        return cleared


def _row(queue: str) -> str:
    """Return a hash: not every queue name can be a key."""
    return hashlib.sha256(queue.encode()).hexdigest()


class PoisonEvents:
    """Events about poison messages, at most one per minute and queue."""

    def __init__(self, events: EventService, clock: Callable[[], float] = clock.monotonic) -> None:
        self._events = events
        self._clock = clock
        self._recorded_at: dict[str, float] = {}
        self._unrecorded: dict[str, int] = {}

    async def record(self, queue: str, identity: str, action: str, error: str) -> None:
        """Record an event, or count the message for the next one."""
        now = self._clock()
        if now < self._recorded_at.get(queue, float("-inf")) + _SECONDS_BETWEEN_EVENTS:
            self._unrecorded[queue] = self._unrecorded.get(queue, 0) + 1
            return
        more = self._unrecorded.pop(queue, 0)
        others = f", and {more:,} more in the last minutes" if more else ""
        if len(self._recorded_at) >= _QUEUES_REMEMBERED:
            self._recorded_at.clear()
        self._recorded_at[queue] = now
        await self._events.record(
            "host",
            f"message {identity} of {queue} failed for good and was {action}{others}: {error}",
            severity=Severity.WARNING,
            subject=f"queue:{queue}",
        )


class ExpiredMessage(msgspec.Struct, frozen=True):
    """A message whose time to live has ended."""

    row: str
    queue: str
    id: str
    tries: int


class ExpiryIndex:
    """Messages with a time to live, which expire even if no application receives them.

    A row is written after its message was put, and stays until that time. If a process dies between
    the two, the time to live is checked on delivery only.
    """

    def __init__(self, store: Store) -> None:
        self._table = store.table("queueexpiry")

    async def add(self, queue: str, identity: str, expires_at: datetime, tries: int = 0) -> None:
        """Add a message."""
        properties: dict[str, Value] = {"Queue": queue, "Id": identity, "Tries": tries}
        row = f"{_moment(expires_at)},{identity}"
        await self._table.upsert(Entity(_EXPIRY, row, properties))

    async def due(self, now: datetime) -> list[ExpiredMessage]:
        """Return some expired messages, oldest first."""
        found = await self._table.query(
            KeyRange.only(_EXPIRY), KeyRange(None, _moment(now)), limit=_EXPIRY_BATCH
        )
        return [
            ExpiredMessage(
                row=entity.row,
                queue=entities.read(entity, "Queue", str),
                id=entities.read(entity, "Id", str),
                tries=entities.read(entity, "Tries", int),
            )
            for entity in found.entities
        ]

    async def forget(self, due: ExpiredMessage) -> None:
        with contextlib.suppress(NotFound):
            await self._table.delete(_EXPIRY, due.row)

    async def look_later(self, due: ExpiredMessage, now: datetime) -> None:
        """Look again later, with growing delays, for a message that may be in progress."""
        if due.tries < _EXPIRY_TRIES:
            later = now + _EXPIRY_DELAY * 2**due.tries
            await self.add(due.queue, due.id, later, due.tries + 1)
        await self.forget(due)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
