"""Names of queues: subqueues, names that are reserved for Postroom itself, and which application a
name activates (the longest path that it begins with).

A queue `shop/orders` has up to three subqueues: `shop/orders;retry` for messages that wait for
their next cycle, `;poison` for those that failed for good, `;dead-letter` for rejected and expired
ones. A poison queue may have an application, and therefore its own `;retry`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from postroom.domain.messages.pages import SCHEDULE_QUEUE, SUPPRESS_QUEUE

RETRY = ";retry"
POISON = ";poison"
DEAD_LETTER = ";dead-letter"
SUFFIXES = (RETRY, POISON, DEAD_LETTER)

BELLS = "host/bell"
"""`host/bell/HOST` wakes a host because something has changed."""

INTERNAL = (SCHEDULE_QUEUE, SUPPRESS_QUEUE, BELLS)
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


class Candidate(msgspec.Struct, frozen=True):
    """A path, and why it gets the queue or not, in words."""

    path: str
    fits: bool
    reason: str


class Match(msgspec.Struct, frozen=True):
    """The path that gets a queue, or None, and why.

    `candidates` are all paths: the winner first, then those that match less well, then the others.
    """

    queue: str
    winner: str | None
    reason: str
    candidates: tuple[Candidate, ...]


def winner(queue: str, paths: Iterable[str]) -> str | None:
    """Return the path that gets the queue, if any."""
    if _excluded(queue):
        return None
    fitting = [path for path in paths if _misfit(queue, path) is None]
    return max(fitting, key=_depth, default=None)


def match(queue: str, paths: Iterable[str]) -> Match:
    """Return which path gets the queue, and why the others do not. Paths must differ."""
    known = sorted(paths)
    excluded = _excluded(queue)
    if excluded:
        return Match(queue, None, excluded, tuple(Candidate(p, False, excluded) for p in known))
    best = winner(queue, known)
    candidates = [_judged(queue, path, best) for path in known]
    candidates.sort(key=lambda each: (not each.fits, -_depth(each.path)))
    if best is None:
        return Match(queue, None, "no path matches this queue", tuple(candidates))
    return Match(queue, best, candidates[0].reason, tuple(candidates))


def _judged(queue: str, path: str, best: str | None) -> Candidate:
    misfit = _misfit(queue, path)
    if misfit is not None:
        return Candidate(path, False, misfit)
    if path != best:
        return Candidate(path, True, f"matches, but {best} is longer")
    if segments(path) == segments(queue):
        return Candidate(path, True, "the queue is named exactly like this path")
    if not segments(path):
        return Candidate(path, True, "takes queues that no other path matches")
    return Candidate(path, True, "the longest path that the queue's name begins with")


def _misfit(queue: str, path: str) -> str | None:
    """Return why a path does not match a queue; None if it does."""
    wanted, given = segments(path), segments(queue)
    if wanted == given:
        return None
    if is_subqueue(queue):
        return "a subqueue needs a path with exactly its name"
    if path.casefold().endswith(POISON):
        return "matches only the poison queue with its name"
    if given[: len(wanted)] == wanted:
        return None
    if "/".join(given).startswith("/".join(wanted)):
        return "a path matches whole segments only"
    return "the queue's name does not begin with this path"


def _excluded(queue: str) -> str:
    """Return why a queue cannot have an application; empty if it can."""
    if is_internal(queue):
        return "reserved for Postroom itself"
    if is_subqueue(queue) and not queue.endswith(POISON):
        return "kept by the host: only a poison queue can have an application"
    if len(queue) > LONGEST and not is_subqueue(queue):
        return f"its name is longer than {LONGEST} characters: its subqueues need names, too"
    return ""


def _depth(path: str) -> int:
    return len(segments(path))
