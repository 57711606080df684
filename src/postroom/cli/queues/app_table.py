"""Applications and their processes: once, or followed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.services.resources.queues import describe_app

if TYPE_CHECKING:
    from rich.table import Table

    from postroom.services.queues.apps import AppState
    from postroom.wiring import Services

_LOOK_SECONDS = 1.0


def show_apps(states: Sequence[AppState], as_json: bool) -> None:
    if as_json:
        output.print_items(map(describe_app, states))
    elif not states:
        output.note("There are no applications: make one with postroom app add.")
    else:
        output.console().print(_table(states))


async def watch_apps(services: Services, as_json: bool) -> None:
    """Follow them for ever: live on a terminal, else one line of JSON or a table a change."""
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
                f"{sum(process.in_hand for process in processes):,}",
                f"{sum(process.handled for process in processes):,}",
                f"{sum(process.memory for process in processes) / 1e6:,.0f} MB"
                if processes
                else "",
                "" if oldest is None else output.span(datetime.now(UTC) - oldest),
                output.plain(each.app.origin),
            )
        )
    headings = ("path", "runs", "state", "#processes", "#in hand", "#handled", "#memory")
    return output.table((*headings, "running for", "from"), rows)
