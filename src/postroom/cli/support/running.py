"""What every command shares: settings from options, the event loop, how a process is stopped."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from postroom.cli.support.stopping import StopRequests
from postroom.settings import SettingError, Settings, load_settings
from postroom.tuning import collect_less, quick_loop

T = TypeVar("T")


def with_settings(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command the options `--store` and `--data`, and its settings as first argument."""

    @click.option("--data", help="The folder for everything kept locally.")
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
    """A mistake on the command line is wrong use, one in the environment or the file is not."""
    try:
        return load_settings(os.environ, Path.cwd(), options)
    except SettingError as exc:
        if exc.option:
            raise click.UsageError(str(exc)) from exc
        raise


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run one command's work to its end."""
    return asyncio.run(work)


def run_until_stopped(work: Callable[[asyncio.Event], Awaitable[None]], settings: Settings) -> None:
    """Run a part of Postroom until a signal asks it to stop (see `stopping.py`); it then finishes
    its work and ends."""
    from postroom.observability import set_up_observation
    from postroom.observability.spans import flush_spans

    set_up_observation(
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
