"""The attempts of a queue message: counters that travel with it, and the history of failures.

| table          | partition     | row                   | holds                                   |
|----------------|---------------|-----------------------|-----------------------------------------|
| `queuehistory` | id of message | round.cycle.attempt   | Time, Queue, Process, Error, and        |
|                |               |                       | Traceback, ExitStatus, if there are any |
| `queuehistory` | id of message | round.cycle.attempt.x | Time, Queue, Event: what was done,      |
|                |               |                       | To: the queue that it was moved to      |

A row is written before the action that it describes, under a key that follows from the message: if
a process dies between the two, the same row is written again.

Accepting or deleting a message removes its history; `AttemptRetention` removes the others later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.queues.queue_names import SUFFIXES, base_queue, root_queue
from postroom.services import entities
from postroom.services.row_ranges import remove_rows
from postroom.storage import Entity, InvalidName, KeyRange, QueueMessage, Store, Value, lt

TABLE = "queuehistory"

DROPPED = "dropped"
"""The event after which a message is in no queue."""

UNANSWERED = "no answer: the process, its host or its lease ended"

_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
_LONGEST_ERROR = 2_000
_LONGEST_TRACEBACK = 20_000
_CLOCKS_DIFFER = timedelta(days=1)
"""The store's clock says when a message was put, a host's clock when it failed."""

# -- properties of a message ----------------------------------------------------------------------

STABLE_ID = "postroom-id"
"""The id of a message that stays the same in every queue."""

CYCLE = "cycle"
"""How many retry cycles have ended."""

ROUND = "round"
"""How often the counters have been reset: by each move to another queue, and by each redrive."""

CRASHED = "crashed"
"""Set if the process died in the last attempt before a retry cycle."""

EXPIRES_AT = "expires_at"
"""When the message expires, in ISO 8601: then it is a dead letter and not delivered."""

DEAD_LETTERS = "dead_letter_queue"
"""The sender's own queue for rejected and expired messages, instead of `;dead-letter`."""

ORIGIN = "origin_queue"
"""In a sender's own dead-letter queue: the queue that rejected the message, for a redrive."""

RESERVED = (STABLE_ID, CYCLE, ROUND, CRASHED, EXPIRES_AT, ORIGIN)
"""Properties that senders cannot set."""


def stable_id(message: QueueMessage) -> str:
    """Return the id under which the history of a message is kept."""
    known = message.properties.get(STABLE_ID, "")
    return known if _ID.fullmatch(known) else message.id


def cycle_of(properties: Mapping[str, str]) -> int:
    return _count(properties.get(CYCLE, ""))


def round_of(properties: Mapping[str, str]) -> int:
    return _count(properties.get(ROUND, ""))


def origin_of(properties: Mapping[str, str]) -> str | None:
    return properties.get(ORIGIN)


def with_stable_id(message: QueueMessage) -> dict[str, str]:
    """Return the properties for a move to another queue, where the message gets another id."""
    return {**message.properties, STABLE_ID: stable_id(message)}


def for_new_round(message: QueueMessage) -> dict[str, str]:
    """Return the properties with reset counters."""
    properties = without(with_stable_id(message), CYCLE, CRASHED)
    properties[ROUND] = str(round_of(message.properties) + 1)
    return properties


def for_redrive(message: QueueMessage) -> dict[str, str]:
    """Return the properties for a redrive: reset, not expiring, rejected to the same queue."""
    properties = without(for_new_round(message), EXPIRES_AT, ORIGIN)
    if ORIGIN in message.properties:
        properties[DEAD_LETTERS] = message.queue
    return properties


def without(properties: Mapping[str, str], *names: str) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key not in names}


def _count(text: str) -> int:
    """Return a counter. The property may contain anything: programs can set it, too."""
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else 0


# -- history --------------------------------------------------------------------------------------


class AttemptFailure(msgspec.Struct, frozen=True):
    """How an attempt failed.

    `process` names host and process. A handler may ask for `retry_in` seconds, or for `poison`:
    no further attempts.
    """

    error: str
    traceback: str = ""
    exit_status: int | None = None
    process: str = ""
    retry_in: float | None = None
    poison: bool = False


class HistoryEntry(msgspec.Struct, frozen=True):
    """A failed attempt, or an event: what was done with the message, and the queue it moved to.

    `exit_status` is negative after a signal.
    """

    time: datetime
    queue: str
    round: int
    cycle: int
    attempt: int
    event: str = ""
    to: str = ""
    error: str = ""
    traceback: str = ""
    exit_status: int | None = None
    process: str = ""


