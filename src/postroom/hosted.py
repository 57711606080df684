"""The host with Postroom's own applications: senders, confirmations, bounces, opens and clicks."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

from postroom.domain.messages.delivery.bounces import BOUNCE_QUEUE
from postroom.domain.messages.hits import HIT_QUEUE, VISIT_SECONDS
from postroom.domain.messages.pages import CONFIRM_QUEUE, SEND_QUEUE
from postroom.domain.queues.apps import BUILT_IN, App
from postroom.host.processes.launcher import Launcher
from postroom.host.runner import HostSettings
from postroom.host.supervisor import Supervisor
from postroom.observability import set_up_observability
from postroom.observability.spans import flush_spans
from postroom.services.queues.app_files import origin_of, read_apps_file
from postroom.services.queues.apps import AppRegistry
from postroom.settings import FILE, Settings, load_settings
from postroom.storage import StoreOutage
from postroom.transport.contract import Transport
from postroom.watchdog import WatchedPart, end_at_once, end_tasks
from postroom.wiring import (
    LiveSettings,
    Services,
    make_bounce_worker,
    make_confirmations,
    make_hit_worker,
    make_sender,
    make_watchdog,
    opened_live,
    opened_shared_transport,
    sending_settings,
)

log = logging.getLogger(__name__)

_BUSY_SECONDS = 0.1
_VISIT = timedelta(seconds=VISIT_SECONDS)
_STORE_SECONDS = 2.0

_LOADED_LATER = ("structlog", "uvloop", "postroom.transport.smtp.server_groups")
"""What else a sender imports once it runs; imported in advance, so that it is ready sooner."""

_ENGINES = {
    "sqlite": "postroom.storage.sqlite.engine",
    "postgresql": "postroom.storage.postgres.engine",
}


def own_apps(idle: timedelta) -> tuple[App, ...]:
    """Return Postroom's own applications. They have no process while there is nothing to send."""
    return (
        App(
            path=f"/{SEND_QUEUE}",
            serve="postroom.hosted:serve_sender",
            idle_timeout=idle,
            origin=BUILT_IN,
        ),
        App(
            path=f"/{CONFIRM_QUEUE}",
            serve="postroom.hosted:serve_confirmations",
            max_processes=1,
            idle_timeout=idle,
            origin=BUILT_IN,
        ),
        App(
            path=f"/{BOUNCE_QUEUE}",
            serve="postroom.hosted:serve_bounces",
            max_processes=1,
            idle_timeout=idle,
            origin=BUILT_IN,
        ),
        App(
            path=f"/{HIT_QUEUE}",
            serve="postroom.hosted:serve_hits",
            max_processes=1,
            idle_timeout=max(idle, _VISIT),  # only its process remembers who visited a message
            origin=BUILT_IN,
        ),
    )


async def register_apps(settings: Settings, apps: AppRegistry) -> None:
    """Register our own applications and those of `postroom.toml`, before a host starts.

    `AppFileError`; `Exists` for a path that is registered from elsewhere.
    """
    file = Path.cwd() / FILE
    in_file = await asyncio.to_thread(read_apps_file, file)
    await apps.sync(BUILT_IN, own_apps(settings.sender.idle))
    await apps.sync(origin_of(file), in_file)


async def read_and_register(apps: AppRegistry) -> int:
    """Register the applications that `postroom.toml` in this folder has now, for running hosts;
    return their number. `AppFileError`, `Exists`."""
    file = Path.cwd() / FILE
    in_file = await asyncio.to_thread(read_apps_file, file)
    await apps.sync(origin_of(file), in_file)
    return len(in_file)


async def run_host(services: Services, settings: Settings, stopping: asyncio.Event) -> None:
    """Run all registered applications until `stopping`."""
    scheme = settings.storage.url.partition(":")[0]
    preload = [__name__, *_LOADED_LATER, *_engine(scheme)]
    launcher = Launcher(worker_environment(settings), preload=preload)
    how = HostSettings(lease=settings.processes.host_lease.total_seconds())
    await Supervisor(services, launcher, how).run(stopping)


