"""`postroom app`: the applications that queues start."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from postroom.cli.support import output
from postroom.cli.support.running import DURATION, call, read_pairs, with_settings
from postroom.domain.queues.app_options import FIELDS, OptionKind
from postroom.domain.queues.apps import COMMAND_LINE, App, app_values, changed_app, parse_app
from postroom.services.resources.queues import describe_app, describe_match

if TYPE_CHECKING:
    from rich.table import Table

    from postroom.services.queues.apps import AppState
    from postroom.settings import Settings
    from postroom.wiring import Services

_TYPES: dict[OptionKind, Any] = {OptionKind.NUMBER: int, OptionKind.DURATION: DURATION}
_METAVARS = {"handler": "MODULE:CALLABLE", "recycle_memory": "SIZE", "memory_limit": "SIZE"}
_WITHOUT_DEFAULT = ("handler", "command", "user")


def _app_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of an application except its path."""
    defaults = app_values(App(path="/"))
    for name, field in reversed(list(FIELDS.items())):
        default = "no limit" if field.can_be_none else defaults.get(name)
        shown = "" if name in _WITHOUT_DEFAULT else f" [default: {default}]"
        if name == "environment":
            command = click.option(
                "--env",
                "variables",
                multiple=True,
                metavar="NAME=VALUE",
                help="A variable of its environment; can be repeated.",
            )(command)
        elif name != "path":
            command = click.option(
                f"--{name.replace('_', '-')}",
                type=_TYPES.get(field.kind, str),
                metavar=_METAVARS.get(name),
                help=field.help + shown,
            )(command)
    return command


@click.group("app")
def apps() -> None:
    """Manage the applications that queues start."""


@apps.command()
@click.option("--watch", is_flag=True, help="Update the table until Ctrl-C.")
@output.json_option
@with_settings
def ls(settings: Settings, watch: bool, as_json: bool) -> None:
    """Show all applications and their processes on every host."""
    from postroom.cli.queues.apps import show_apps, watch_apps

    if not watch:
        show_apps(call(settings, lambda s: s.apps.states()), as_json)
        return
    try:
        call(settings, lambda s: watch_apps(s, as_json))
    except KeyboardInterrupt:
        return  # the usual way to stop watching


@apps.command()
@click.argument("path")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The folder of the handler or program, on every machine. [default: this folder]",
)
@_app_options
@click.option("--unchecked", is_flag=True, help="Do not check whether it can run on this machine.")
@output.json_option
@with_settings
def add(
    settings: Settings,
    path: str,
    command: str | None,
    folder: Path,
    unchecked: bool,
    variables: Sequence[str],
    as_json: bool,
    **options: str | int | timedelta | None,
) -> None:
    """Register an application at PATH, for the hosts of all machines.

    \b
    postroom app add /shop/orders --handler orders:process
    postroom app add /shop/labels --command "./print-label --quiet"
    """
    from postroom.services.queues.app_files import problems_of
    from postroom.services.queues.apps import AppState

    values = {"path": path, **_values(command, variables, options)}
    app = parse_app(values, folder=str(folder.resolve()), origin=COMMAND_LINE)
    if not unchecked:
        for problem in problems_of([app]).values():
            raise problem
    call(settings, lambda s: s.apps.add(app))
    if as_json:
        output.print_json(describe_app(AppState(app)))
    else:
        output.say(f"Application {app.path} registered.")


@apps.command()
@click.argument("path")
@_app_options
@click.option(
    "--default", "defaults", multiple=True, metavar="OPTION", help="Set an option to its default."
)
@click.option("--unchecked", is_flag=True, help="Do not check whether it can run on this machine.")
@output.json_option
@with_settings
def update(
    settings: Settings,
    path: str,
    command: str | None,
    defaults: Sequence[str],
    unchecked: bool,
    variables: Sequence[str],
    as_json: bool,
    **options: str | int | timedelta | None,
) -> None:
    """Change options of an application. Running hosts replace its processes one by one.

    Options that you omit stay as they are; `--env` replaces all variables. An application of
    postroom.toml is changed there: see `postroom app reload`.

    \b
    postroom app update /shop/orders --max-processes 8 --default idle-timeout
    """
    from postroom.services.queues.app_files import problems_of
    from postroom.services.queues.apps import AppState

    changes = _values(command, variables, options)
    changes |= {name.lstrip("-").replace("-", "_"): None for name in defaults}
    if not changes:
        raise click.UsageError("nothing to change: give an option, such as --max-processes 8")

    async def work(services: Services) -> App:
        wanted = changed_app(await services.apps.get(path), changes)
        if not unchecked:
            for problem in (await asyncio.to_thread(problems_of, [wanted])).values():
                raise problem
        return await services.apps.update(path, changes)

    app = call(settings, work)
    if as_json:
        output.print_json(describe_app(AppState(app)))
    else:
        output.say(f"Application {app.path} updated.")


