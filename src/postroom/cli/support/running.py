"""What every command shares: values of options, settings, services for one call, the event loop."""

from __future__ import annotations

import asyncio
import functools
import getpass
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from postroom.cli.support import output
from postroom.cli.support.stopping import StopRequests
from postroom.domain.units import parse_duration
from postroom.settings import SettingError, Settings, load_settings
from postroom.tuning import collect_less, quick_loop

if TYPE_CHECKING:
    from postroom.settings import Settings
    from postroom.storage import Store
    from postroom.wiring import Services

T = TypeVar("T")


def with_settings(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command the options `--store` and `--data`, and its settings as first argument."""

    @click.option("--data", help="The folder for local data.")
    @click.option("--store", help="The URL of the store.")
    @functools.wraps(command)
    def wrapped(*args: Any, store: str | None, data: str | None, **kwargs: Any) -> T:
        options = {"store": store, "data": data}
        for name in ("transport", "port"):
            if name in kwargs:
                options[name] = kwargs.pop(name)
        return command(_load(options), *args, **kwargs)

    return wrapped


def _load(options: dict[str, str | None]) -> Settings:
    """Return the settings. A mistake in an option is wrong usage; elsewhere it is a failure."""
    try:
        return load_settings(os.environ, Path.cwd(), options)
    except SettingError as exc:
        if exc.option:
            raise click.UsageError(str(exc)) from exc
        raise


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the work of a command."""
    return asyncio.run(work)


def run_until_stopped(work: Callable[[asyncio.Event], Awaitable[None]], settings: Settings) -> None:
    """Run a part of Postroom until a signal stops it (see `stopping.py`) and its work is done."""
    from postroom.observability import set_up_observability
    from postroom.observability.spans import flush_spans

    set_up_observability(
        click.get_current_context().info_name or "",
        data=settings.storage.data,
        log_format=settings.observability.log_format,
        traces_endpoint=settings.observability.traces_endpoint,
    )
    collect_less()
    with asyncio.Runner(loop_factory=quick_loop) as runner:
        runner.run(_until_stopped(work))
    flush_spans()


async def _until_stopped(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stopping = asyncio.Event()
    StopRequests(asyncio.get_running_loop(), stopping).listen()
    await work(stopping)


# Commands that only read. All others are recorded in the audit log.
_READING = frozenset(
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
        "preflight",
        "preview",
        "results",
        "people",
        "show",
        "trace",
    }
)
_NOT_RECORDED = frozenset({"body", "value"})  # arguments with contents or secrets


def call(settings: Settings, work: Callable[[Services], Awaitable[T]]) -> T:
    """Do one thing with the services, and record it in the audit log unless it only reads."""
    from postroom.wiring import opened_services

    is_new = _is_store_new(settings)

    async def opened() -> T:
        async with opened_services(settings) as services:
            result = await work(services)
            await _audit(services)
            return result

    result = run(opened())
    if is_new:
        _note_new_store(settings)
    return result


def place_of_store(settings: Settings) -> str:
    """Return where the store is, for people."""
    file = settings.storage.file
    if file is None:
        return settings.found["store"].shown
    return str(file) if file.is_absolute() else f"./{file}"


def _is_store_new(settings: Settings) -> bool:
    file = settings.storage.file
    return file is not None and not file.exists()


def _note_new_store(settings: Settings) -> None:
    """Say that the store is new: in a wrong folder, nothing is found."""
    context = click.get_current_context(silent=True)
    if context is None or context.command.name not in _READING or context.params.get("as_json"):
        return
    output.note(f"{place_of_store(settings)} did not exist: this is a new store.")


async def _audit(services: Services) -> None:
    """Record the command and its arguments, not its options: one could be a secret."""
    context = click.get_current_context(silent=True)
    if context is None or context.command.name in _READING:
        return
    arguments = [
        str(context.params[each.name])
        for each in context.command.params
        if isinstance(each, click.Argument) and each.name and each.name not in _NOT_RECORDED
    ]
    action = context.command_path.removeprefix("postroom ")
    await services.audit.record(operator(), action, " ".join(arguments), place=socket.gethostname())


def operator() -> str:
    """Return who runs the command, for the audit log."""
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
        _note_new_store(settings)
    return result


class Duration(click.ParamType[timedelta]):
    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as exc:
            self.fail(f"{exc}, not {value!r}", param, ctx)


DURATION = Duration()


def read_pairs(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Return the values of a repeated option by name. `click.BadParameter`."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"must be NAME=VALUE, not {pair!r}", param_hint=option)
        found[name] = value
    return found
