"""Decides whether and when the next wave of a message begins.

After a canary was sent, and the others have waited, its figures decide: either they follow, or the
message pauses, and *Resume* sends it to the others anyway. Both follow from stored figures, and are
saved under the ETag of the message's row: however often this is interrupted and repeated, the
decision is made once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import Message, MessageStatus, with_status
from postroom.domain.messages.waves.canaries import CanaryRules
from postroom.domain.messages.waves.waves import Waves
from postroom.scheduler.services import SchedulerServices
from postroom.services.audience.suppression.delivery_figures import DeliveryFigures
from postroom.services.audience.suppression.delivery_limits import percent
from postroom.services.events import Severity

_LEAST: Final = 3
"""Fewer may be chance."""


def why_stopped(counts: Counts, figures: DeliveryFigures, rules: CanaryRules) -> str:
    """Return why a message stops after its canary; empty if it does not."""
    tried = counts.accepted + counts.refused
    for count, of, limit, what in (
        (counts.refused + figures.bounced, tried, rules.refusals, "were refused or bounced"),
        (
            figures.rejected,
            counts.accepted,
            rules.rejections,
            "were rejected because of our reputation or the content",
        ),
        (figures.complained, counts.accepted, rules.complaints, "were marked as spam"),
    ):
        rate = percent(count, of)
        if limit is not None and count >= _LEAST and rate > limit:
            return f"{count:,} of {of:,} emails {what} ({rate:.1f}%; the limit is {limit:g}%)"
    return ""


class WaitingWaves:
    def __init__(self, services: SchedulerServices, rules: CanaryRules) -> None:
        self._messages = services.message_rows
        self._outcomes = services.outcomes
        self._figures = services.delivery_figures
        self._events = services.events
        self._rules = rules

    async def look(self, message: Message, waves: Waves) -> Message:
        """Check a message that waits for its next wave; return it, perhaps with the wave begun or
        paused. `Overtaken`."""
        now = clock.now()
        if waves.next_at is None and not waves.times:
            sent = await self._outcomes.tried(message)
            if sent is None:
                return message
            pause = timedelta(seconds=waves.wait if sent.planned else 0.0)
            waves = msgspec.structs.replace(waves, next_at=now + pause)
            return await self._save(message, waves)
        if waves.next_at is None or now < waves.next_at:
            return message
        following = waves.following(message.queued_pages)
        if waves.canary is not None and (reason := await self._why_stopped(message)):
            return await self._stop(message, following, reason)
        return await self._save(message, following)

    async def _why_stopped(self, message: Message) -> str:
        counts = await self._outcomes.counts(message)
        figures = (await self._figures.count(message)).total
        return why_stopped(counts, figures, self._rules)

    async def _stop(self, message: Message, following: Waves, reason: str) -> Message:
        """Pause a message, so that its resumption sends it to the others. The event comes first: an
        interruption repeats it."""
        text = f"of the first recipients, {reason}, so nobody else has received it yet"
        await self._events.record(
            "scheduler",
            f"the message {message.subject!r} to {message.list_name} was paused automatically:"
            f" {text}",
            severity=Severity.WARNING,
            subject=f"message:{message.ref}",
        )
        paused = with_status(
            message,
            MessageStatus.PAUSED,
            reason=text,
            paused_from=message.status,
            waves=following,
        )
        return await self._messages.save(paused)

    async def _save(self, message: Message, waves: Waves) -> Message:
        return await self._messages.save(msgspec.structs.replace(message, waves=waves))
