"""`postroom apikey`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.calling import call
from postroom.cli.support.running import with_settings
from postroom.services.resources.accounts import describe_api_key

if TYPE_CHECKING:
    from postroom.services.accounts.api_keys import ApiKey
    from postroom.settings import Settings

_SCOPES = ("subscribe", "lists", "subscribers", "messages", "queues", "read")


@click.group("apikey")
def apikeys() -> None:
    """Keys for the API."""


@apikeys.command()
@click.option("--name", default="", help="What it is for, to recognise it by.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(_SCOPES),
    help="What it may do; several are allowed.  [default: everything]",
)
@output.json_option
@with_settings
def create(settings: Settings, name: str, scopes: tuple[str, ...], as_json: bool) -> None:
    """Make a key. It is printed this once and cannot be shown again."""
    made = call(settings, lambda s: s.keys.create(name, scopes))
    if as_json:
        output.print_json({"key": made.secret, **output.builtins(describe_api_key(made.key))})
        return
    output.note(f"The key {made.key.id} may {_may(made.key)}. Keep it: it is not shown again.")
    output.say(made.secret)


@apikeys.command()
@output.json_option
@with_settings
def ls(settings: Settings, as_json: bool) -> None:
    """Show the keys, without their secrets."""
    found = call(settings, lambda s: s.keys.all())
    if as_json:
        output.print_items(map(describe_api_key, found))
        return
    if not found:
        output.note("There are no keys: make one with postroom apikey create.")
        return
    rows = [
        (
            each.id,
            output.plain(each.name),
            _may(each),
            output.when(each.created_at),
            output.when(each.last_used_at) or "never",
        )
        for each in found
    ]
    headings = ("key", "name", "may", "created", "last used")
    output.console().print(output.table(headings, rows))


@apikeys.command()
@click.argument("key_id", metavar="ID")
@with_settings
def revoke(settings: Settings, key_id: str) -> None:
    """Refuse a key from now on. ID is what `ls` shows."""
    call(settings, lambda s: s.keys.revoke(key_id))
    output.say(f"The key {key_id} is revoked.")


def _may(key: ApiKey) -> str:
    return ", ".join(sorted(key.scopes)) or "everything"
