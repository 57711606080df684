"""What becomes of a message that could not be accepted: another cycle, or the end of its attempts.

Rows of the history are written before what they tell of is done, and a message goes from one queue
to another in one step (`Queue.move`): a process that dies in between leaves work to do again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from postroom.domain.queues.app_options import OnPoison
from postroom.domain.queues.apps import App
from postroom.domain.queues.queue_names import (
    POISON,
    dead_letter_queue,
    is_internal,
    is_subqueue,
    poison_queue,
    retry_queue,
    root_queue,
)
from postroom.services.events import EventService, Severity
from postroom.services.queues.attempts import (
    CRASHED,
    DROPPED,
    Failure,
    MessageHistory,
    cycle_of,
    stable_id,
)
from postroom.services.queues.message_properties import DEAD_LETTERS, ORIGIN, anew, noted, without
from postroom.services.queues.poison_notices import PoisonNotices
from postroom.services.queues.queue_faults import QueueFaults
from postroom.storage import InvalidName, QueueMessage, Store

_MOST_DELAY = timedelta(days=7).total_seconds()

_log = logging.getLogger(__name__)


class Action(StrEnum):
    """What was done with a message that could not be accepted."""

    RELEASED = "released"
    RETRY = "retry"
    POISONED = "poisoned"
    DEAD_LETTERED = "dead-lettered"
    DROPPED = "dropped"
    FAULTED = "faulted"


class Verdict(msgspec.Struct, frozen=True):
    """What was done with the message, where it is now, and after how many seconds it is ready."""

    action: Action
    queue: str
    delay: float = 0.0
    reason: str = ""


class Dispositions:
    def __init__(
        self,
        store: Store,
        history: MessageHistory,
        faults: QueueFaults,
        events: EventService,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._history = history
        self._faults = faults
        self._events = events
        self._notices = PoisonNotices(self._events)
        self._now = now

    async def end_cycle(self, message: QueueMessage, app: App, failure: Failure) -> Verdict:
        if cycle_of(message.properties) >= app.max_retry_cycles:
            return await self.end(message, app, failure.error)
        delay = max(app.retry_cycle_delay.total_seconds(), asked_delay(failure))
        to = retry_queue(message.queue)
        properties = without(noted(message), CRASHED)
        if failure.exit_status is not None:
            properties[CRASHED] = "1"
        await self.move(message, to, properties, delay)
        return Verdict(Action.RETRY, to, delay, failure.error)

    async def end(self, message: QueueMessage, app: App, error: str) -> Verdict:
        """All attempts are used up. What fails in a poison queue never comes back to one."""
        if app.on_poison is OnPoison.DROP:
            return await self._drop(message, error)
        if app.on_poison is OnPoison.FAULT:
            return await self._fault(message, error)
        if app.on_poison is OnPoison.REJECT or message.queue.endswith(POISON):
            to = self._dead_letters_of(message)
            await self._notices.given_up(message.queue, stable_id(message), f"moved to {to}", error)
            return await self.dead_letter(message, error)
        to = poison_queue(message.queue)
        await self._history.event(message, f"moved to {to}", self._now(), to=to)
        await self._notices.given_up(message.queue, stable_id(message), f"moved to {to}", error)
        await self.move(message, to, anew(message))
        return Verdict(Action.POISONED, to, 0.0, error)

    async def _drop(self, message: QueueMessage, error: str) -> Verdict:
        """Its history outlives the message for a while: it is the only trace."""
        await self._history.event(message, DROPPED, self._now())
        await self._notices.given_up(message.queue, stable_id(message), DROPPED, error)
        await self._store.queue(message.queue).delete(message)
        _log.warning(
            "message %s of queue %s was dropped: %s", stable_id(message), message.queue, error
        )
        return Verdict(Action.DROPPED, "", 0.0, error)

    async def _fault(self, message: QueueMessage, error: str) -> Verdict:
        """The mark first: without it the message would be tried over and over."""
        reason = f"message {message.id} failed: {error}"
        await self._history.event(message, "stopped the queue", self._now(), to=message.queue)
        await self.stop(message.queue, reason)
        await self.move(message, message.queue, anew(message))
        return Verdict(Action.FAULTED, message.queue, 0.0, reason)

    async def stop(self, queue: str, reason: str) -> None:
        await self._faults.set(queue, reason)
        await self._events.record(
            "host",
            f"the queue {queue} is stopped: {reason}",
            severity=Severity.ERROR,
            subject=f"queue:{queue}",
        )

    async def dead_letter(self, message: QueueMessage, reason: str) -> Verdict:
        to = self._dead_letters_of(message)
        await self._history.event(message, f"moved to {to}: {reason}", self._now(), to=to)
        properties = without(anew(message), DEAD_LETTERS)
        if not is_subqueue(to):
            properties[ORIGIN] = root_queue(message.queue)
        await self.move(message, to, properties)
        return Verdict(Action.DEAD_LETTERED, to, 0.0, reason)

    async def move(
        self, message: QueueMessage, to: str, properties: Mapping[str, str], delay: float = 0.0
    ) -> None:
        await self._store.queue(message.queue).move(message, to, delay=delay, properties=properties)

    # -- what a message says ----------------------------------------------------------------------

    def _dead_letters_of(self, message: QueueMessage) -> str:
        """The sender's queue, if it can be one; never the message's own."""
        wanted = message.properties.get(DEAD_LETTERS, "")
        try:
            self._store.queue(wanted)
        except InvalidName:
            return dead_letter_queue(message.queue)
        is_own = root_queue(wanted) == root_queue(message.queue)
        is_closed = is_own or is_internal(root_queue(wanted))
        return dead_letter_queue(message.queue) if is_closed else wanted


def asked_delay(failure: Failure) -> float:
    """Seconds until the next attempt that the handler has asked for."""
    return min(max(failure.retry_in or 0.0, 0.0), _MOST_DELAY)
