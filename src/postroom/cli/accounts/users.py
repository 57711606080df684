"""`postroom user`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, operator, with_settings
from postroom.services.resources.accounts import describe_user

if TYPE_CHECKING:
    from postroom.services.accounts.access_links import LinkKind
    from postroom.settings import Settings
    from postroom.wiring import Services

_ROLE = click.Choice(["member", "viewer", "writer", "editor", "administrator"])
_SEND = click.option("--send", is_flag=True, help="Also send the link by email.")


@click.group("user")
def users() -> None:
    """Manage who can log in."""


@users.command()
@click.argument("email")
@click.option("--role", type=_ROLE, default="editor", show_default=True)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@_SEND
@output.json_option
@with_settings
def add(
    settings: Settings, email: str, role: str, password_stdin: bool, send: bool, as_json: bool
) -> None:
    """Add a user, or print an invitation link.

    The link works once, for seven days. A password is never an argument: others could see it.
    """
    from postroom.services.accounts.access_links import LinkKind
    from postroom.services.accounts.users import Role

    if send and password_stdin:
        raise click.UsageError("give --send or --password-stdin, not both")
    if not password_stdin:
        link = _Link(LinkKind.INVITATION, email, f"Invitation for {email}, valid for seven days:")
        _make_link(
            settings,
            link,
            lambda s: s.access_links.invite(email, Role(role), operator()),
            send=send,
            as_json=as_json,
        )
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
@_SEND
@output.json_option
@with_settings
def reset(settings: Settings, email: str, second_factor: bool, send: bool, as_json: bool) -> None:
    """Print a link to set a new password. It works once, for a day."""
    from postroom.services.accounts.access_links import LinkKind

    async def work(services: Services) -> str:
        if second_factor:
            await services.users.turn_off_second_factor(email)
        return await services.access_links.reset(email, operator())

    link = _Link(LinkKind.RESET, email, f"Link for {email}, valid for a day:")
    _make_link(settings, link, work, send=send, as_json=as_json)


class _Link(NamedTuple):
    kind: LinkKind
    email: str
    remark: str


def _make_link(
    settings: Settings,
    link: _Link,
    make: Callable[[Services], Awaitable[str]],
    *,
    send: bool,
    as_json: bool,
) -> None:
    """Make an access link, send it if requested, and print it: the email may not arrive."""
    from postroom.access_mail import LinkNotSent, send_link, sends_links
    from postroom.errors import PostroomError
    from postroom.services.accounts.access_links import link_address
    from postroom.wiring import load_stored

    async def work(services: Services) -> tuple[str, str]:
        found = await load_stored(services, settings)
        if send and not sends_links(found):
            raise click.UsageError("--send needs a mail server: set transport to smtp://… first")
        url = link_address(found.web.base_url, await make(services))
        try:
            if send:
                await send_link(services, found, link.kind, link.email, url)
        except PostroomError as exc:
            return url, str(exc)
        return url, ""

    url, problem = call(settings, work)
    if as_json:
        output.print_json({"link": url, "sent": send and not problem})
    else:
        output.note(link.remark)
        output.say(url)
        if send and not problem:
            output.note(f"Sent to {link.email}.")
    if problem:
        raise LinkNotSent(f"the link could not be sent to {link.email}: {problem}")
