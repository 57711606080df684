"""`postroom scheduler`, `sender` and `up`: parts that run until they are stopped."""

from __future__ import annotations

import asyncio

import click

from postroom.cli.running import run_until_stopped, with_settings
from postroom.settings import Settings
from postroom.wiring import (
    make_confirmations,
    make_scheduler,
    make_sender,
    opened_store,
    opened_transport,
)

_TRANSPORT = click.option("--transport", help="The way out, as in the setting `transport`.")


@click.command()
@with_settings
def scheduler(settings: Settings) -> None:
    """Find messages that are due and make pages of them. Any number may run; one acts."""

    async def work(stopping: asyncio.Event) -> None:
        async with opened_store(settings) as store:
            await make_scheduler(store, settings).run(stopping)

    run_until_stopped(work)


@click.command()
@_TRANSPORT
@with_settings
def sender(settings: Settings) -> None:
    """Take pages and send their emails. Any number may run, on any number of machines."""

    async def work(stopping: asyncio.Event) -> None:
        async with opened_store(settings) as store, opened_transport(settings) as transport:
            await asyncio.gather(
                make_sender(store, transport, settings).run(stopping),
                make_confirmations(store, transport, settings).run(stopping),
            )

    run_until_stopped(work)


@click.command()
@_TRANSPORT
@with_settings
def up(settings: Settings) -> None:
    """Everything in one process: scheduler and sender."""
    _say_where(settings)

    async def work(stopping: asyncio.Event) -> None:
        async with opened_store(settings) as store, opened_transport(settings) as transport:
            await asyncio.gather(
                make_scheduler(store, settings).run(stopping),
                make_sender(store, transport, settings).run(stopping),
                make_confirmations(store, transport, settings).run(stopping),
            )

    run_until_stopped(work)


def _say_where(settings: Settings) -> None:
    """What somebody who has just started it wants to know."""
    click.secho("Postroom is running. Ctrl-C stops it.", bold=True, err=True)
    store, transport = settings.found["store"], settings.found["transport"]
    click.echo(f"  data       {settings.data}", err=True)
    click.echo(f"  store      {store.shown or settings.store_url}", err=True)
    click.echo(f"  transport  {transport.shown}", err=True)
    if settings.text("transport").startswith("outbox:"):
        click.echo(
            f"  Nothing leaves this machine: mails are kept in {settings.data / 'outbox'}.",
            err=True,
        )
    click.echo("  What to do next: postroom list create --help\n", err=True)
