"""What is made once when a web server starts, and what the person who started it is told."""

from __future__ import annotations

import socket

import click

from postroom.secret_key import load_secret_key
from postroom.settings import Settings
from postroom.web.accounts.entering import setup_link
from postroom.web.context import WebContext
from postroom.wiring import Services


def make_context(services: Services, settings: Settings) -> WebContext:
    secret = load_secret_key(settings.text("secret_key"), settings.data)
    return WebContext(services, settings, secret)


async def first_step(context: WebContext) -> str:
    """The link that makes the first administrator, while there is no user; otherwise nothing."""
    return setup_link(context) if await context.services.users.is_first_start() else ""


async def say_where(context: WebContext, listener: socket.socket) -> None:
    address, port = listener.getsockname()[:2]
    click.secho(f"Pages and API: http://{address}:{port}", bold=True, err=True)
    if link := await first_step(context):
        click.echo(f"Make the first administrator: {link}", err=True)
