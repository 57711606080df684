"""Queue messages on their way into and out of PostgreSQL: ids, rows, and where a queue begins."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from postroom.storage.contract import NewMessage, QueueMessage

_PUT_MESSAGES = 1000
_PUT_BYTES = 1_000_000

_FULL_LOOK_SECONDS = 1.0


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message to be put, as the statement reads it from JSON."""

    id: str
    body: str
    delay: float = 0.0
    ttl: float | None = None
    properties: dict[str, str] | None = None


class Ids:
    """Ids of 128 bits in the order in which they were made: milliseconds, then chance.

    Messages of one put become visible in the same instant; their ids keep them in order.
    """

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        fresh = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
        self._last = max(fresh, self._last + 1)
        return str(uuid.UUID(int=self._last))


class Head:
    """Where the messages of a queue begin, so that nobody need pass over what is done.

    A claim leaves a dead entry at the head of the index, which stays until the next vacuum, or as
    long as any old transaction (a backup, say) runs. To look from the very head means to pass over
    all of them; to look from the first message that was found the last time does not.

    What became visible before that point (a put that took more than a second to commit, a claim
    that was rolled back) is found by a look from the very head. There is one every second, or, once
    that has become expensive, as often as keeps it to a fiftieth of the time.
    """

    def __init__(self) -> None:
        self._floor: datetime | None = None
        self._full_look_at = 0.0
        self._began = 0.0

    def floor(self) -> datetime | None:
        """The time to look from; None for the very head."""
        self._began = time.monotonic()
        return None if self._began >= self._full_look_at else self._floor

    def found(self, looked_from: datetime | None, floor: datetime | None) -> None:
        """The look has ended. There is nothing before the new floor; None leaves it as it was."""
        if looked_from is None:
            now = time.monotonic()
            self._full_look_at = now + max(_FULL_LOOK_SECONDS, 50 * (now - self._began))
        self._floor = floor or self._floor


def as_rows(messages: Sequence[NewMessage], ids: Sequence[str]) -> Iterator[list[Row]]:
    """What to put, in portions that are neither too many nor too large for one statement."""
    portion: list[Row] = []
    size = 0
    for message, number in zip(messages, ids, strict=True):
        properties = dict(message.properties) if message.properties else None
        portion.append(Row(number, message.body, float(message.delay), message.ttl, properties))
        size += len(message.body)
        if len(portion) == _PUT_MESSAGES or size > _PUT_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def as_message(queue: str, row: tuple[Any, ...], receipt: str) -> QueueMessage:
    """A message from the columns id, body, properties, dequeue_count, enqueued_at."""
    number, body, properties, count, enqueued_at = row[:5]
    decoded = {} if properties is None else msgspec.json.decode(properties)
    return QueueMessage(number, queue, body, decoded, count, enqueued_at, receipt)


def is_id(text: str) -> bool:
    """Whether this can be the id of a message: others are not sent to the server, which would
    not understand them."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
