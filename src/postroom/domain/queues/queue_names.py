"""Names of subqueues, and of queues that are reserved for Postroom itself.

A queue `shop/orders` has up to three subqueues: `shop/orders;retry` for messages that wait for
their next cycle, `;poison` for those that failed for good, `;dead-letter` for rejected and expired
ones. A poison queue may have an application, and so a `;retry` of its own.
"""

from __future__ import annotations

from functools import lru_cache

from postroom.domain.messages.pages import SCHEDULE_QUEUE

RETRY = ";retry"
POISON = ";poison"
DEAD_LETTER = ";dead-letter"
SUFFIXES = (RETRY, POISON, DEAD_LETTER)

BELLS = "host/bell"
"""`host/bell/HOST` wakes a host because something has changed."""

INTERNAL = (SCHEDULE_QUEUE, BELLS)
"""Queues, with all below them, that only wake parts of Postroom: they activate nothing."""

LONGEST = 255 - len(POISON + RETRY)
"""The longest name of a queue with an application: its subqueues need names, too."""


def retry_queue(queue: str) -> str:
    return queue + RETRY


def poison_queue(queue: str) -> str:
    return root_queue(queue) + POISON


def dead_letter_queue(queue: str) -> str:
    return root_queue(queue) + DEAD_LETTER


def bell_queue(host: str) -> str:
    return f"{BELLS}/{host}"


def is_subqueue(queue: str) -> bool:
    return queue.endswith(SUFFIXES)


def is_retry(queue: str) -> bool:
    return queue.endswith(RETRY)


def base_queue(queue: str) -> str:
    """Return the queue that a subqueue belongs to, or the queue itself."""
    for suffix in SUFFIXES:
        if queue.endswith(suffix):
            return queue.removesuffix(suffix)
    return queue


def root_queue(queue: str) -> str:
    """Return the queue without any suffix: `orders` for `orders;poison;retry`."""
    while is_subqueue(queue):
        queue = base_queue(queue)
    return queue


def is_internal(queue: str) -> bool:
    """Return whether a queue is reserved for Postroom itself."""
    return any(queue == name or queue.startswith(f"{name}/") for name in INTERNAL)


@lru_cache(maxsize=10_000)
def segments(name: str) -> tuple[str, ...]:
    """Return the segments by which queue names and paths are compared, ignoring case.

    `mail/Send`, `/mail/send` and `/mail/send/` are the same.
    """
    return tuple(segment for segment in name.casefold().split("/") if segment)
