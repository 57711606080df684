"""The host itself: which queues have messages, and whose they are.

One wait covers all queues, those that do not exist yet included. Whatever is being looked after, or
cannot be, is left out of it (`besides`) until that changes: then the wait starts again, with a look
at everything, so nothing that arrives in between is missed. And because nothing may rest on one
event, everything is looked at anew every few seconds.

How it stops (SIGTERM): it takes no more messages; processes finish what they have begun, up to
their drain limit; what has not begun is given back uncounted; then its row and its bell go.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol

import msgspec

from postroom.domain.errors import NotAllowed
from postroom.domain.queues.apps import App, AppControl
from postroom.domain.queues.matching import winner
from postroom.domain.queues.queue_names import bell_queue, is_internal, is_retry, segments
from postroom.host.dispatch import Dispatcher
from postroom.host.patience import pause_after
from postroom.host.processes.launcher import Launcher
from postroom.host.runner import PAUSED, HostSettings, Runner, Surroundings
from postroom.host.serving import Server
from postroom.services.events import EventService
from postroom.services.queues.apps import AppRegistry
from postroom.services.queues.delivery import QueueService
from postroom.services.queues.hosts import HEARTBEAT, AppStatus, HostStatusService
from postroom.services.queues.queue_access import AccessService, Right
from postroom.storage import Store, StoreError

log = logging.getLogger(__name__)

NO_APPLICATION = "no application"
_WAIT_SECONDS = 30.0
_REPORT_SECONDS = HEARTBEAT.total_seconds()
_REPORT_SOONEST = 0.5
_CLEAN_SECONDS = 60.0
_EXPIRE_SECONDS = 5.0


class HostServices(Protocol):
    """The services that a host uses; `wiring.Services` has all of them."""

    store: Store
    events: EventService
    apps: AppRegistry
    queues: QueueService
    hosts: HostStatusService
    access: AccessService


class _LeftOut(msgspec.Struct, frozen=True):
    """Why nobody looks after a queue, and whose it would be. It holds until things are looked at
    anew, which makes another generation."""

    reason: str
    path: str
    generation: int


class Supervisor:
    def __init__(self, services: HostServices, launcher: Launcher, settings: HostSettings) -> None:
        self.machine = socket.gethostname()
        self.id = f"{self.machine}-{os.getpid()}-{secrets.token_hex(4)}"
        self._services = services
        self._launcher = launcher
        self._around = Surroundings(
            self.id,
            services.store,
            services.queues,
            services.events,
            launcher,
            settings,
            self._look_again,
        )
        self._bell = bell_queue(self.id)
        self._version: str | None = None
        self._runners: dict[str, Runner] = {}
        self._retired: set[asyncio.Task[None]] = set()
        self._routes: dict[str, Runner] = {}
        self._left_out: dict[str, _LeftOut] = {}
        self._generation = 0
        self._changed = asyncio.Event()
        self._learning = asyncio.Lock()
        self._is_started = False

    # -- its life ----------------------------------------------------------------------------

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping`: start what is needed, stop what is not."""
        self._launcher.start()
        self._services.events.note("host", f"the host on {self.machine} has started")
        stop = asyncio.create_task(stopping.wait())
        parts = (self._watch, self._refresh, self._report, self._expire)
        beside = [asyncio.create_task(part()) for part in parts]
        try:
            await asyncio.wait([stop, *beside], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stop, *beside):
                task.cancel()
            ends = await asyncio.gather(*beside, return_exceptions=True)
            await self._end()
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _end(self) -> None:
        ending = [asyncio.create_task(runner.end()) for runner in self._runners.values()]
        if ending or self._retired:
            await asyncio.wait([*ending, *self._retired])
        await self._launcher.stop()
        self._services.events.note("host", f"the host on {self.machine} has stopped")
        await self._services.events.settle()
        with suppress(StoreError):  # what is left behind is cleaned up by others
            await self._services.hosts.forget(self.id)

    # -- what there is to do -----------------------------------------------------------------

    async def _watch(self) -> None:
        """Wait for messages and pass them on. One failure to look is followed by another look."""
        while True:
            await _patiently(self._look, "the queues cannot be looked at")

    async def _look(self) -> None:
        self._changed.clear()
        ready = await self._wait()
        if self._bell in ready:
            # Before anything else: messages that came after a change go where it says.
            await self._services.store.queue(self._bell).purge()
            await self._learn()
            return
        for queue in ready:
            await self._route(queue)

    async def _wait(self) -> frozenset[str]:
        """Queues with messages that nobody looks after; none when it is time to look anew."""
        if not self._is_started:  # nothing is known about applications yet
            await self._changed.wait()
            return frozenset()
        waiting = asyncio.create_task(
            self._services.store.wait_for_messages(besides=self._besides(), timeout=_WAIT_SECONDS)
        )
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait([waiting, changed], return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else frozenset()
        finally:
            for task in (waiting, changed):
                task.cancel()
            await asyncio.gather(waiting, changed, return_exceptions=True)

    def _besides(self) -> set[str]:
        looked_after = {queue for runner in self._runners.values() for queue in runner.queues}
        return looked_after | {
            queue for queue, why in self._left_out.items() if why.generation == self._generation
        }

    def _look_again(self) -> None:
        self._changed.set()

    def _leave_out(self, queue: str, reason: str, path: str = "") -> None:
        self._left_out[queue] = _LeftOut(reason, path, self._generation)

    async def _route(self, queue: str) -> None:
        """Give a queue with messages to whoever looks after it."""
        if is_internal(queue):
            self._leave_out(queue, "somebody else's bell")
        elif is_retry(queue):
            await self._services.queues.start_due_retries(queue)
        else:
            runner = self._routes.get(queue) or await self._runner_of(queue)
            if runner is not None:
                self._routes[queue] = runner
                self._left_out.pop(queue, None)
                runner.activate(queue)

    async def _runner_of(self, queue: str) -> Runner | None:
        """Who may have its messages now; None, with the reason noted, if nobody may."""
        path = winner(queue, self._runners)
        runner = self._runners.get(path) if path is not None else None
        if runner is None or (runner.app.serve and segments(queue) != segments(runner.app.path)):
            self._leave_out(queue, NO_APPLICATION)
            return None
        if runner.control.is_paused:
            self._leave_out(queue, PAUSED, runner.app.path)
            return None
        if await self._services.queues.is_faulted(queue):
            self._leave_out(queue, f"{queue} is faulted", runner.app.path)
            return None
        try:
            await self._services.access.check(runner.app.principal, Right.RECEIVE, queue)
        except NotAllowed:
            missing = f"needs the right {Right.RECEIVE} on {queue}"
            self._leave_out(queue, missing, runner.app.path)
            return None
        return runner

    def _faulted(self, app: App, queue: str) -> None:
        """A queue must not be served until somebody has dealt with its message."""
        self._routes.pop(queue, None)
        self._leave_out(queue, f"{queue} is faulted", app.path)

    # -- what is known -----------------------------------------------------------------------

    async def _refresh(self) -> None:
        """Learn of applications, rights and faults also when no bell was heard."""
        while True:
            await _patiently(self._learn, "what is registered cannot be read")
            await asyncio.sleep(self._around.settings.refresh)

    async def _expire(self) -> None:
        """End messages whose time to live is over, whether an application takes them or not."""
        while True:
            await _patiently(self._expire_due, "messages cannot be looked at for their age")
            await asyncio.sleep(_EXPIRE_SECONDS)

    async def _expire_due(self) -> None:
        await self._services.queues.expire_due()

    async def _learn(self) -> None:
        async with self._learning:
            await self._learn_all()

    async def _learn_all(self) -> None:
        if not self._is_started:
            # Before the first look: from now on every change rings our bell.
            await self._services.hosts.report(self.id, self.machine, [])
        version = await self._services.apps.version()
        if version != self._version:
            registry = self._services.apps
            self._apply(await registry.all(), await registry.controls())
            self._version = version
        self._generation += 1
        self._left_out = {
            queue: why
            for queue, why in self._left_out.items()
            if why.generation >= self._generation - 1
        }
        await self._check_routes()
        if not self._is_started:
            await self._take_over()
            self._is_started = True
        self._look_again()

    def _apply(self, apps: list[App], controls: Mapping[tuple[str, ...], AppControl]) -> None:
        """Make runners what is registered."""
        wanted = {app.path: app for app in apps}
        for path, runner in list(self._runners.items()):
            app = wanted.get(path)
            control = controls.get(segments(path), AppControl())
            if app is None or bool(app.serve) != bool(runner.app.serve):
                self._retire(self._runners.pop(path))
            elif app != runner.app or control != runner.control:
                runner.update(app, control)
        for path, app in wanted.items():
            if path not in self._runners:
                control = controls.get(segments(path), AppControl())
                self._runners[path] = self._made(app, control)

    def _made(self, app: App, control: AppControl) -> Runner:
        if app.serve:
            runner: Runner = Server(app, self._around)
        else:
            runner = Dispatcher(app, self._around, self._faulted)
        runner.configure(app, control)
        if app.min_processes:
            runner.wake()
        return runner

    def _retire(self, runner: Runner) -> None:
        task = asyncio.create_task(runner.end())
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)

    async def _check_routes(self) -> None:
        """Take queues away from whoever may not have them any more."""
        self._routes.clear()
        for runner in list(self._runners.values()):
            for queue in list(runner.queues):
                if await self._runner_of(queue) is not runner:
                    runner.leave(queue)

    async def _take_over(self) -> None:
        """What senders had in hand that died with an earlier host is leased still; they know how
        to settle it at once."""
        for runner in self._runners.values():
            if runner.app.serve:
                queue = "/".join(part for part in runner.app.path.split("/") if part)
                if (await self._services.store.queue(queue).info()).length:
                    runner.activate(queue)

    # -- to look at --------------------------------------------------------------------------

    async def _report(self) -> None:
        """Tell what the applications do: soon after it has changed, and as a heartbeat."""
        clock = self._around.clock
        told: object = None
        told_at = cleaned_at = clock() - _CLEAN_SECONDS
        while True:
            await asyncio.sleep(_REPORT_SOONEST)
            apps = self.status()
            gist = [(a.path, a.state, a.reason, [p.state for p in a.processes]) for a in apps]
            if gist == told and clock() < told_at + _REPORT_SECONDS:
                continue
            try:
                await self._services.hosts.report(self.id, self.machine, apps)
                if clock() >= cleaned_at + _CLEAN_SECONDS:
                    cleaned_at = clock()
                    await self._services.hosts.forget_killed_hosts()
            except StoreError as exc:
                log.warning("the state of the host cannot be told for now: %s", exc)
            told, told_at = gist, clock()

    def status(self) -> list[AppStatus]:
        """What each application does on this host."""
        reasons: dict[str, dict[str, str]] = {}
        for queue, why in self._left_out.items():
            reasons.setdefault(why.path, {})[queue] = why.reason
        return [runner.status(reasons.get(path)) for path, runner in self._runners.items()]


async def _patiently(act: Callable[[], Awaitable[None]], problem: str) -> None:
    """Do it, trying again as long as the store does not let us."""
    failures = 0
    while True:
        try:
            return await act()
        except StoreError as exc:
            log.warning("%s for now: %s", problem, exc)
        except Exception:
            log.exception("%s for now", problem)
        failures += 1
        await asyncio.sleep(pause_after(failures))
