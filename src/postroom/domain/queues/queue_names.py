"""The names of queues that belong to another queue, and of those that are Postroom's own.

A queue `shop/orders` has up to three subqueues: `shop/orders;retry` holds messages that wait for
their next cycle, `;poison` those that were given up, `;dead-letter` those that were rejected or
whose time to live ended. A poison queue may have an application, so it has a `;retry` of its own.
"""

from __future__ import annotations

from functools import lru_cache

from postroom.domain.messages.pages import SCHEDULE_QUEUE

RETRY = ";retry"
POISON = ";poison"
DEAD_LETTER = ";dead-letter"
SUFFIXES = (RETRY, POISON, DEAD_LETTER)

BELLS = "host/bell"
"""`host/bell/HOST` wakes one host: something has changed that it must look at."""

INTERNAL = (SCHEDULE_QUEUE, BELLS)
"""Queues that only wake parts of Postroom, with all below them: no application gets these."""

LONGEST = 255 - len(POISON + RETRY)
"""Of a queue that applications may have, so that its subqueues can be named."""


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
    """The queue that a subqueue belongs to; another queue is its own base."""
    for suffix in SUFFIXES:
        if queue.endswith(suffix):
            return queue.removesuffix(suffix)
    return queue


def root_queue(queue: str) -> str:
    """The queue at the bottom: that of `orders;poison;retry` is `orders`."""
    while is_subqueue(queue):
        queue = base_queue(queue)
    return queue


def is_internal(queue: str) -> bool:
    """Whether a queue is Postroom's own and activates nothing."""
    return any(queue == name or queue.startswith(f"{name}/") for name in INTERNAL)


@lru_cache(maxsize=10_000)
def segments(name: str) -> tuple[str, ...]:
    """A queue's name or an application's path as it is compared: by segments, in any case.

    `mail/Send`, `/mail/send` and `/mail/send/` are the same.
    """
    return tuple(segment for segment in name.casefold().split("/") if segment)