class AttemptHistory:
    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def add_failure(
        self, message: QueueMessage, failure: AttemptFailure, now: datetime
    ) -> None:
        """Record that the latest attempt of a message has failed."""
        await self._table.upsert(_failure(message, message.dequeue_count, failure, now))

    async def add_unanswered(self, message: QueueMessage, attempt: int, now: datetime) -> None:
        """Record that an earlier attempt ended without an answer, unless that is recorded
        already."""
        partition, row = stable_id(message), _row(message, attempt)
        if await self._table.get(partition, row) is None:
            await self._table.upsert(_failure(message, attempt, AttemptFailure(UNANSWERED), now))

    async def has_crashed(self, message: QueueMessage) -> bool:
        """Return whether the process died in the attempt before this one."""
        if message.dequeue_count <= 1:
            return CRASHED in message.properties
        earlier = _row(message, message.dequeue_count - 1)
        found = await self._table.get(stable_id(message), earlier)
        return found is not None and "ExitStatus" in found.properties

    async def add_event(
        self, message: QueueMessage, event: str, now: datetime, *, to: str = ""
    ) -> None:
        """Record what is about to be done with a message; `to` is its next queue, if any."""
        properties: dict[str, Value] = {
            "Time": now,
            "Queue": message.queue,
            "Event": _clean(event, _LONGEST_ERROR),
            "To": to,
        }
        row = f"{_row(message, message.dequeue_count)}.x"
        await self._table.upsert(Entity(stable_id(message), row, properties))

    async def of(self, identity: str) -> list[HistoryEntry]:
        """Return the history of a message, oldest first."""
        return [_entry(row) async for row in self._table.scan(KeyRange.only(identity))]

    async def forget(self, identity: str) -> None:
        rows = [row.row async for row in self._table.scan(KeyRange.only(identity))]
        await remove_rows(self._table, identity, rows)


def _row(message: QueueMessage, attempt: int) -> str:
    properties = message.properties
    return f"{round_of(properties):04}.{cycle_of(properties):04}.{attempt:06}"


def _failure(message: QueueMessage, attempt: int, failure: AttemptFailure, now: datetime) -> Entity:
    properties: dict[str, Value] = {
        "Time": now,
        "Queue": message.queue,
        "Process": _clean(failure.process, 200),
        "Error": _clean(failure.error, _LONGEST_ERROR),
    }
    if failure.traceback:
        properties["Traceback"] = _clean(failure.traceback, _LONGEST_TRACEBACK)
    if failure.exit_status is not None:
        properties["ExitStatus"] = failure.exit_status
    return Entity(stable_id(message), _row(message, attempt), properties)


def _entry(entity: Entity) -> HistoryEntry:
    round_, cycle, attempt = (int(part) for part in entity.row.split(".")[:3])
    return HistoryEntry(
        time=entities.read(entity, "Time", datetime),
        queue=entities.read(entity, "Queue", str),
        round=round_,
        cycle=cycle,
        attempt=attempt,
        event=entities.read_optional(entity, "Event", str) or "",
        to=entities.read_optional(entity, "To", str) or "",
        error=entities.read_optional(entity, "Error", str) or "",
        traceback=entities.read_optional(entity, "Traceback", str) or "",
        exit_status=entities.read_optional(entity, "ExitStatus", int),
        process=entities.read_optional(entity, "Process", str) or "",
    )


def _clean(text: str, longest: int) -> str:
    """Return text that every engine can store; of a text that is too long, its end."""
    kept = text.encode("utf-8", "replace").decode().replace("\0", "�")
    return kept if len(kept) <= longest else f"…{kept[1 - longest :]}"


# -- retention ------------------------------------------------------------------------------------


class AttemptRetention:
    """Removes histories that a dropped message, a purge or a crash has left behind."""

    def __init__(self, store: Store, now: Callable[[], datetime] = clock.now) -> None:
        self._store = store
        self._rows = store.table(TABLE)
        self._history = AttemptHistory(store)
        self._now = now

    async def remove_unchanged_for(self, kept: timedelta) -> int:
        """Remove histories that have not changed for that long; return how many.

        Those of messages that may still be in a queue stay. An interrupted run leaves the rest to
        the next one.
        """
        before = self._now() - kept
        queues = _QueuesBefore(self._store, before)
        removed, latest = 0, ""
        async for row in self._rows.scan(where=lt("Time", before)):
            if row.partition == latest:
                continue
            latest = row.partition
            entries = await self._history.of(latest)
            if entries and entries[-1].time < before and not await queues.may_hold(entries[-1]):
                await self._history.forget(latest)
                removed += 1
        return removed


class _QueuesBefore:
    """Which queues may hold a message that was put before a time. Each queue is read once."""

    def __init__(self, store: Store, before: datetime) -> None:
        self._store = store
        self._before = before + _CLOCKS_DIFFER
        self._known: dict[str, bool] = {}

    async def may_hold(self, last: HistoryEntry) -> bool:
        """Return whether the message of this latest entry may still be in a queue."""
        if last.event == DROPPED:
            return False
        for queue in _possible_queues(last):
            if queue not in self._known:
                self._known[queue] = await self._has_message_from_before(queue)
            if self._known[queue]:
                return True
        return False

    async def _has_message_from_before(self, queue: str) -> bool:
        """Return whether the first message, which is the oldest, was put before the time."""
        try:
            info = await self._store.queue(queue).info()
        except InvalidName:
            return False  # too long to be the name of a queue
        return info.length > 0 and (info.oldest is None or info.oldest < self._before)


def _possible_queues(last: HistoryEntry) -> set[str]:
    """Return where the message was, where it moved to, and all subqueues of both."""
    named = {name for name in (last.queue, last.to) if name}
    bases = {base for name in named for base in (base_queue(name), root_queue(name))}
    return named | bases | {base + suffix for base in bases for suffix in SUFFIXES}
