"""What happened to a queue message: each failed attempt, and each time it was put aside.

| table          | partition     | row                   | holds                                   |
|----------------|---------------|-----------------------|-----------------------------------------|
| `queuehistory` | id of message | round.cycle.attempt   | Time, Queue, Process, Error, and        |
|                |               |                       | Traceback, ExitStatus, if there are any |
| `queuehistory` | id of message | round.cycle.attempt.x | Time, Queue, Event: what became of it,  |
|                |               |                       | To: the queue that it went to           |

Rows are written before what they tell of is done, under keys that follow from the message: a
process that dies between the two leaves something that is written once more, the same way.

All of it goes when the message is accepted or deleted, or some time later
(`history_retention.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

import msgspec

from postroom.services import entities
from postroom.services.row_ranges import remove_rows
from postroom.storage import Entity, KeyRange, QueueMessage, Store, Value

TABLE = "queuehistory"

STABLE_ID = "postroom-id"
"""The message's id, which stays the same in whatever queue it is."""

CYCLE = "cycle"
"""How many retry cycles are behind it."""

ROUND = "round"
"""How often its counters have begun anew: each time it was put aside or redriven."""

DROPPED = "dropped"
"""The event after which a message is nowhere."""

CRASHED = "crashed"
"""Set if the last attempt before a retry cycle ended with the end of its process."""

UNANSWERED = "no answer: the process, its host or its lease came to an end"

_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
_LONGEST_ERROR = 2_000
_LONGEST_TRACEBACK = 20_000


class Failure(msgspec.Struct, frozen=True):
    """How an attempt failed, as the host heard of it.

    `process` names host and process. `retry_in` (seconds) and `poison` are a handler's own words.
    """

    error: str
    traceback: str = ""
    exit_status: int | None = None
    process: str = ""
    retry_in: float | None = None
    poison: bool = False


class HistoryEntry(msgspec.Struct, frozen=True):
    """A failed attempt, or an event: then `event` says what was done with the message, and `to` in
    which queue it is since.

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


def stable_id(message: QueueMessage) -> str:
    """The id under which a message's history is kept."""
    known = message.properties.get(STABLE_ID, "")
    return known if _ID.fullmatch(known) else message.id


def cycle_of(properties: Mapping[str, str]) -> int:
    return _count(properties.get(CYCLE, ""))


def round_of(properties: Mapping[str, str]) -> int:
    return _count(properties.get(ROUND, ""))


class MessageHistory:
    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE)

    async def failed(self, message: QueueMessage, failure: Failure, now: datetime) -> None:
        """One attempt, the message's latest, has failed."""
        await self._table.upsert(_failure(message, message.dequeue_count, failure, now))

    async def unanswered(self, message: QueueMessage, attempt: int, now: datetime) -> None:
        """An earlier attempt has ended; note so if nobody else has."""
        partition, row = stable_id(message), _row(message, attempt)
        if await self._table.get(partition, row) is None:
            await self._table.upsert(_failure(message, attempt, Failure(UNANSWERED), now))

    async def has_crashed(self, message: QueueMessage) -> bool:
        """Return whether the attempt before this one ended with the end of its process."""
        if message.dequeue_count <= 1:
            return CRASHED in message.properties
        earlier = _row(message, message.dequeue_count - 1)
        found = await self._table.get(stable_id(message), earlier)
        return found is not None and "ExitStatus" in found.properties

    async def event(
        self, message: QueueMessage, event: str, now: datetime, *, to: str = ""
    ) -> None:
        """Something is about to be done with the message; it will be in `to`, or nowhere."""
        properties: dict[str, Value] = {
            "Time": now,
            "Queue": message.queue,
            "Event": _clean(event, _LONGEST_ERROR),
            "To": to,
        }
        row = f"{_row(message, message.dequeue_count)}.x"
        await self._table.upsert(Entity(stable_id(message), row, properties))

    async def of(self, identity: str) -> list[HistoryEntry]:
        """All that is known of a message, oldest first."""
        return [_entry(row) async for row in self._table.scan(KeyRange.only(identity))]

    async def forget(self, identity: str) -> None:
        rows = [row.row async for row in self._table.scan(KeyRange.only(identity))]
        await remove_rows(self._table, identity, rows)


def _row(message: QueueMessage, attempt: int) -> str:
    properties = message.properties
    return f"{round_of(properties):04}.{cycle_of(properties):04}.{attempt:06}"


def _failure(message: QueueMessage, attempt: int, failure: Failure, now: datetime) -> Entity:
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
    """Text that every engine keeps, whatever a handler has raised; of too long a one, the end."""
    kept = text.encode("utf-8", "replace").decode().replace("\0", "�")
    return kept if len(kept) <= longest else f"…{kept[1 - longest :]}"


def _count(text: str) -> int:
    """A counter that anybody may have written."""
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else 0
