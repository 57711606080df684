"""`postroom bounce`: emails that came back."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call_store, with_settings

if TYPE_CHECKING:
    from postroom.settings import Settings
    from postroom.storage import Store


@click.group("bounce")
def bounces() -> None:
    """Receive bounces and complaints."""


@bounces.command()
@click.option(
    "--recipient",
    metavar="ADDRESS",
    default="",
    help="The envelope's recipient, as the mail server knows it (Postfix: ${recipient}).",
)
@output.json_option
@with_settings
def receive(settings: Settings, recipient: str, as_json: bool) -> None:
    """Store and queue a bounce from standard input.

    For mail servers that pipe bounces to a program.

    Exits with status 75 (try again later) if the store cannot be used: Postfix, Exim and sendmail
    then keep the email and run the command again.
    """
    from postroom.domain.messages.delivery.bounces import BounceSource
    from postroom.services.audience.bounces.intake import LARGEST, BounceIntake
    from postroom.storage import StoreError

    content = sys.stdin.buffer.read(LARGEST + 1)

    async def work(store: Store) -> str:
        return await BounceIntake(store).keep(content, BounceSource.PIPE, recipient)

    try:
        name = call_store(settings, work)
    except StoreError as exc:
        click.echo(f"postroom: {' '.join(str(exc).split())}", err=True)
        sys.exit(os.EX_TEMPFAIL)
    if as_json:
        output.print_json({"id": name})
    else:
        click.echo(f"Stored and queued as {name}")
