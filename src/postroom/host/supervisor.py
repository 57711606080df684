"""The host itself: finds queues with messages and activates their applications.

One wait covers all queues, including those that do not exist yet. Queues that have a runner, or
cannot have one, are excluded until that changes; then the wait starts again with all queues, so
that no arrival is missed. Every few seconds everything is read again: nothing may depend on a
single event.

On SIGTERM it takes no more messages, processes finish messages in progress up to their drain limit,
other messages are returned without counting an attempt, and its row and bell are removed.
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
from postroom.domain.queues.queue_names import bell_queue, is_internal, is_retry, segments, winner
from postroom.host.dispatch import Dispatcher
from postroom.host.processes.launcher import Launcher
from postroom.host.runner import (
    PAUSED,
    HostSettings,
    Runner,
    RunnerContext,
    ServeRunner,
    retry_delay,
)
from postroom.services.events import EventService
from postroom.services.queues.apps import AppRegistry
from postroom.services.queues.delivery import QueueService
from postroom.services.queues.hosts import HEARTBEAT, AppStatus, HostStatusService
from postroom.services.queues.queue_access import AccessService, Right
from postroom.storage import Store, StoreError
from postroom.watchdog import end_tasks

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
    """Why a queue has no runner, and which application it belongs to. Valid for one generation:
    until everything is read again."""

    reason: str
    path: str
    generation: int


class Supervisor:
    def __init__(self, services: HostServices, launcher: Launcher, settings: HostSettings) -> None:
        self.machine = socket.gethostname()
        self.id = f"{self.machine}-{os.getpid()}-{secrets.token_hex(4)}"
        self._services = services
        self._launcher = launcher
        self._context = RunnerContext(
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
        self._reloading = asyncio.Lock()
        self._is_started = False

    # -- running and stopping ---------------------------------------------------------------------

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until `stopping` is set."""
        self._launcher.start()
        self._services.events.note("host", f"the host on {self.machine} has started")
        stop = asyncio.create_task(stopping.wait())
        parts = (self._watch, self._refresh, self._report, self._expire)
        tasks = [asyncio.create_task(part()) for part in parts]
        try:
            await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks([stop, *tasks])
            await self._end()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _end(self) -> None:
        ending = [asyncio.create_task(runner.end()) for runner in self._runners.values()]
        if ending or self._retired:
            await asyncio.wait([*ending, *self._retired])
        await self._launcher.stop()
        self._services.events.note("host", f"the host on {self.machine} has stopped")
        await self._services.events.settle()
        with suppress(StoreError):  # other hosts remove what is left
            await self._services.hosts.forget(self.id)

    # -- messages ---------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Wait for messages and route their queues, forever."""
        while True:
            await _retrying(self._look, "cannot read the queues")

    async def _look(self) -> None:
        self._changed.clear()
        ready = await self._wait()
        if self._bell in ready:
            # First of all: messages that arrived after a change are routed by it.
            await self._services.store.queue(self._bell).purge()
            await self._reload()
            return
        for queue in ready:
            await self._route(queue)

    async def _wait(self) -> frozenset[str]:
        """Return queues with messages and without a runner; none if something has changed."""
        if not self._is_started:  # nothing is known about applications yet
            await self._changed.wait()
            return frozenset()
        waiting = asyncio.create_task(
            self._services.store.wait_for_messages(
                excluding=self._excluded(), timeout=_WAIT_SECONDS
            )
        )
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait([waiting, changed], return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else frozenset()
        finally:
            await end_tasks([waiting, changed])

    def _excluded(self) -> set[str]:
        served = {queue for runner in self._runners.values() for queue in runner.queues}
        return served | {
            queue for queue, why in self._left_out.items() if why.generation == self._generation
        }

    def _look_again(self) -> None:
        self._changed.set()

    def _leave_out(self, queue: str, reason: str, path: str = "") -> None:
        self._left_out[queue] = _LeftOut(reason, path, self._generation)

    async def _route(self, queue: str) -> None:
        """Activate the runner of a queue with messages."""
        if is_internal(queue):
            self._leave_out(queue, "the bell of another part")
        elif is_retry(queue):
            await self._services.queues.start_due_retries(queue)
        else:
            runner = self._routes.get(queue) or await self._runner_of(queue)
            if runner is not None:
                self._routes[queue] = runner
                self._left_out.pop(queue, None)
                runner.activate(queue)

    async def _runner_of(self, queue: str) -> Runner | None:
        """Return the runner that may take its messages; None if there is none, which is noted."""
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
        """Stop serving a faulted queue."""
        self._routes.pop(queue, None)
        self._leave_out(queue, f"{queue} is faulted", app.path)

    # -- applications, rights and faults ----------------------------------------------------------

    async def _refresh(self) -> None:
        """Read applications, rights and faults regularly, in case a bell was missed."""
        while True:
            await _retrying(self._reload, "cannot read the applications")
            await asyncio.sleep(self._context.settings.refresh)

    async def _expire(self) -> None:
        """Expire messages, whether an application takes them or not."""
        while True:
            await _retrying(self._expire_due, "cannot expire messages")
            await asyncio.sleep(_EXPIRE_SECONDS)

    async def _expire_due(self) -> None:
        await self._services.queues.expire_due()

    async def _reload(self) -> None:
        async with self._reloading:
            await self._read_registry()

    async def _read_registry(self) -> None:
        if not self._is_started:
            # Before the first read: from now on every change rings our bell.
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
        """Create, update and retire runners as registered."""
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
                self._runners[path] = self._new_runner(app, control)

    def _new_runner(self, app: App, control: AppControl) -> Runner:
        if app.serve:
            runner: Runner = ServeRunner(app, self._context)
        else:
            runner = Dispatcher(app, self._context, self._faulted)
        runner.configure(app, control)
        if app.min_processes:
            runner.wake()
        return runner

    def _retire(self, runner: Runner) -> None:
        task = asyncio.create_task(runner.end())
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)

    async def _check_routes(self) -> None:
        """Take queues away from runners that may no longer serve them."""
        self._routes.clear()
        for runner in list(self._runners.values()):
            for queue in list(runner.queues):
                if await self._runner_of(queue) is not runner:
                    runner.leave(queue)

    async def _take_over(self) -> None:
        """Start senders for pages that are still leased by senders of an earlier host: they can
        settle these immediately."""
        for runner in self._runners.values():
            if runner.app.serve:
                queue = "/".join(part for part in runner.app.path.split("/") if part)
                if (await self._services.store.queue(queue).info()).length:
                    runner.activate(queue)

    # -- status -----------------------------------------------------------------------------------

    async def _report(self) -> None:
        """Report the status of the applications: soon after a change, and as a heartbeat."""
        clock = self._context.clock
        reported: object = None
        reported_at = cleaned_at = clock() - _CLEAN_SECONDS
        while True:
            await asyncio.sleep(_REPORT_SOONEST)
            apps = self.status()
            gist = [(a.path, a.state, a.reason, [p.state for p in a.processes]) for a in apps]
            if gist == reported and clock() < reported_at + _REPORT_SECONDS:
                continue
            try:
                await self._services.hosts.report(self.id, self.machine, apps)
                if clock() >= cleaned_at + _CLEAN_SECONDS:
                    cleaned_at = clock()
                    await self._services.hosts.forget_killed_hosts()
            except StoreError as exc:
                log.warning("cannot report the status of the host, will retry: %s", exc)
            reported, reported_at = gist, clock()

    def status(self) -> list[AppStatus]:
        """Return the status of each application on this host."""
        reasons: dict[str, dict[str, str]] = {}
        for queue, why in self._left_out.items():
            reasons.setdefault(why.path, {})[queue] = why.reason
        return [runner.status(reasons.get(path)) for path, runner in self._runners.items()]


async def _retrying(act: Callable[[], Awaitable[None]], problem: str) -> None:
    """Do it, with retries until it succeeds."""
    failures = 0
    while True:
        try:
            return await act()
        except StoreError as exc:
            log.warning("%s, will retry: %s", problem, exc)
        except Exception:
            log.exception("%s, will retry", problem)
        failures += 1
        await asyncio.sleep(retry_delay(failures))
