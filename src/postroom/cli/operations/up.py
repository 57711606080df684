"""`postroom up`: everything in one command."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from postroom.cli.support.running import run_until_stopped, with_settings
from postroom.hosted import register_apps, run_host
from postroom.settings import Settings
from postroom.transport.registry import sends_mail
from postroom.wiring import (
    make_alerts,
    make_retention,
    opened_services,
    opened_transport,
    run_scheduler,
)

if TYPE_CHECKING:
    from postroom.web.serving.server import FirstStep


@click.command()
@click.option("--transport", help="The way out, as in the setting `transport`.")
@click.option("--port", help="The port of the pages, as in the setting `port`.")
@click.option("--demo", is_flag=True, help="Begin with two lists and messages to look at.")
@with_settings
def up(settings: Settings, demo: bool) -> None:
    """Everything in one command: web, scheduler and host. Senders start when they are needed."""
    from postroom.cli.operations.demo import fill_with_examples
    from postroom.web.context import make_context
    from postroom.web.serving.server import bound_socket, first_step, serve

    listener = bound_socket(settings)

    async def work(stopping: asyncio.Event) -> None:
        async with opened_services(settings) as services, opened_transport(settings) as transport:
            await register_apps(settings, services.apps)
            filled = demo and await fill_with_examples(services, settings)
            context = make_context(services, settings)
            async with asyncio.TaskGroup() as parts:
                parts.create_task(serve(context, listener, stopping))
                parts.create_task(run_scheduler(services, settings, stopping))
                parts.create_task(make_retention(services, settings).run(stopping))
                parts.create_task(run_host(services, settings, stopping))
                alerts = make_alerts(services, transport, settings)
                if alerts is not None:
                    parts.create_task(alerts.run(stopping))
                _say_where(settings, await first_step(context), listener, demo=filled)

    run_until_stopped(work, settings)
    with suppress(OSError):  # the terminal may be closed
        click.echo("Stopped.", err=True)


def _say_where(
    settings: Settings, first: FirstStep, listener: socket.socket, *, demo: bool
) -> None:
    """What somebody who has just started it wants to know."""
    address, port = listener.getsockname()[:2]
    here = f"http://{'localhost' if address in ('127.0.0.1', '0.0.0.0') else address}:{port}"  # noqa: S104
    click.secho("\n  Postroom is running. Ctrl-C stops it.\n", fg="green", bold=True, err=True)
    file = settings.storage.file
    lines = {
        "Open": first.link or here,
        "Data": str(settings.storage.data.absolute()),
        "Store": f"SQLite, {file}" if file else settings.found["store"].shown,
        "Transport": settings.found["transport"].shown,
    }
    for name, value in lines.items():
        click.echo(f"  {click.style(f'{name:<10}', dim=True)} {value}", err=True)
    if first.link:
        click.echo(f"  {'':<10} The link creates your administrator account.", err=True)
    elif first.is_needed:
        from postroom.web.serving.server import ADD_FIRST_USER

        click.echo(f"  {'First':<10} {ADD_FIRST_USER}", err=True)
    if demo:
        click.echo(f"  {'':<10} The demo's first message is being sent now.", err=True)
    missing = _missing_for_production(settings)
    if missing:
        click.secho("\n  Before subscribers rely on it:", fg="yellow", err=True)
        for each in missing:
            click.echo(f"  • {each}", err=True)
    click.echo("\n  Is everything well?  postroom check\n", err=True)


def _missing_for_production(settings: Settings) -> list[str]:
    missing = []
    if not sends_mail(settings.transport.url):
        missing.append(
            "Mails are kept on the page Outbox and not sent: set POSTROOM_TRANSPORT=smtp://…"
        )
    base_url = settings.web.base_url
    if urlsplit(base_url).hostname in ("localhost", "127.0.0.1", "::1"):
        missing.append(f"Links in mails lead to {base_url}: set POSTROOM_BASE_URL=https://…")
    elif base_url.startswith("http://"):
        missing.append("One-click unsubscribing needs https: put a proxy with TLS in front.")
    if not settings.alerts.email and not settings.alerts.webhook:
        missing.append("Nobody is told when a message pauses itself: set POSTROOM_ALERT_EMAIL.")
    return missing
