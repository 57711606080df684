"""From a command to the services: opened for one call, and closed again."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from postroom.cli.support import output
from postroom.cli.support.running import run

if TYPE_CHECKING:
    from postroom.settings import Settings
    from postroom.storage import Store
    from postroom.wiring import Services

T = TypeVar("T")


# Commands that only look; whatever else was done is in the audit log.
_LOOKS = frozenset(
    {
        "email",
        "emails",
        "events",
        "explain",
        "export",
        "export-data",
        "get",
        "history",
        "ls",
        "peek",
        "show",
        "trace",
    }
)
_CONTENTS = frozenset({"body"})  # arguments that say what is in something, not what it is


def call(settings: Settings, work: Callable[[Services], Awaitable[T]]) -> T:
    """Do one thing with the services; unless it was only a look, it is put on record."""
    from postroom.wiring import opened_services

    is_new = _is_store_new(settings)

    async def opened() -> T:
        async with opened_services(settings) as services:
            result = await work(services)
            await _audit(services)
            return result

    result = run(opened())
    if is_new:
        _tell_of_new_store(settings)
    return result


def place_of_store(settings: Settings) -> str:
    """Which store it is, for people."""
    file = settings.storage.file
    if file is None:
        return settings.found["store"].shown
    return str(file) if file.is_absolute() else f"./{file}"


def _is_store_new(settings: Settings) -> bool:
    file = settings.storage.file
    return file is not None and not file.exists()


def _tell_of_new_store(settings: Settings) -> None:
    """Whoever looks for something in a wrong folder would find an empty store there."""
    context = click.get_current_context(silent=True)
    if context is None or context.command.name not in _LOOKS or context.params.get("as_json"):
        return
    output.note(f"{place_of_store(settings)} was not there: this is a new store.")


async def _audit(services: Services) -> None:
    """By the command and its arguments. Not by its options: one could be a secret."""
    context = click.get_current_context(silent=True)
    if context is None or context.command.name in _LOOKS:
        return
    arguments = [
        str(context.params[each.name])
        for each in context.command.params
        if isinstance(each, click.Argument) and each.name and each.name not in _CONTENTS
    ]
    did = context.command_path.removeprefix("postroom ")
    await services.audit.record(operator(), did, " ".join(arguments), place=socket.gethostname())


def operator() -> str:
    """Who gives commands, for the audit log."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container may run as a number without a name
        name = f"user {os.getuid()}"
    return f"command line: {name}"


def call_store(settings: Settings, work: Callable[[Store], Awaitable[T]]) -> T:
    """Do one thing with the store itself."""
    from postroom.wiring import opened_store

    is_new = _is_store_new(settings)

    async def opened() -> T:
        async with opened_store(settings) as store:
            return await work(store)

    result = run(opened())
    if is_new:
        _tell_of_new_store(settings)
    return result
