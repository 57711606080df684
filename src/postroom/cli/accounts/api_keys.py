"""`postroom apikey`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.accounts import describe_api_key

if TYPE_CHECKING:
    from postroom.services.accounts.api_keys import ApiKey
    from postroom.settings import Settings

_SCOPES = ("subscribe", "lists", "subscribers", "messages", "queues", "read")


@click.group("apikey")
def apikeys() -> None:
    """Manage API keys."""


@apikeys.command()
@click.option("--name", default="", help="A name to recognise it by.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(_SCOPES),
    help="What it may do; can be repeated. [default: everything]",
)
@click.option(
    "--only-lists",
    is_flag=True,
    help="Limit it to lists that are granted with `postroom access grant`.",
)
@output.json_option
@with_settings
def create(
    settings: Settings, name: str, scopes: tuple[str, ...], only_lists: bool, as_json: bool
) -> None:
    """Create a key. It is printed once and cannot be shown again."""
    created = call(settings, lambda s: s.keys.create(name, scopes, only_lists=only_lists))
    if as_json:
        output.print_json({"key": created.secret, **output.builtins(describe_api_key(created.key))})
        return
    output.note(f"Key {created.key.id}, scopes: {_scopes(created.key)}. It is not shown again.")
    output.say(created.secret)
    if only_lists:
        hint = f"postroom access grant key:{created.key.id} LIST view"
        output.note(f"It has access to no list yet. Grant rights with: {hint}")


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
        output.note("No keys. Create one with: postroom apikey create")
        return
    rows = [
        (
            each.id,
            output.plain(each.name),
            _scopes(each),
            "selected lists" if each.only_lists else "all",
            output.when(each.created_at),
            output.when(each.last_used_at) or "never",
        )
        for each in found
    ]
    headings = ("key", "name", "scopes", "lists", "created", "last used")
    output.console().print(output.table(headings, rows))


@apikeys.command()
@click.argument("key_id", metavar="ID")
@output.json_option
@with_settings
def revoke(settings: Settings, key_id: str, as_json: bool) -> None:
    """Revoke a key. `ls` shows its ID."""
    call(settings, lambda s: s.keys.revoke(key_id))
    if as_json:
        output.print_json({"id": key_id, "revoked": True})
    else:
        output.say(f"Key {key_id} revoked.")


def _scopes(key: ApiKey) -> str:
    return ", ".join(sorted(key.scopes)) or "everything"
