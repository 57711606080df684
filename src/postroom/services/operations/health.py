"""Is everything running? Hosts, processes, and what somebody should look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from postroom import clock
from postroom.domain.messages.pages import CONFIRM_QUEUE, SCHEDULE_QUEUE, SEND_QUEUE
from postroom.domain.queues.queue_names import dead_letter_queue, poison_queue
from postroom.services.queues.hosts import HostStatusService
from postroom.services.queues.queue_overview import QueueOverview, QueueOverviewService

STUCK = timedelta(minutes=2)
"""A queue whose next message is ready and has not been taken for so long is stuck."""

_NOBODY = ("no application", "no host")
_OWN = (SEND_QUEUE, CONFIRM_QUEUE)  # `postroom sender` takes these without any host


class Grade(StrEnum):
    """How bad it is."""

    STOPPED = "stopped"
    LOOK = "look"


class Concern(msgspec.Struct, frozen=True):
    """Something to look at; `queue` is where."""

    grade: Grade
    text: str
    queue: str


class Health(msgspec.Struct, frozen=True):
    """`waiting` and `put_aside` count messages of all queues but Postroom's own bells. What is
    stopped comes first among the concerns."""

    hosts: int
    processes: int
    waiting: int
    put_aside: int
    concerns: list[Concern]


class _Head(msgspec.Struct, frozen=True):
    """The next message of a queue, as we saw it first at `seen`."""

    put: datetime
    length: int
    seen: datetime


class HealthService:
    """Looks are compared with those before: a long queue that moves is no concern."""

    def __init__(
        self,
        hosts: HostStatusService,
        queues: QueueOverviewService,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._hosts = hosts
        self._queues = queues
        self._now = now
        self._heads: dict[str, _Head] = {}

    async def look(self) -> Health:
        hosts = await self._hosts.current()
        queues = await self._queues.overview()
        self._remember(queues)
        outside = [each for each in queues if each.state != "internal"]
        return Health(
            hosts=len(hosts),
            processes=sum(len(app.processes) for host in hosts for app in host.apps),
            waiting=sum(each.length + each.retry for each in outside),
            put_aside=sum(each.poison + each.dead_letter for each in outside),
            concerns=sorted(
                (concern for each in queues for concern in self._concerns(each)),
                key=lambda concern: concern.grade is not Grade.STOPPED,
            ),
        )

    def _remember(self, queues: Iterable[QueueOverview]) -> None:
        heads: dict[str, _Head] = {}
        for queue in queues:
            if queue.oldest is None:
                continue
            head = self._heads.get(queue.name)
            if head is None or (head.put, head.length) != (queue.oldest, queue.length):
                head = _Head(queue.oldest, queue.length, self._now())
            heads[queue.name] = head
        self._heads = heads

    def _concerns(self, queue: QueueOverview) -> Iterable[Concern]:
        name = queue.name
        if queue.faulted is not None:
            yield Concern(Grade.STOPPED, f"{name} is stopped: {queue.faulted}", name)
        elif self._is_stuck(queue):
            yield Concern(Grade.STOPPED, _why_stuck(queue), name)
        for count, aside in (
            (queue.poison, poison_queue(name)),
            (queue.dead_letter, dead_letter_queue(name)),
        ):
            if count:
                messages = "1 message" if count == 1 else f"{count:,} messages"
                yield Concern(Grade.LOOK, f"{messages} in {aside}", aside)

    def _is_stuck(self, queue: QueueOverview) -> bool:
        head = self._heads.get(queue.name)
        if head is None:
            return False
        nobody_takes_it = queue.state in _NOBODY and queue.name not in _OWN
        since = head.put if nobody_takes_it else head.seen
        return self._now() - since > STUCK


def _why_stuck(queue: QueueOverview) -> str:
    if queue.name == SCHEDULE_QUEUE:
        return "No scheduler answers, so messages that are due wait: postroom up starts one"
    return f"{queue.name} waits, and nobody takes its messages ({queue.state})"
