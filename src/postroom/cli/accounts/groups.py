"""`postroom group`: users who share rights on lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.accounts import describe_group

if TYPE_CHECKING:
    from postroom.settings import Settings


@click.group("group")
def groups() -> None:
    """Manage groups, whose members share rights on lists."""


@groups.command()
@click.argument("name")
@output.json_option
@with_settings
def create(settings: Settings, name: str, as_json: bool) -> None:
    """Create a group."""
    created = call(settings, lambda s: s.groups.create(name))
    if as_json:
        output.print_json(describe_group(created))
    else:
        output.say(f"Group {created.name} created.")


@groups.command()
@output.json_option
@with_settings
def ls(settings: Settings, as_json: bool) -> None:
    """Show all groups and their members."""
    found = call(settings, lambda s: s.groups.all())
    if as_json:
        output.print_items(map(describe_group, found))
        return
    if not found:
        output.note("No groups. Create one with: postroom group create NAME")
        return
    rows = [(each.name, output.plain(", ".join(each.members)) or "nobody") for each in found]
    output.console().print(output.table(("group", "members"), rows))


@groups.command()
@click.argument("name")
@click.argument("email")
@with_settings
def add(settings: Settings, name: str, email: str) -> None:
    """Make a user a member of a group."""
    call(settings, lambda s: s.groups.add(name, email))
    output.say(f"{email} added to {name}.")


@groups.command()
@click.argument("name")
@click.argument("email")
@with_settings
def drop(settings: Settings, name: str, email: str) -> None:
    """Remove a user from a group."""
    call(settings, lambda s: s.groups.drop(name, email))
    output.say(f"{email} removed from {name}.")


@groups.command()
@click.argument("name")
@output.yes_option
@with_settings
def remove(settings: Settings, name: str, yes: bool) -> None:
    """Remove a group and its rights. Its members can still log in."""
    output.confirm(f"Remove group {name}?", yes=yes)
    call(settings, lambda s: s.groups.remove(name))
    output.say(f"Group {name} removed.")
