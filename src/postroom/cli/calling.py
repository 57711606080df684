"""From a command to the services: opened for one call, and closed again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from postroom.cli.running import run

if TYPE_CHECKING:
    from postroom.settings import Settings
    from postroom.storage import Store
    from postroom.wiring import Services

T = TypeVar("T")


def call(settings: Settings, work: Callable[[Services], Awaitable[T]]) -> T:
    """Do one thing with the services."""
    from postroom.wiring import opened_services

    async def opened() -> T:
        async with opened_services(settings) as services:
            return await work(services)

    return run(opened())


def call_store(settings: Settings, work: Callable[[Store], Awaitable[T]]) -> T:
    """Do one thing with the store itself."""
    from postroom.wiring import opened_store

    async def opened() -> T:
        async with opened_store(settings) as store:
            return await work(store)

    return run(opened())
