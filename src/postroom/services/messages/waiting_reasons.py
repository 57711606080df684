"""What the emails of a page wait for, as its row says."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from postroom.services.entities import read_optional
from postroom.storage import Entity, Value

HELD: Final = "Held"
"""Marks a page without a work item, whose emails all wait for a hold."""

_HELD_BY = "HeldBy"
_LONGEST_REPLY = 300
_NAMES = ("Deferred", "WaitsUntil", "WaitsBecause", HELD, _HELD_BY)


class WaitingReasons(msgspec.Struct, frozen=True):
    """Why emails of a page or a message wait: `deferred` of them for their next attempt, the first
    one until `next_try_at`, or for the holds `held_by`. `reply` is the most frequent reply.

    `is_held`: nothing can be done for the page until one of its holds is lifted.
    """

    deferred: int = 0
    next_try_at: datetime | None = None
    reply: str = ""
    held_by: tuple[str, ...] = ()
    is_held: bool = False


def with_waiting(properties: dict[str, Value], wait: WaitingReasons) -> None:
    """Set the properties of a page's row that say what its emails wait for."""
    for name in _NAMES:
        properties.pop(name, None)
    if not wait.deferred:
        return
    properties["Deferred"] = wait.deferred
    properties["WaitsBecause"] = wait.reply[:_LONGEST_REPLY]
    if wait.next_try_at is not None:
        properties["WaitsUntil"] = wait.next_try_at
    if wait.held_by:
        properties[_HELD_BY] = " ".join(wait.held_by)
        properties[HELD] = wait.is_held


def waiting_of(page: Entity) -> WaitingReasons:
    """Return what the emails of a page wait for."""
    return WaitingReasons(
        deferred=read_optional(page, "Deferred", int) or 0,
        next_try_at=read_optional(page, "WaitsUntil", datetime),
        reply=read_optional(page, "WaitsBecause", str) or "",
        held_by=held_by(page),
        is_held=read_optional(page, HELD, bool) or False,
    )


def held_by(page: Entity) -> tuple[str, ...]:
    return tuple((read_optional(page, _HELD_BY, str) or "").split())


def together(pages: Iterable[WaitingReasons]) -> WaitingReasons:
    """Return what the emails of several pages wait for. The reply is that of most emails."""
    deferred, replies = 0, dict[str, int]()
    times: list[datetime] = []
    keys: set[str] = set()
    for each in pages:
        deferred += each.deferred
        replies[each.reply] = replies.get(each.reply, 0) + each.deferred
        keys.update(each.held_by)
        if each.next_try_at is not None:
            times.append(each.next_try_at)
    reply = max(replies, key=replies.__getitem__, default="")
    return WaitingReasons(deferred, min(times, default=None), reply, tuple(sorted(keys)))