def _engine(scheme: str) -> list[str]:
    """Return the module of the engine, which is imported before senders are forked."""
    return [_ENGINES[scheme]] if scheme in _ENGINES else []


def worker_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of workers, which load the settings again, with our options in it."""
    options = {
        found.setting.variable: found.text
        for found in settings.found.values()
        if found.origin.startswith("--")
    }
    return {**os.environ, **options}


# --------------------------------------------------------------------------------------------
# In a worker process


class _Part(WatchedPart, Protocol):
    @property
    def is_busy(self) -> bool: ...


_Make = Callable[[], _Part]
_Open = Callable[[Services, Settings], AbstractAsyncContextManager[_Make]]
"""Opens what a part needs, and yields what makes the part."""


async def serve_sender(stopping: asyncio.Event, busy: Callable[[bool], None]) -> None:
    """Take pages and send their emails."""
    await _serve(partial(_with_transport, make_sender), "sender", stopping, busy)


async def serve_confirmations(stopping: asyncio.Event, busy: Callable[[bool], None]) -> None:
    """Ask new subscribers to confirm."""
    await _serve(partial(_with_transport, make_confirmations), "confirmations", stopping, busy)


async def serve_bounces(stopping: asyncio.Event, busy: Callable[[bool], None]) -> None:
    """Record bounces and complaints."""

    def opened(services: Services, settings: Settings) -> AbstractAsyncContextManager[_Make]:
        return nullcontext(partial(make_bounce_worker, services, settings))

    await _serve(opened, "bounces", stopping, busy)


async def serve_hits(stopping: asyncio.Event, busy: Callable[[bool], None]) -> None:
    """Count opens and clicks."""

    def opened(services: Services, _: Settings) -> AbstractAsyncContextManager[_Make]:
        return nullcontext(partial(make_hit_worker, services))

    await _serve(opened, "hits", stopping, busy)


@asynccontextmanager
async def _with_transport(
    make: Callable[[Services, Transport, Settings], _Part], services: Services, settings: Settings
) -> AsyncIterator[_Make]:
    """Open the transport of a part that sends, and yield what makes the part."""
    async with opened_shared_transport(services, settings) as transport:
        yield partial(make, services, transport, settings)


async def _serve(
    open_part: _Open, name: str, stopping: asyncio.Event, busy: Callable[[bool], None]
) -> None:
    busy(True)  # starting may take longer than a short idle time
    settings = load_settings(os.environ, Path.cwd())
    set_up_observability(
        name,
        data=settings.storage.data,
        log_format=settings.observability.log_format,
        traces_endpoint=settings.observability.traces_endpoint,
    )
    async with AsyncExitStack() as opened:
        opening = await _open_when_possible(opened, settings, stopping)
        if opening is None:
            return
        services, live = opening
        parts: list[_Part] = []

        async def run(settings: Settings, ending: asyncio.Event) -> None:
            async with open_part(services, settings) as make:

                def build() -> _Part:
                    parts[:] = [make()]
                    return parts[0]

                await make_watchdog(name, services, settings, end_at_once).run(build, ending)

        reporting = asyncio.create_task(_report(parts, busy))
        try:
            await live.run(run, sending_settings, stopping)
        finally:
            await end_tasks([reporting])
    flush_spans()


async def _open_when_possible(
    opened: AsyncExitStack, settings: Settings, stopping: asyncio.Event
) -> tuple[Services, LiveSettings] | None:
    """Open the store once it can be used; None once `stopping`.

    Ending instead would count as a crash, and the host would stop restarting the process.
    """
    while not stopping.is_set():
        try:
            return await opened.enter_async_context(opened_live(settings))
        except StoreOutage as exc:
            log.warning("waiting for the store: %s", exc)
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), _STORE_SECONDS)
    return None


async def _report(parts: Sequence[_Part], busy: Callable[[bool], None]) -> None:
    """Report to the host, which stops idle processes, whether this one is busy."""
    reported = True
    while True:
        await asyncio.sleep(_BUSY_SECONDS)
        is_busy = any(part.is_busy for part in parts)
        if is_busy != reported:
            reported = is_busy
            busy(reported)
