"""`postroom web`: the pages and the API."""

from __future__ import annotations

import asyncio

import click

from postroom.cli.support.running import run_until_stopped, with_settings
from postroom.settings import Settings


@click.command()
@click.option("--port", help="The port, as in the setting `port`.")
@with_settings
def web(settings: Settings) -> None:
    """Pages for administrators and subscribers, and the API. Any number may run."""
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
