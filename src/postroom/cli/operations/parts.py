"""`postroom scheduler`, `sender`, `host` and `web`: a single part, until it is stopped."""

from __future__ import annotations

import asyncio

import click

from postroom.cli.support.running import run_until_stopped, with_settings
from postroom.hosted import register_apps, run_host
from postroom.settings import Settings
from postroom.wiring import (
    make_alerts,
    make_retention,
    opened_sending,
    opened_services,
    opened_transport,
    run_confirmations,
    run_scheduler,
    run_sender,
)

_TRANSPORT = click.option("--transport", help="How to send, as in the setting `transport`.")


@click.command()
@with_settings
def scheduler(settings: Settings) -> None:
    """Split due messages into pages for the senders. Any number may run; one is active."""

    async def work(stopping: asyncio.Event) -> None:
        async with opened_services(settings) as services, opened_transport(settings) as transport:
            alerts = make_alerts(services, transport, settings)
            async with asyncio.TaskGroup() as parts:
                parts.create_task(run_scheduler(services, settings, stopping))
                parts.create_task(make_retention(services, settings).run(stopping))
                if alerts is not None:
                    parts.create_task(alerts.run(stopping))

    run_until_stopped(work, settings)


@click.command()
@_TRANSPORT
@with_settings
def sender(settings: Settings) -> None:
    """Send the emails of pages. Any number may run, on any number of machines."""

    async def work(stopping: asyncio.Event) -> None:
        async with (
            opened_sending(settings) as (services, transport),
            asyncio.TaskGroup() as parts,
        ):
            parts.create_task(run_sender(services, transport, settings, stopping))
            parts.create_task(run_confirmations(services, transport, settings, stopping))

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
@click.option("--port", help="The port, as in the setting `port`.")
@with_settings
def web(settings: Settings) -> None:
    """Serve the web pages and the API. Any number may run."""
    from postroom.web.context import make_context
    from postroom.web.serving.server import bound_socket, print_url, serve
    from postroom.wiring import opened_services

    listener = bound_socket(settings)

    async def work(stopping: asyncio.Event) -> None:
        async with opened_services(settings) as services:
            context = make_context(services, settings)
            await print_url(context, listener)
            await serve(context, listener, stopping)

    run_until_stopped(work, settings)
