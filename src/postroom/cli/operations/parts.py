"""`postroom up`, and `web`, `scheduler`, `sender`, `host` and `inbound`: everything or one part,
until it is stopped."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from postroom.cli.support.running import run_until_stopped, with_settings
from postroom.errors import PostroomError
from postroom.hosted import register_apps, run_host
from postroom.settings import Settings, with_option
from postroom.transport.registry import sends_mail
from postroom.wiring import (
    make_ab_test_work,
    make_retention,
    make_suppression_work,
    make_unfinished_renames,
    make_withdrawn_consents,
    opened_live,
    opened_services,
    opened_shared_transport,
    run_alerts,
    run_bounce_inputs,
    run_confirmations,
    run_scheduler,
    run_sender,
    sending_settings,
)

if TYPE_CHECKING:
    from postroom.web.serving.server import FirstStep


@click.command()
@click.option("--transport", help="How to send, as in the setting `transport`.")
@click.option("--port", help="The port of the web pages, as in the setting `port`.")
@click.option(
    "--demo", is_flag=True, help="Start with example data: 90 days of lists, growth and messages."
)
@with_settings
def up(settings: Settings, demo: bool) -> None:
    """Run everything: web, scheduler and host. Senders start when they are needed."""
    from postroom.cli.operations.demo import fill_with_examples
    from postroom.cli.operations.demo.filling import RATE
    from postroom.web.context import make_context
    from postroom.web.serving.server import bound_socket, first_step, serve

    listener = bound_socket(settings)
    if demo and settings.sender.rate is None:
        settings = with_option(settings, "rate", RATE, "--demo")

    async def work(stopping: asyncio.Event) -> None:
        async with opened_live(settings) as (services, live):
            await register_apps(settings, services.apps)
            filled = demo and await fill_with_examples(services, live.current)
            context = make_context(services, settings, live)
            async with asyncio.TaskGroup() as parts:
                parts.create_task(serve(context, listener, stopping))
                parts.create_task(run_scheduler(services, settings, stopping))
                parts.create_task(make_retention(services, settings).run(stopping))
                parts.create_task(make_ab_test_work(services).run(stopping))
                parts.create_task(make_unfinished_renames(services).run(stopping))
                parts.create_task(make_withdrawn_consents(services).run(stopping))
                parts.create_task(make_suppression_work(services, settings).run(stopping))
                parts.create_task(run_host(services, settings, stopping))
                parts.create_task(run_alerts(services, live, stopping))
                parts.create_task(run_bounce_inputs(services, live, stopping))
                _print_summary(live.current, await first_step(context), listener, demo=filled)

    run_until_stopped(work, settings)
    with suppress(OSError):  # the terminal may be closed
        click.echo("Stopped.", err=True)


def _print_summary(
    settings: Settings, first: FirstStep, listener: socket.socket, *, demo: bool
) -> None:
    """Print where to go next."""
    address, port = listener.getsockname()[:2]
    here = f"http://{'localhost' if address in ('127.0.0.1', '0.0.0.0') else address}:{port}"  # noqa: S104
    click.secho(
        "\n  Postroom is running. Press Ctrl-C to stop it.\n", fg="green", bold=True, err=True
    )
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
        click.echo(f"  {'':<10} One of the demo's messages is being sent now.", err=True)
    missing = _missing_for_production(settings)
    if missing:
        click.secho("\n  Before you go live:", fg="yellow", err=True)
        for each in missing:
            click.echo(f"  • {each}", err=True)
    click.echo("\n  Check your setup:  postroom check\n", err=True)


def _missing_for_production(settings: Settings) -> list[str]:
    missing = []
    if not sends_mail(settings.transport.url):
        missing.append(
            "Emails are kept in the outbox and not sent: set up a mail server in the browser, under"
            " Settings → Mail server, or set POSTROOM_TRANSPORT=smtp://…"
        )
    base_url = settings.web.base_url
    if urlsplit(base_url).hostname in ("localhost", "127.0.0.1", "::1"):
        missing.append(f"Links in emails lead to {base_url}: set POSTROOM_BASE_URL=https://…")
    elif base_url.startswith("http://"):
        missing.append("One-click unsubscribe needs https: put a proxy with TLS in front.")
    if not settings.alerts.email and not settings.alerts.webhook:
        missing.append("Nobody is alerted when a message is paused: see Settings → Alerts.")
    return missing


_TRANSPORT = click.option("--transport", help="How to send, as in the setting `transport`.")


@click.command()
@with_settings
def scheduler(settings: Settings) -> None:
    """Split due messages into pages for the senders. Any number may run; one is active."""

    async def work(stopping: asyncio.Event) -> None:
        async with opened_live(settings) as (services, live), asyncio.TaskGroup() as parts:
            parts.create_task(run_scheduler(services, settings, stopping))
            parts.create_task(make_retention(services, settings).run(stopping))
            parts.create_task(make_ab_test_work(services).run(stopping))
            parts.create_task(make_unfinished_renames(services).run(stopping))
            parts.create_task(make_withdrawn_consents(services).run(stopping))
            parts.create_task(make_suppression_work(services, settings).run(stopping))
            parts.create_task(run_alerts(services, live, stopping))

    run_until_stopped(work, settings)


@click.command()
@_TRANSPORT
@with_settings
def sender(settings: Settings) -> None:
    """Send the emails of pages. Any number may run, on any number of machines."""

    async def work(stopping: asyncio.Event) -> None:
        async with opened_live(settings) as (services, live):

            async def send(settings: Settings, ending: asyncio.Event) -> None:
                async with (
                    opened_shared_transport(services, settings) as transport,
                    asyncio.TaskGroup() as parts,
                ):
                    parts.create_task(run_sender(services, transport, settings, ending))
                    parts.create_task(run_confirmations(services, transport, settings, ending))

            await live.run(send, sending_settings, stopping)

    run_until_stopped(work, settings)


@click.command()
@_TRANSPORT
@with_settings
def host(settings: Settings) -> None:
    """Start applications when messages arrive, and stop idle ones. Any number may run.

    Runs Postroom's own senders, the applications in the file postroom.toml of this folder, and
    those that `postroom app add` registered.
    """

    async def work(stopping: asyncio.Event) -> None:
        async with opened_services(settings) as services:
            await register_apps(settings, services.apps)
            await run_host(services, settings, stopping)

    run_until_stopped(work, settings)


@click.command()
@with_settings
def inbound(settings: Settings) -> None:
    """Receive bounces, or fetch them from a mailbox. Any number may run.

    They are stored and queued; a host (`postroom host`) records them.
    """

    async def work(stopping: asyncio.Event) -> None:
        async with opened_live(settings) as (services, live):
            bounces = live.current.bounces
            if bounces.port is None and not bounces.mailbox:
                raise PostroomError(
                    "nothing to receive bounces from: set POSTROOM_INBOUND_PORT, such as 8424, or"
                    " POSTROOM_BOUNCE_MAILBOX"
                )
            await run_bounce_inputs(services, live, stopping)

    run_until_stopped(work, settings)


@click.command()
@click.option("--port", help="The port, as in the setting `port`.")
@with_settings
def web(settings: Settings) -> None:
    """Serve the web pages and the API. Any number may run."""
    from postroom.web.context import make_context
    from postroom.web.serving.server import bound_socket, print_url, serve

    listener = bound_socket(settings)

    async def work(stopping: asyncio.Event) -> None:
        async with opened_live(settings) as (services, live):
            context = make_context(services, settings, live)
            await print_url(context, listener)
            await serve(context, listener, stopping)

    run_until_stopped(work, settings)
