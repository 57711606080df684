"""Queue messages on their way: delivered, tried again, put aside, and brought back.

A message is at every instant in exactly one of its queue, `;retry`, `;poison` and dead-letter,
because it goes from one to the other in one step (`Queue.move`; on Azure a crash may leave it in
two). Its counters travel with it: the attempt of a cycle is its dequeue count, the rest are
properties (`message_history.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

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
    STABLE_ID,
    UNANSWERED,
    Failure,
    HistoryEntry,
    MessageHistory,
    cycle_of,
    stable_id,
)
from postroom.services.queues.dispositions import Action, Dispositions, Verdict, asked_delay
from postroom.services.queues.expiry import ExpiryIndex
from postroom.services.queues.hosts import HostStatusService
from postroom.services.queues.message_properties import (
    DEAD_LETTERS,
    EXPIRES_AT,
    RESERVED,
    noted,
    origin_of,
    redriven,
)
from postroom.services.queues.queue_access import AccessService, Right
from postroom.services.queues.queue_faults import QueueFaults
from postroom.services.queues.redriving import LEASE, Redrive, Redriver
from postroom.storage import InvalidName, LeaseLost, QueueMessage, Store, StoredMessage
from postroom.storage.limits import QUERY_ROWS

_COME_BACK_LEASE = 10.0  # a host that is killed meanwhile must not hold them up for long
_COME_BACK = 1000  # messages at a time: others want to be looked after, too


class QueuePage(msgspec.Struct, frozen=True):
    """Some messages of a queue in the order of their arrival; `next` goes on."""

    messages: list[StoredMessage]
    next: str | None


class QueueService:
    def __init__(
        self,
        store: Store,
        hosts: HostStatusService,
        access: AccessService,
        events: EventService,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._access = access
        self._history = MessageHistory(store)
        self._faults = QueueFaults(store, hosts)
        self._dispositions = Dispositions(store, self._history, self._faults, events, now)
        self._expiry = ExpiryIndex(store)
        self._redriver = Redriver(store, self._history, redriven, origin_of, now)
        self._now = now

    # -- for whoever sends and looks --------------------------------------------------------------

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
        """Put a message; answers its id. `Invalid`, `NotAllowed`; `NotNow` for a queue of
        Postroom's own.

        After `ttl` seconds it is not delivered any more but goes to its dead-letter queue.
        """
        await self._access.check(principal, Right.SEND, queue)
        if len(queue) > LONGEST:
            raise Invalid("queue", f"a queue's name has up to {LONGEST} characters")
        self._check_queue("queue", queue)
        given = dict(properties or {})
        reserved = next((name for name in given if name in RESERVED), None)
        if reserved is not None:
            raise Invalid("properties", f"{reserved!r} is set by Postroom itself")
        if DEAD_LETTERS in given:
            self._check_queue(DEAD_LETTERS, given[DEAD_LETTERS])
        if ttl is not None:
            if not 0 < ttl <= timedelta(days=36_500).total_seconds():
                raise Invalid("ttl", "is a number of seconds above 0")
            expires_at = self._now() + timedelta(seconds=ttl)
            given[EXPIRES_AT] = expires_at.isoformat()
            made = await self._store.queue(queue).put(body, delay=delay, properties=given)
            await self._expiry.add(queue, made, expires_at)
            return made
        return await self._store.queue(queue).put(body, delay=delay, properties=given)

    async def peek(
        self, queue: str, limit: int = 10, *, principal: str | None = None
    ) -> list[QueueMessage]:
        """The next messages, untouched. `NotAllowed`."""
        await self._access.check(principal, Right.PEEK, queue)
        return await self._store.queue(queue).peek(limit)

    async def page(
        self,
        queue: str,
        *,
        limit: int = 100,
        after: str | None = None,
        principal: str | None = None,
    ) -> QueuePage:
        """Messages in the order of their arrival, delayed and leased ones too, untouched; `after`
        is the `next` of the page before. `NotAllowed`. See `Queue.browse` for what Azure can show.
        """
        await self._access.check(principal, Right.PEEK, queue)
        # One more, to know whether there are more; where that is over the limit, there may be.
        looked_at = min(limit + 1, QUERY_ROWS)
        found = await self._store.queue(queue).browse(looked_at, after=after)
        messages = found[:limit]
        goes_on = len(found) == looked_at
        return QueuePage(messages, messages[-1].message.id if goes_on else None)

    async def history(self, identity: str) -> list[HistoryEntry]:
        """What happened to the message that has, or had, this id; oldest first."""
        return await self._history.of(identity)

    # -- for the host -----------------------------------------------------------------------------

    async def check_before_delivery(self, message: QueueMessage, app: App) -> Verdict | None:
        """None if the message may be handed over; otherwise it was put aside. `LeaseLost`.

        An attempt that nobody has answered (its process or its host died) is noted here and counts
        like one that failed.
        """
        allowed = app.receive_retry_count + 1
        if message.dequeue_count > 1:
            earlier = min(message.dequeue_count - 1, allowed)
            await self._history.unanswered(message, earlier, self._now())
        if self._is_expired(message):
            return await self._expire(message)
        if message.dequeue_count > allowed:
            # It was taken once more only to find this out: that is no attempt.
            last = msgspec.structs.replace(message, dequeue_count=allowed)
            return await self._dispositions.end_cycle(last, app, Failure(UNANSWERED))
        return None

    async def has_crashed(self, message: QueueMessage) -> bool:
        """Return whether a process died the last time that this message was tried."""
        return await self._history.has_crashed(message)

    async def accepted(self, message: QueueMessage) -> None:
        """The message is done; what is known of earlier failures goes, too. `LeaseLost`."""
        await self._store.queue(message.queue).delete(message)
        if message.dequeue_count > 1 or STABLE_ID in message.properties:
            await self._history.forget(stable_id(message))

    async def failed(self, message: QueueMessage, app: App, failure: Failure) -> Verdict:
        """One attempt has failed: record it, then try again, later, or no more. `LeaseLost`."""
        await self._history.failed(message, failure, self._now())
        if failure.poison:
            return await self._dispositions.end(message, app, failure.error)
        if message.dequeue_count > app.receive_retry_count:
            return await self._dispositions.end_cycle(message, app, failure)
        delay = asked_delay(failure)
        await self._store.queue(message.queue).release(message, delay=delay)
        return Verdict(Action.RELEASED, message.queue, delay, failure.error)

    async def come_back(self, queue: str) -> int:
        """Bring messages that are due back from the queue's `;retry`; answers how many.

        `queue` may be named with or without the suffix.
        """
        home = base_queue(queue) if is_retry(queue) else queue
        retry = self._store.queue(retry_queue(home))
        moved = 0
        while moved < _COME_BACK:
            batch = await retry.receive(32, lease=_COME_BACK_LEASE)
            moved += sum(await asyncio.gather(*(self._bring_back(m, home) for m in batch)))
            if len(batch) < 32:
                break
        return moved

    async def expire_due(self) -> int:
        """Make dead letters of messages whose time to live has ended, also where no application
        takes them; return how many."""
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
            else:  # it was redriven: its time to live ended with that
                await queue.release(message, count_attempt=False)
            await self._expiry.forget(due)
        return expired

    # -- queues that are stopped ------------------------------------------------------------------

    async def faulted(self) -> dict[str, str]:
        """Every queue that is stopped, and why."""
        return await self._faults.all()

    async def is_faulted(self, queue: str) -> bool:
        return await self._faults.reason(queue) is not None

    async def fault(self, queue: str, reason: str, *, principal: str | None = None) -> None:
        """Stop this queue, and no other, until its fault is cleared. `NotAllowed`."""
        await self._access.check(principal, Right.MANAGE, queue)
        await self._dispositions.stop(queue, reason)

    async def clear_fault(self, queue: str, *, principal: str | None = None) -> bool:
        """Let the queue go on; answers whether it was stopped. `NotAllowed`."""
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
        """Bring messages back to their queue and reset their attempts; return how many.

        From `;poison`, or from the subqueue that is named. `source` is a dead-letter queue that
        the sender named: then only those come back that were rejected in `queue`. One, by its id
        (`NoSuch`), or all that are there now, at most `rate` per second. A stopped queue continues
        afterwards. What is interrupted is finished by doing it again.
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
        redrive = Redrive(source or poison_queue(queue), home, origin, rate, progress)
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
        """For who starts a redrive and does not wait for it. `Invalid` if there is none such."""
        self._check_queue("queue", queue)
        if source is not None:
            self._check_queue("dead_letter_queue", source)
        if is_retry(queue):
            raise Invalid("queue", "messages come back from ;retry by themselves")
        if rate is not None and not 0.001 <= rate <= 1_000_000:
            raise Invalid("rate", "is a number of messages a second, from 0.001")

    async def delete_message(self, queue: str, id: str, *, principal: str | None = None) -> None:
        """Remove one message for good, with its history. `NoSuch`, `NotAllowed`."""
        await self._access.check(principal, Right.MANAGE, queue)
        message = await self._redriver.take(queue, id)
        await self._store.queue(queue).delete(message)
        await self._history.forget(stable_id(message))

    async def purge(self, queue: str, *, principal: str | None = None) -> None:
        """Remove all messages of a queue, those in somebody's hands too. `NotAllowed`."""
        await self._access.check(principal, Right.MANAGE, queue)
        await self._store.queue(queue).purge()

    # -- the end of attempts ----------------------------------------------------------------------

    async def _expire(self, message: QueueMessage) -> Verdict:
        """Make a dead letter of a message that was taken for this only: that is no attempt."""
        before = msgspec.structs.replace(message, dequeue_count=message.dequeue_count - 1)
        return await self._dispositions.dead_letter(before, "its time to live had ended")

    async def _bring_back(self, message: QueueMessage, home: str) -> bool:
        """A message of `;retry` begins its next cycle."""
        try:
            properties = noted(message)
            properties[CYCLE] = str(cycle_of(message.properties) + 1)
            if self._is_expired(message):
                await self._expire(msgspec.structs.replace(message, properties=properties))
                return False
            await self._dispositions.move(message, home, properties)
        except LeaseLost:
            return False  # somebody else brings it back
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
            raise NotNow(f"the queue {name} controls Postroom itself and takes no messages")
