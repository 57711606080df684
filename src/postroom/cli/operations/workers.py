"""`postroom scheduler` and `sender`: parts that run until they are stopped."""

from __future__ import annotations

import asyncio

import click

from postroom.cli.support.running import run_until_stopped, with_settings
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

_TRANSPORT = click.option("--transport", help="The way out, as in the setting `transport`.")


@click.command()
@with_settings
def scheduler(settings: Settings) -> None:
    """Find messages that are due and make pages of them. Any number may run; one acts."""

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
    """Take pages and send their emails. Any number may run, on any number of machines."""

    async def work(stopping: asyncio.Event) -> None:
        async with (
            opened_sending(settings) as (services, transport),
            asyncio.TaskGroup() as parts,
        ):
            parts.create_task(run_sender(services, transport, settings, stopping))
            parts.create_task(run_confirmations(services, transport, settings, stopping))

    run_until_stopped(work, settings)
