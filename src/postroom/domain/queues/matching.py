"""Which application a queue activates: the longest path that its name begins with."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from postroom.domain.queues.queue_names import LONGEST, POISON, is_internal, is_subqueue, segments


class Candidate(msgspec.Struct, frozen=True):
    """One path, and in words why it gets the queue or does not."""

    path: str
    fits: bool
    reason: str


class Match(msgspec.Struct, frozen=True):
    """`winner` is the path that gets the queue, or None; `reason` says so in words.

    `candidates` are all paths: the winner first, then what fits less well, then what does not fit.
    """

    queue: str
    winner: str | None
    reason: str
    candidates: tuple[Candidate, ...]


def winner(queue: str, paths: Iterable[str]) -> str | None:
    """The path that gets the queue, if one does."""
    if _excluded(queue):
        return None
    fitting = [path for path in paths if _misfit(queue, path) is None]
    return max(fitting, key=_depth, default=None)


def match(queue: str, paths: Iterable[str]) -> Match:
    """Every path, and which one gets the queue. Paths of the same segments are given once."""
    known = sorted(paths)
    excluded = _excluded(queue)
    if excluded:
        return Match(queue, None, excluded, tuple(Candidate(p, False, excluded) for p in known))
    best = winner(queue, known)
    candidates = [_judged(queue, path, best) for path in known]
    candidates.sort(key=lambda each: (not each.fits, -_depth(each.path)))
    if best is None:
        return Match(queue, None, "no path fits this queue", tuple(candidates))
    return Match(queue, best, candidates[0].reason, tuple(candidates))


def _judged(queue: str, path: str, best: str | None) -> Candidate:
    misfit = _misfit(queue, path)
    if misfit is not None:
        return Candidate(path, False, misfit)
    if path != best:
        return Candidate(path, True, f"fits, but {best} is longer")
    if segments(path) == segments(queue):
        return Candidate(path, True, "the queue is named exactly like this path")
    if not segments(path):
        return Candidate(path, True, "takes what no other path does")
    return Candidate(path, True, "the longest path that the queue's name begins with")


def _misfit(queue: str, path: str) -> str | None:
    """Why a path does not fit a queue; None if it does."""
    wanted, given = segments(path), segments(queue)
    if wanted == given:
        return None
    if is_subqueue(queue):
        return "a subqueue goes only to a path that is named exactly like it"
    if path.casefold().endswith(POISON):
        return "takes only the poison queue that it names"
    if given[: len(wanted)] == wanted:
        return None
    if "/".join(given).startswith("/".join(wanted)):
        return "a path ends where a segment of the queue's name ends"
    return "the queue's name does not begin with it"


def _excluded(queue: str) -> str:
    """Why a queue has no application whatever paths there are."""
    if is_internal(queue):
        return "one of Postroom's own bells, which activates nothing"
    if is_subqueue(queue) and not queue.endswith(POISON):
        return "kept by the host: only a poison queue can have an application"
    if len(queue) > LONGEST and not is_subqueue(queue):
        return f"its name is too long: {LONGEST} characters leave room for those of its subqueues"
    return ""


def _depth(path: str) -> int:
    return len(segments(path))
