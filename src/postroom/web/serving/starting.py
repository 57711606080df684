"""What is made once when a web server starts, and what the person who started it is told."""

from __future__ import annotations

import socket

import click
import msgspec

from postroom.encryption import load_secret_key
from postroom.observability.logs import JSON
from postroom.settings import Settings
from postroom.web.admin.accounts.login import setup_link
from postroom.web.context import WebContext
from postroom.wiring import Services


def make_context(services: Services, settings: Settings) -> WebContext:
    secret = load_secret_key(settings.secrets.key, settings.storage.data)
    return WebContext(services, settings, secret)


ADD_FIRST_USER = "postroom user add you@example.com --role administrator"


class FirstStep(msgspec.Struct, frozen=True):
    """What to do while nobody has an account: open the link, or run `ADD_FIRST_USER`."""

    is_needed: bool
    link: str = ""


async def first_step(context: WebContext) -> FirstStep:
    """Return what the person who has started the server has to do first.

    The link lets anybody in who sees it, so it is for the terminal. Where standard error is a log
    for programs (`log_format = json`), which is collected and kept, it is not printed.
    """
    if not await context.services.users.is_first_start():
        return FirstStep(False)
    is_log = context.settings.observability.log_format == JSON
    return FirstStep(True, "" if is_log else setup_link(context))


async def say_where(context: WebContext, listener: socket.socket) -> None:
    address, port = listener.getsockname()[:2]
    click.secho(f"Pages and API: http://{address}:{port}", bold=True, err=True)
    first = await first_step(context)
    if first.is_needed:
        todo = first.link or ADD_FIRST_USER
        click.echo(f"Create your administrator account: {todo}", err=True)
