"""Limits on connections: how many there are, and how long a client may take to send a request.

The rules, without a socket (`guarded_protocol.py` applies them). Without these limits a few hundred
half-sent requests of one client hold all connections of the server, for as long as they like.

A client that opens too many connections loses its own: the one that has waited longest for the rest
of a request makes room for the new one. So nobody needs to be locked out, other clients notice
nothing, and even for the same client `/healthz` still answers.
"""

from __future__ import annotations

import resource
from collections.abc import Collection
from enum import IntEnum
from typing import Protocol, TypeVar

import msgspec

from postroom.settings import Settings

# Files that the store, the outbox and uploads need besides connections: half of what is allowed.
_SHARE_OF_FILES = 2


class ConnectionLimits(msgspec.Struct, frozen=True):
    """Numbers of connections; times in seconds, rates in bytes per second.

    A whole request head takes one packet, so ten seconds are generous even for a bad line. A body
    may take `body_seconds`, and longer as long as it arrives at `body_rate` on average: the slowest
    modem is faster. A client that reads nothing of its answer for `stalled_seconds` is gone.
    """

    overall: int = 1000
    per_client: int = 100
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    body_rate: float = 500.0
    stalled_seconds: float = 60.0
    check_seconds: float = 1.0


class Waits(IntEnum):
    """What a connection waits for; those with a smaller number are given up first."""

    NOTHING_YET = 0
    """For a request, or the rest of its head."""

    BODY = 1
    ANSWER = 2
    """The client has sent everything: it is our turn."""


class Waiting(Protocol):
    """What the rules need to know of a connection. `since` is when it began to wait."""

    waits: Waits
    since: float


AnyWaiting = TypeVar("AnyWaiting", bound=Waiting)


def limits_from(settings: Settings) -> ConnectionLimits:
    """Return the limits as they are set, as far as this process may open that many files."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    overall: int = settings.web.connections
    if allowed != resource.RLIM_INFINITY:
        overall = min(overall, max(allowed // _SHARE_OF_FILES, 1))
    return ConnectionLimits(overall=overall, per_client=settings.web.connections_per_client)


def is_too_slow(limits: ConnectionLimits, waits: Waits, waited: float, received: int) -> bool:
    """Whether a client has taken too long. `received` is how much of a body is here."""
    if waits is Waits.NOTHING_YET:
        return waited > limits.head_seconds
    if waits is Waits.BODY:
        return waited > limits.body_seconds + received / limits.body_rate
    return False


def to_give_up(connections: Collection[AnyWaiting], new: AnyWaiting) -> AnyWaiting | None:
    """Return the connection that makes room for a new one; None if all are at work."""
    waiting = [each for each in connections if each is not new and each.waits < Waits.ANSWER]
    return min(waiting, key=lambda each: (each.waits, each.since), default=None)
