"""`postroom events`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.operations import describe_event

if TYPE_CHECKING:
    from postroom.services.events import Event, Severity
    from postroom.settings import Settings
    from postroom.wiring import Services

_LOOK_SECONDS = 1.0
_STYLES = {"info": "", "warning": "yellow", "error": "bold red"}


@click.command()
@click.option("--watch", is_flag=True, help="Show new events until Ctrl-C.")
@click.option(
    "--severity",
    type=click.Choice(["info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Minimum severity.",
)
@output.page_options(limit=50)
@output.json_option
@with_settings
def events(
    settings: Settings,
    watch: bool,
    severity: str,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """Show system activity: messages, queues and applications.

    Newest first. With --watch oldest first, one line (with --json one object) per event.
    """
    from postroom.services.events import Severity

    least = Severity(severity)
    if watch:
        if after is not None:
            raise click.UsageError("--watch starts now: it cannot be combined with --after")
        try:
            call(settings, lambda services: _watch(services, least, limit, as_json))
        except KeyboardInterrupt:
            return  # the usual way to stop watching
    found = call(settings, lambda s: s.events.slice(least=least, limit=limit, after=after))
    if as_json:
        output.print_items(map(describe_event, found.events), found.next)
        return
    if not found.events:
        output.note("No events.")
        return
    rows = [
        (
            output.when(each.at),
            _severity(each),
            output.plain(each.part),
            output.plain(each.text),
            output.plain(each.subject),
        )
        for each in found.events
    ]
    headings = ("time", "severity", "source", "event", "subject")
    output.console().print(output.table(headings, rows))
    output.more(found.next, "postroom events")


async def _watch(services: Services, least: Severity, limit: int, as_json: bool) -> None:
    last: str | None = None
    while True:
        for event in await services.events.since(last, least=least, limit=limit):
            click.echo(output.json_line(describe_event(event)) if as_json else _line(event))
            last = event.id
        limit = 1000  # the first time shows some, later ones all new events
        await asyncio.sleep(_LOOK_SECONDS)


def _line(event: Event) -> str:
    about = f" [{event.subject}]" if event.subject else ""
    text = output.plain(f"{event.part}: {event.text}{about}")
    return f"{output.when(event.at)} {event.severity:7} {text}"


def _severity(event: Event) -> Any:
    from rich.text import Text

    return Text(event.severity.value, _STYLES[event.severity.value])
