"""Changes of everyone in a segment."""

from __future__ import annotations

from typing import Final

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.segments import Segment
from postroom.services.audience.bulk_changes import BulkAction, BulkReport, change_many
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.services.audience.targeting.segments import SegmentService

_AT_ONCE: Final = 100
_PROBLEMS_KEPT: Final = 1000


async def change_segment(
    segments: SegmentService,
    subscriptions: SubscriptionService,
    segment: Segment,
    action: BulkAction,
) -> BulkReport:
    """Change everyone who is in a segment, some at a time; each succeeds or fails on its own.

    If it is interrupted, repeat it to finish. `RuleError`.
    """
    done = 0
    problems: list[str] = []
    waiting: list[Address] = []

    async def change() -> None:
        nonlocal done, waiting
        report = await change_many(subscriptions, segment.list_name, waiting, action)
        done += report.done
        problems.extend(report.problems[: _PROBLEMS_KEPT - len(problems)])
        waiting = []

    async for address in segments.select(segment.list_name, segment.rule):
        waiting.append(address)
        if len(waiting) == _AT_ONCE:
            await change()
    if waiting:
        await change()
    return BulkReport(done, problems)
