"""The life of queue messages: put, delivered, retried, given up, and redriven.

A message is always in exactly one of its queue, `;retry`, `;poison` and `;dead-letter`, because it
moves in one step (`Queue.move`; on Azure a crash may leave it in two). Its counters travel with it:
the attempt of a cycle is its dequeue count, the rest are properties (`attempts.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.errors import Invalid, NotNow
from postroom.domain.queues.apps import App
from postroom.domain.queues.queue_names import (
    LONGEST,
    base_queue,
    is_internal,
    is_retry,
    is_subqueue,
    poison_queue,
    retry_queue,
    root_queue,
)
from postroom.services.events import EventService
from postroom.services.queues.attempts import (
    CYCLE,
    DEAD_LETTERS,
    EXPIRES_AT,
    RESERVED,
    STABLE_ID,
    UNANSWERED,
    AttemptFailure,
    AttemptHistory,
    HistoryEntry,
    cycle_of,
    for_redrive,
    origin_of,
    stable_id,
    with_stable_id,
)
from postroom.services.queues.dispositions import (
    Disposition,
    DispositionResult,
    DispositionService,
    ExpiryIndex,
    QueueFaults,
    requested_delay,
)
from postroom.services.queues.hosts import HostStatusService
from postroom.services.queues.queue_access import AccessService, Right
from postroom.services.queues.redriving import LEASE, RedrivePlan, Redriver
from postroom.storage import InvalidName, LeaseLost, QueueMessage, Store, StoredMessage
from postroom.storage.limits import QUERY_ROWS

_RETRY_LEASE = 10.0  # short: a host that is killed during this delays the messages for that long
_MOST_RETRIES = 1000  # messages at a time, so that other queues get their turn


class QueueSlice(msgspec.Struct, frozen=True):
    """Some messages of a queue in order of arrival; `next` is the `after` of the next ones."""

    messages: list[StoredMessage]
    next: str | None


class QueueService:
    def __init__(
        self,
        store: Store,
        hosts: HostStatusService,
        access: AccessService,
        events: EventService,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._store = store
        self._access = access
        self.attempts = AttemptHistory(store)
        self._faults = QueueFaults(store, hosts)
        self._dispositions = DispositionService(store, self.attempts, self._faults, events, now)
        self._expiry = ExpiryIndex(store)
        self._redriver = Redriver(store, self.attempts, for_redrive, origin_of, now)
        self._now = now

    # -- sending and reading ----------------------------------------------------------------------

    async def put(
        self,
        queue: str,
        body: str,
        *,
        delay: float = 0.0,
        ttl: float | None = None,
        properties: Mapping[str, str] | None = None,
        principal: str | None = None,
    ) -> str:
        """Put a message and return its id. `Invalid`, `NotAllowed`; `NotNow` for a queue that
        controls Postroom itself.

        After `ttl` seconds it expires and moves to its dead-letter queue.
        """
        await self._access.check(principal, Right.SEND, queue)
        if len(queue) > LONGEST:
            raise Invalid("queue", f"must have at most {LONGEST} characters, not {len(queue)}")
        self._check_queue("queue", queue)
        given = dict(properties or {})
        reserved = next((name for name in given if name in RESERVED), None)
        if reserved is not None:
            raise Invalid("properties", f"{reserved!r} is set by Postroom itself")
        if DEAD_LETTERS in given:
            self._check_queue(DEAD_LETTERS, given[DEAD_LETTERS])
        if ttl is not None:
            if not 0 < ttl <= timedelta(days=36_500).total_seconds():
                raise Invalid("ttl", f"must be a number of seconds above 0, not {ttl}")
            expires_at = self._now() + timedelta(seconds=ttl)
            given[EXPIRES_AT] = expires_at.isoformat()
            message_id = await self._store.queue(queue).put(body, delay=delay, properties=given)
            await self._expiry.add(queue, message_id, expires_at)
            return message_id
        return await self._store.queue(queue).put(body, delay=delay, properties=given)

    async def peek(
        self, queue: str, limit: int = 10, *, principal: str | None = None
    ) -> list[QueueMessage]:
        """Return the next messages without receiving them. `NotAllowed`."""
        await self._access.check(principal, Right.PEEK, queue)
        return await self._store.queue(queue).peek(limit)

    async def slice(
        self,
        queue: str,
        *,
        limit: int = 100,
        after: str | None = None,
        principal: str | None = None,
    ) -> QueueSlice:
        """Return messages in order of arrival, including delayed and leased ones, without
        receiving them. `NotAllowed`. See `Queue.browse` for what Azure can show.
        """
        await self._access.check(principal, Right.PEEK, queue)
        # One more than the limit shows whether more follow; at the engine's limit, they may.
        looked_at = min(limit + 1, QUERY_ROWS)
        found = await self._store.queue(queue).browse(looked_at, after=after)
        messages = found[:limit]
        has_more = len(found) == looked_at
        return QueueSlice(messages, messages[-1].message.id if has_more else None)

    async def history(self, identity: str) -> list[HistoryEntry]:
        """Return the history of the message with this stable id, oldest first."""
        return await self.attempts.of(identity)

    # -- for the host -----------------------------------------------------------------------------

    async def check_before_delivery(
        self, message: QueueMessage, app: App
    ) -> DispositionResult | None:
        """Return None if the message can be delivered, else what was done with it. `LeaseLost`.

        An earlier attempt without an answer, because its process or host died, is recorded here and
        counts as failed.
        """
        allowed = app.receive_retry_count + 1
        if message.dequeue_count > 1:
            earlier = min(message.dequeue_count - 1, allowed)
            await self.attempts.add_unanswered(message, earlier, self._now())
        if self._is_expired(message):
            return await self._expire(message)
        if message.dequeue_count > allowed:
            # Receiving it to find this out does not count as an attempt.
            last = msgspec.structs.replace(message, dequeue_count=allowed)
            return await self._dispositions.end_cycle(last, app, AttemptFailure(UNANSWERED))
        return None

    async def accepted(self, message: QueueMessage) -> None:
        """Delete an accepted message with its history. `LeaseLost`."""
        await self._store.queue(message.queue).delete(message)
        if message.dequeue_count > 1 or STABLE_ID in message.properties:
            await self.attempts.forget(stable_id(message))

    async def failed(
        self, message: QueueMessage, app: App, failure: AttemptFailure
    ) -> DispositionResult:
        """Record a failed attempt, then release the message or end its cycle. `LeaseLost`."""
        await self.attempts.add_failure(message, failure, self._now())
        if failure.poison:
            return await self._dispositions.end(message, app, failure.error)
        if message.dequeue_count > app.receive_retry_count:
            return await self._dispositions.end_cycle(message, app, failure)
        delay = requested_delay(failure)
        await self._store.queue(message.queue).release(message, delay=delay)
        return DispositionResult(Disposition.RELEASED, message.queue, delay, failure.error)

    async def start_due_retries(self, queue: str) -> int:
        """Move due messages of `;retry` back to their queue; return how many.

        `queue` may be named with or without the suffix.
        """
        home = base_queue(queue) if is_retry(queue) else queue
        retry = self._store.queue(retry_queue(home))
        moved = 0
        while moved < _MOST_RETRIES:
            batch = await retry.receive(32, lease=_RETRY_LEASE)
            moved += sum(await asyncio.gather(*(self._start_next_cycle(m, home) for m in batch)))
            if len(batch) < 32:
                break
        return moved

    async def expire_due(self) -> int:
        """Make dead letters of expired messages, even without an application; return how many."""
        expired = 0
        for due in await self._expiry.due(self._now()):
            queue = self._store.queue(due.queue)
            if not (await queue.info()).length:
                await self._expiry.forget(due)
                continue
            message = await queue.receive_by_id(due.id, lease=LEASE)
            if message is None:
                await self._expiry.look_later(due, self._now())
                continue
            if self._is_expired(message):
                await self._expire(message)
                expired += 1
            else:  # it was redriven and no longer expires
                await queue.release(message, count_attempt=False)
            await self._expiry.forget(due)
        return expired

    # -- stopped queues ---------------------------------------------------------------------------

    async def faulted(self) -> dict[str, str]:
        """Return every stopped queue with the reason."""
        return await self._faults.all()

    async def is_faulted(self, queue: str) -> bool:
        return await self._faults.reason(queue) is not None

    async def fault(self, queue: str, reason: str, *, principal: str | None = None) -> None:
        """Stop this queue, and no other, until `clear_fault`. `NotAllowed`."""
        await self._access.check(principal, Right.MANAGE, queue)
        await self._dispositions.stop(queue, reason)

    async def clear_fault(self, queue: str, *, principal: str | None = None) -> bool:
        """Resume a queue; return whether it was stopped. `NotAllowed`."""
        await self._access.check(principal, Right.MANAGE, queue)
        return await self._faults.clear(queue)

    # -- for administrators -----------------------------------------------------------------------

    async def redrive(
        self,
        queue: str,
        *,
        id: str | None = None,
        rate: float | None = None,
        source: str | None = None,
        progress: Callable[[int], None] | None = None,
        principal: str | None = None,
    ) -> int:
        """Move messages back to their queue and reset their attempts; return how many.

        From `;poison`, or from the subqueue that is named. `source` is a sender's own dead-letter
        queue: then only messages that `queue` rejected move back. One, by its id (`NoSuch`), or all
        that are there now, at most `rate` per second. A stopped queue resumes afterwards. After an
        interruption, call it again.
        """
        await self._access.check(principal, Right.MANAGE, queue)
        self.check_redrive(queue, rate, source)
        home = root_queue(queue)
        origin = None
        if source is not None:
            await self._access.check(principal, Right.MANAGE, source)
            origin = home
        elif is_subqueue(queue):
            source = queue
        redrive = RedrivePlan(source or poison_queue(queue), home, origin, rate, progress)
        if id is not None:
            moved = await self._redriver.one(redrive, id)
        else:
            moved = await self._redriver.all(redrive)
        if await self._faults.reason(home) is not None:
            await self._faults.clear(home)
        return moved

    def check_redrive(
        self, queue: str, rate: float | None = None, source: str | None = None
    ) -> None:
        """Check the arguments of a redrive that runs in the background. `Invalid`."""
        self._check_queue("queue", queue)
        if source is not None:
            self._check_queue("dead_letter_queue", source)
        if is_retry(queue):
            raise Invalid("queue", "must not be a ;retry queue: its messages return automatically")
        if rate is not None and not 0.001 <= rate <= 1_000_000:
            raise Invalid("rate", f"must be between 0.001 and 1,000,000 per second, not {rate}")

    async def delete_message(self, queue: str, id: str, *, principal: str | None = None) -> None:
        """Delete one message with its history. `NoSuch`, `NotAllowed`."""
        await self._access.check(principal, Right.MANAGE, queue)
        message = await self._redriver.take(queue, id)
        await self._store.queue(queue).delete(message)
        await self.attempts.forget(stable_id(message))

    async def purge(self, queue: str, *, principal: str | None = None) -> None:
        """Delete all messages of a queue, including those in progress. `NotAllowed`."""
        await self._access.check(principal, Right.MANAGE, queue)
        await self._store.queue(queue).purge()

    # -- helpers ----------------------------------------------------------------------------------

    async def _expire(self, message: QueueMessage) -> DispositionResult:
        """Make a dead letter of a message. Receiving it for this does not count as an attempt."""
        before = msgspec.structs.replace(message, dequeue_count=message.dequeue_count - 1)
        return await self._dispositions.dead_letter(before, "expired")

    async def _start_next_cycle(self, message: QueueMessage, home: str) -> bool:
        """Move a message of `;retry` back to its queue; return whether it is there."""
        try:
            properties = with_stable_id(message)
            properties[CYCLE] = str(cycle_of(message.properties) + 1)
            if self._is_expired(message):
                await self._expire(msgspec.structs.replace(message, properties=properties))
                return False
            await self._dispositions.move(message, home, properties)
        except LeaseLost:
            return False  # another host moves it
        return True

    def _is_expired(self, message: QueueMessage) -> bool:
        try:
            expires_at = datetime.fromisoformat(message.properties[EXPIRES_AT])
        except (KeyError, ValueError):
            return False
        if expires_at.tzinfo is None:
            expires_at = expires_at.replace(tzinfo=UTC)
        return expires_at <= self._now()

    def _check_queue(self, field: str, name: str) -> None:
        try:
            self._store.queue(name)
        except InvalidName as exc:
            raise Invalid(field, str(exc)) from exc
        if is_internal(root_queue(name)):
            raise NotNow(f"queue {name} controls Postroom itself and refuses messages")
