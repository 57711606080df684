"""`postroom user`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, operator, with_settings
from postroom.services.resources.accounts import describe_user

if TYPE_CHECKING:
    from postroom.settings import Settings
    from postroom.wiring import Services

_ROLE = click.Choice(["viewer", "editor", "administrator"])


@click.group("user")
def users() -> None:
    """Manage who can log in."""


@users.command()
@click.argument("email")
@click.option("--role", type=_ROLE, default="editor", show_default=True)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@output.json_option
@with_settings
def add(settings: Settings, email: str, role: str, password_stdin: bool, as_json: bool) -> None:
    """Add a user, or print an invitation link to choose a password.

    The link works once, for seven days. A password is never an argument: others could see it.
    """
    from postroom.services.accounts.users import Role

    if not password_stdin:
        token = call(settings, lambda s: s.access_links.invite(email, Role(role), operator()))
        _show_link(settings, token, as_json, f"Invitation for {email}, valid for seven days:")
        return
    password = sys.stdin.read().rstrip("\r\n")
    created = call(settings, lambda s: s.users.create(email, password, Role(role)))
    if as_json:
        output.print_json(describe_user(created))
    else:
        output.say(f"{created.email} can log in as {created.role}.")


@users.command()
@output.json_option
@with_settings
def ls(settings: Settings, as_json: bool) -> None:
    """Show all users, sorted by address."""
    found = call(settings, lambda s: s.users.all())
    if as_json:
        output.print_items(map(describe_user, found))
        return
    if not found:
        output.note("No users. Add one with: postroom user add EMAIL")
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
    """Remove a user and log them out. The last administrator cannot be removed."""
    output.confirm(f"Remove user {email}?", yes=yes)
    removed = call(settings, lambda s: s.user_removal.remove(email))
    if as_json:
        output.print_json({"email": removed.email, "removed": True})
    else:
        output.say(f"User {removed.email} removed.")


@users.command()
@click.argument("email")
@click.argument("role", type=_ROLE)
@output.json_option
@with_settings
def role(settings: Settings, email: str, role: str, as_json: bool) -> None:
    """Change the role of a user."""
    from postroom.services.accounts.users import Role

    saved = call(settings, lambda s: s.users.set_role(email, Role(role)))
    if as_json:
        output.print_json(describe_user(saved))
    else:
        output.say(f"{saved.email} is now {saved.role}.")


@users.command()
@click.argument("email")
@click.option("--second-factor", is_flag=True, help="Also turn off a second factor that was lost.")
@output.json_option
@with_settings
def reset(settings: Settings, email: str, second_factor: bool, as_json: bool) -> None:
    """Print a link to set a new password. It works once, for a day."""

    async def work(services: Services) -> str:
        if second_factor:
            await services.users.turn_off_second_factor(email)
        return await services.access_links.reset(email, operator())

    token = call(settings, work)
    _show_link(settings, token, as_json, f"Link for {email}, valid for a day:")


def _show_link(settings: Settings, token: str, as_json: bool, remark: str) -> None:
    from postroom.services.accounts.access_links import link_address

    address = link_address(settings.web.base_url, token)
    if as_json:
        output.print_json({"link": address})
        return
    output.note(remark)
    output.say(address)