@apps.command()
@click.argument("path")
@with_settings
def restart(settings: Settings, path: str) -> None:
    """Restart an application, so that it runs its current code.

    Every host starts a new process before it stops an old one; no message is lost or waits.
    """
    call(settings, lambda s: s.apps.restart(path))
    output.say(f"Application {path} restarting.")


@apps.command()
@click.argument("path")
@with_settings
def pause(settings: Settings, path: str) -> None:
    """Pause an application on every host. Messages in progress finish; others wait."""
    call(settings, lambda s: s.apps.pause(path))
    output.say(f"Application {path} paused.")


@apps.command()
@click.argument("path")
@with_settings
def resume(settings: Settings, path: str) -> None:
    """Resume a paused application."""
    call(settings, lambda s: s.apps.resume(path))
    output.say(f"Application {path} resumed.")


@apps.command()
@with_settings
def reload(settings: Settings) -> None:
    """Read postroom.toml of this folder again, while hosts are running.

    Run it in the folder and on the machine of a host. Changed applications get new processes, new
    ones start, removed ones stop.
    """
    from postroom.hosted import read_and_register

    count = call(settings, lambda s: read_and_register(s.apps))
    output.say(f"{output.counted(count, 'application')} read from postroom.toml.")


@apps.command()
@click.argument("path")
@output.json_option
@with_settings
def remove(settings: Settings, path: str, as_json: bool) -> None:
    """Remove an application. Its queues go to the next best match, or wait.

    An application in postroom.toml returns when a host starts again: remove it there, too.
    """
    call(settings, lambda s: s.apps.remove(path))
    if as_json:
        output.print_json({"path": path, "removed": True})
    else:
        output.say(f"Application {path} removed.")


@apps.command()
@click.argument("queue")
@output.json_option
@with_settings
def explain(settings: Settings, queue: str, as_json: bool) -> None:
    """Show which application a queue activates, and why."""
    found = call(settings, lambda s: s.apps.explain(queue))
    if as_json:
        output.print_json(describe_match(found))
        return
    output.say(f"{queue} → {found.winner or 'no application'}: {found.reason}")
    rows = [
        (output.plain(each.path), output.yes_or_no(each.fits), output.plain(each.reason))
        for each in found.candidates
    ]
    output.print_or_none(("path", "fits", "why"), rows)


def _values(
    command: str | None, variables: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields that the options set."""
    values = {name: value for name, value in options.items() if value is not None}
    if command is not None:
        values["command"] = _split(command)
    if variables:
        values["environment"] = read_pairs(variables, "--env")
    return values


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as exc:
        raise click.BadParameter(str(exc), param_hint="--command") from exc


_LOOK_SECONDS = 1.0


def show_apps(states: Sequence[AppState], as_json: bool) -> None:
    if as_json:
        output.print_items(map(describe_app, states))
    elif not states:
        output.note("No applications. Register one with: postroom app add")
    else:
        output.console().print(_table(states))


async def watch_apps(services: Services, as_json: bool) -> None:
    """Show changes forever: live on a terminal, otherwise a line of JSON or a table per change."""
    if as_json or not sys.stdout.isatty():
        await _watch_changes(services, as_json)
        return
    from rich.live import Live

    with Live(console=output.console(), auto_refresh=False) as live:
        while True:
            live.update(_table(await services.apps.states()), refresh=True)
            await asyncio.sleep(_LOOK_SECONDS)


async def _watch_changes(services: Services, as_json: bool) -> None:
    last: list[AppState] | None = None
    while True:
        states = await services.apps.states()
        if states != last:
            if as_json:
                click.echo(output.json_line({"items": list(map(describe_app, states))}))
            else:
                output.console().print(_table(states))
            last = states
        await asyncio.sleep(_LOOK_SECONDS)


def _table(states: Sequence[AppState]) -> Table:
    rows = []
    for each in states:
        processes = [process for _, _, status in each.hosts for process in status.processes]
        oldest = min((process.started_at for process in processes), default=None)
        rows.append(
            (
                output.plain(each.app.path),
                output.plain(each.app.runs),
                output.state(each.summary),
                f"{len(processes)} of {each.app.max_processes * max(1, len(each.hosts))}",
                f"{sum(process.in_progress for process in processes):,}",
                f"{sum(process.handled for process in processes):,}",
                f"{sum(process.memory for process in processes) / 1e6:,.0f} MB"
                if processes
                else "",
                "" if oldest is None else output.span(datetime.now(UTC) - oldest),
                output.plain(each.app.origin),
            )
        )
    headings = ("path", "runs", "state", "#processes", "#in progress", "#handled", "#memory")
    return output.table((*headings, "running for", "from"), rows)
