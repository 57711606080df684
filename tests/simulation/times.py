"""Sizes and times of the product that a simulation makes smaller.

A run has a handful of recipients and lasts some seconds of virtual time, so that ten thousand runs
take a minute. The order of these times stays as it is: a lease is longer than a poll, and so on.
"""

from __future__ import annotations

import inspect
from datetime import timedelta

from postroom.scheduler import completion, held_pages, leading, members, page_packing
from postroom.sender import policy, sending
from postroom.sender.faults import refusals
from postroom.services.messages.sending import hold_rows, holds
from postroom.storage.checked import CheckedContainer, CheckedQueue
from postroom.storage.checked_tables import CheckedTable
from postroom.transport.contract import FaultScope

LEASE = 1.5
"""Seconds for which a sender claims a page, and a scheduler leads."""


_SMALLER: tuple[tuple[object, str, object], ...] = (
    (page_packing, "PAGE_SIZE", 2),
    (members, "_WINDOW", 4),
    (policy, "_UNANSWERED_PAUSES", (timedelta(seconds=0.4), timedelta(seconds=0.8))),
    (refusals, "_FEW", 2),
    (refusals, "ENOUGH", 3),
    (holds, "PROBE_LEASE", timedelta(seconds=2)),
    (hold_rows, "PROBE_LEASE", timedelta(seconds=2)),
    (holds, "INTERVALS", (1, 2)),
    (holds, "_LONGEST", dict.fromkeys(FaultScope, 2)),
    (completion, "_PARKED_CHECK_SECONDS", 2.0),
    # Only runs that lose work items look for them: it would hide bugs that lose one.
    (completion, "_LOST_AFTER", timedelta(days=1)),
    (held_pages, "_PROBE_SECONDS", 2.0),
    # Polls are the larger part of what a run costs.
    (leading, "_LAST_CHECKS", 0.4),
    (sending, "_STATUS_SECONDS", 0.5),
)


def make_smaller() -> None:
    """Change the product's constants, for the rest of this process."""
    for module, name, value in _SMALLER:
        if hasattr(module, name):
            setattr(module, name, value)
        elif module is not hold_rows:
            raise AttributeError(f"{module} has no {name}: the simulation has to follow")
    for part in (CheckedTable, CheckedQueue, CheckedContainer):
        _measure_nothing(part)


def _measure_nothing(part: type) -> None:
    """Call the operations of the store without the timer around them (`checked.measured`)."""
    for name, operation in list(vars(part).items()):
        if inspect.iscoroutinefunction(operation) and hasattr(operation, "__wrapped__"):
            setattr(part, name, operation.__wrapped__)
