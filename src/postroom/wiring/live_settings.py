"""The settings of a running process: those that it was started with, and those in the store, which
are read again when someone changes them in the browser.

Every process asks the store every few seconds whether something has changed. A part that depends
on changed settings finishes what it is doing and is built again with the new ones; the process
itself continues. If the store cannot be read, the settings stay as they are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from postroom.errors import PostroomError
from postroom.services.operations.stored_settings import StoredSettingService, StoredValues
from postroom.settings import Settings, with_stored
from postroom.watchdog import end_tasks
from postroom.wiring.all_services import Services
from postroom.wiring.opening import opened_services

log = logging.getLogger(__name__)

_EVERY: Final = 3.0
"""Seconds between two looks: one point read each."""

Uses = Callable[[Settings], object]
"""Returns the settings that a part depends on, to compare them."""


class LiveSettings:
    """`current` are the settings in effect, `stored` what the store has of them."""

    def __init__(self, service: StoredSettingService, started: Settings) -> None:
        self._service = service
        self._started = started
        self._changed = asyncio.Event()
        self.current = started
        self.stored = StoredValues()

    async def refresh(self) -> None:
        """Read what is stored. Raise `PostroomError` if it cannot be read or used; then the
        settings stay as they are."""
        if await self._service.mark() == self.stored.mark:
            return
        stored = await self._service.get()
        self.current = with_stored(self._started, stored.texts)
        self.stored = stored
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def change(
        self, changes: Mapping[str, str | None], *, by: str, version: str | None = None
    ) -> None:
        """Store checked texts (None: remove) and use them immediately. `Invalid`, `Overtaken`."""
        await self._service.change(changes, by=by, version=version)
        await self.refresh()

    async def note_test(self) -> None:
        """Note that the mail server has just accepted a test email."""
        await self._service.note_test()
        await self.refresh()

    async def watch(self) -> None:
        """Follow changes until cancelled."""
        reported = ""
        while True:
            await asyncio.sleep(_EVERY)
            try:
                await self.refresh()
                reported = ""
            except PostroomError as exc:
                if str(exc) != reported:
                    log.warning("the settings stay as they are: %s", exc)
                reported = str(exc)

    async def run(
        self,
        part: Callable[[Settings, asyncio.Event], Awaitable[None]],
        uses: Uses,
        stopping: asyncio.Event,
    ) -> None:
        """Run a part until `stopping`. Whenever settings that it uses have changed, its own event
        is set, and once it has ended it is run again with the new ones."""
        while not stopping.is_set():
            settings, ending = self.current, asyncio.Event()
            watching = asyncio.create_task(self._end(ending, uses, settings, stopping))
            try:
                await part(settings, ending)
            finally:
                await end_tasks([watching])
            if not ending.is_set():
                return

    async def _end(
        self, ending: asyncio.Event, uses: Uses, settings: Settings, stopping: asyncio.Event
    ) -> None:
        """Set `ending` once a part with these settings has to end."""
        stop = asyncio.create_task(stopping.wait())
        try:
            while not stop.done() and uses(self.current) == uses(settings):
                change = asyncio.create_task(self._changed.wait())
                await asyncio.wait((stop, change), return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
            ending.set()
        finally:
            stop.cancel()


@asynccontextmanager
async def opened_live(settings: Settings) -> AsyncIterator[tuple[Services, LiveSettings]]:
    """Yield the services, and the settings as they are now and as they change."""
    async with opened_services(settings) as services:
        live = LiveSettings(services.stored_settings, settings)
        await live.refresh()
        watching = asyncio.create_task(live.watch())
        try:
            yield services, live
        finally:
            await end_tasks([watching])


async def load_stored(services: Services, settings: Settings) -> Settings:
    """Return the settings with those that are stored, for a command. `PostroomError`."""
    stored = await services.stored_settings.get()
    return with_stored(settings, stored.texts)


def sending_settings(settings: Settings) -> object:
    """Return what senders depend on."""
    return settings.transport, settings.bounces
