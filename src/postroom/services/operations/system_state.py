"""The state of the system for people who write: what is wrong, since when, and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from postroom.services.messages.sending.hold_rows import HoldService, describe
from postroom.services.messages.sending.holds import ACCOUNT, Hold
from postroom.services.operations.disk_space import SpaceWait, SpaceWaits
from postroom.services.operations.health import Concern, Grade, HealthService
from postroom.services.queues.hosts import HostReport, HostStatusService
from postroom.transport.contract import FaultScope


class SystemProblem(msgspec.Struct, frozen=True):
    """Something that is wrong. It is about a hold, a queue or an application, or none of them.

    `next_try` is when Postroom tries again automatically; `reply` is what the mail server said.
    """

    grade: Grade
    text: str
    since: datetime | None = None
    next_try: datetime | None = None
    reply: str = ""
    hold: str = ""
    queue: str = ""
    app: str = ""


class SystemState:
    def __init__(
        self,
        health: HealthService,
        hosts: HostStatusService,
        holds: HoldService,
        space: SpaceWaits,
    ) -> None:
        self._health = health
        self._hosts = hosts
        self._holds = holds
        self._space = space

    async def problems(self) -> list[SystemProblem]:
        """Return all problems, what stops most first. Holds of single messages are shown with
        their messages."""
        health, hosts, holds, space = await asyncio.gather(
            self._health.look(),
            self._hosts.current(),
            self._holds.open_holds(),
            self._space.current(),
        )
        found = [
            *_of_holds(holds.by_key.values()),
            *_of_space(space),
            *map(_of_queue, health.concerns),
            *_of_apps(hosts),
        ]
        return sorted(found, key=lambda each: (each.hold != ACCOUNT, each.grade is Grade.LOOK))


def _of_holds(holds: Iterable[Hold]) -> Iterator[SystemProblem]:
    for hold in holds:
        if hold.scope is FaultScope.MESSAGE:
            continue
        grade = Grade.STOPPED if hold.scope is FaultScope.ACCOUNT else Grade.LOOK
        yield SystemProblem(
            grade,
            describe(hold).removesuffix("."),
            hold.since,
            hold.next_probe,
            reply=hold.reply,
            hold=hold.key,
        )


def _of_space(space: SpaceWait | None) -> Iterator[SystemProblem]:
    if space is not None:
        text = f"{space}, for {space.place}. New messages start when there is enough space"
        yield SystemProblem(Grade.STOPPED, text, space.since)


def _of_queue(concern: Concern) -> SystemProblem:
    return SystemProblem(concern.grade, concern.text, concern.since, queue=concern.queue)


def _of_apps(hosts: Iterable[HostReport]) -> Iterator[SystemProblem]:
    """Yield applications that are stopped because they keep failing, each once."""
    failing = {
        app.path: app.whole_trouble
        for host in hosts
        for app in host.apps
        if app.whole_trouble and app.whole_trouble != app.state  # else an operator has paused it
    }
    for path, trouble in sorted(failing.items()):
        yield SystemProblem(
            Grade.STOPPED, f"The application {path} does not run: {trouble}", app=path
        )
