"""`postroom host`: run the applications that queues activate."""

from __future__ import annotations

import asyncio

import click

from postroom.cli.support.running import run_until_stopped, with_settings
from postroom.hosted import register_apps, run_host
from postroom.settings import Settings
from postroom.wiring import opened_services


@click.command()
@click.option("--transport", help="The way out of the senders, as in the setting `transport`.")
@with_settings
def host(settings: Settings) -> None:
    """Start applications when messages arrive, stop them when idle. Any number may run.

    Runs Postroom's own senders, the applications in the file postroom.toml of this folder, and
    those that `postroom app add` registered.
    """

    async def work(stopping: asyncio.Event) -> None:
        async with opened_services(settings) as services:
            await register_apps(settings, services.apps)
            await run_host(services, settings, stopping)

    run_until_stopped(work, settings)
