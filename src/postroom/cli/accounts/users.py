"""`postroom user`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.calling import call, operator
from postroom.cli.support.running import with_settings
from postroom.services.resources.accounts import describe_user

if TYPE_CHECKING:
    from postroom.settings import Settings
    from postroom.wiring import Services

_ROLE = click.Choice(["viewer", "editor", "administrator"])


@click.group("user")
def users() -> None:
    """Who may use the pages."""


@users.command()
@click.argument("email")
@click.option("--role", type=_ROLE, default="editor", show_default=True)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@output.json_option
@with_settings
def add(settings: Settings, email: str, role: str, password_stdin: bool, as_json: bool) -> None:
    """Add a user, or print a link with which they choose a password themselves.

    The link works once, for seven days. A password is never an argument: others could see it.
    """
    from postroom.services.accounts.users import Role

    if not password_stdin:
        token = call(settings, lambda s: s.access_links.invite(email, Role(role), operator()))
        _show_link(settings, token, as_json, f"An invitation for {email}, good for seven days:")
        return
    password = sys.stdin.read().rstrip("\r\n")
    made = call(settings, lambda s: s.users.create(email, password, Role(role)))
    if as_json:
        output.print_json(describe_user(made))
    else:
        output.say(f"{made.email} can log in as {made.role}.")


@users.command()
@output.json_option
@with_settings
def ls(settings: Settings, as_json: bool) -> None:
    """Show the users, in the order of their addresses."""
    found = call(settings, lambda s: s.users.all())
    if as_json:
        output.print_items(map(describe_user, found))
        return
    if not found:
        output.note("There are no users: add one with postroom user add EMAIL.")
        return
    rows = [
        (
            output.plain(each.email),
            each.role.value,
            output.yes_or_no(each.has_second_factor),
            output.yes_or_no(each.is_slowed_down),
            output.when(each.created_at),
        )
        for each in found
    ]
    headings = ("user", "role", "second factor", "slowed down", "since")
    output.console().print(output.table(headings, rows))


@users.command()
@click.argument("email")
@output.yes_option
@output.json_option
@with_settings
def remove(settings: Settings, email: str, yes: bool, as_json: bool) -> None:
    """Remove a user, who is logged out at once. Not the last administrator."""
    output.confirm(f"Remove the user {email}?", yes=yes)
    removed = call(settings, lambda s: s.user_removal.remove(email))
    if as_json:
        output.print_json({"email": removed.email, "removed": True})
    else:
        output.say(f"{removed.email} is removed.")


@users.command()
@click.argument("email")
@click.argument("role", type=_ROLE)
@output.json_option
@with_settings
def role(settings: Settings, email: str, role: str, as_json: bool) -> None:
    """Give a user another role."""
    from postroom.services.accounts.users import Role

    saved = call(settings, lambda s: s.users.set_role(email, Role(role)))
    if as_json:
        output.print_json(describe_user(saved))
    else:
        output.say(f"{saved.email} has the role {saved.role} now.")


@users.command()
@click.argument("email")
@click.option("--second-factor", is_flag=True, help="Also turn off a second factor that was lost.")
@output.json_option
@with_settings
def reset(settings: Settings, email: str, second_factor: bool, as_json: bool) -> None:
    """Print a link for a new password. It works once, for a day; the old password until then."""

    async def work(services: Services) -> str:
        if second_factor:
            await services.users.turn_off_second_factor(email)
        return await services.access_links.reset(email, operator())

    token = call(settings, work)
    _show_link(settings, token, as_json, f"A link for {email}, good for a day:")


def _show_link(settings: Settings, token: str, as_json: bool, told: str) -> None:
    from postroom.services.accounts.access_links import link_address

    address = link_address(settings.web.base_url, token)
    if as_json:
        output.print_json({"link": address})
        return
    output.note(told)
    output.say(address)
