"""`postroom queue access`: who may do what with which queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.calling import call
from postroom.cli.support.running import with_settings
from postroom.services.resources.queues import describe_access_rule

if TYPE_CHECKING:
    from postroom.settings import Settings

_RIGHTS = click.Choice(["send", "peek", "receive", "manage"])


@click.group()
def access() -> None:
    """Rights on queues, of applications (app:/path) and API keys (key:ID).

    Whatever no rule denies is allowed. A rule holds for all queues below its path; / is all.
    """


@access.command()
@output.json_option
@with_settings
def ls(settings: Settings, as_json: bool) -> None:
    """Show the rules."""
    found = call(settings, lambda s: s.access.rules())
    if as_json:
        output.print_items(map(describe_access_rule, found))
        return
    rows = [
        (
            output.plain(rule.principal),
            rule.effect.value,
            rule.right.value,
            output.plain(rule.queues),
        )
        for rule in found
    ]
    output.print_or_none(("who", "rule", "right", "queues"), rows)


@access.command()
@click.argument("principal")
@click.argument("right", type=_RIGHTS)
@click.argument("queues")
@with_settings
def allow(settings: Settings, principal: str, right: str, queues: str) -> None:
    """Give a right back that a rule for the same queues denied."""
    call(settings, lambda s: s.access.set_rule(principal, right, queues, "allow"))
    output.say(f"{principal} may {right}: {queues}.")


@access.command()
@click.argument("principal")
@click.argument("right", type=_RIGHTS)
@click.argument("queues")
@with_settings
def deny(settings: Settings, principal: str, right: str, queues: str) -> None:
    """Take a right away. A rule that denies wins over all others."""
    call(settings, lambda s: s.access.set_rule(principal, right, queues, "deny"))
    output.say(f"{principal} may no longer {right}: {queues}.")


@access.command()
@click.argument("principal")
@click.argument("right", type=_RIGHTS)
@click.argument("queues")
@with_settings
def remove(settings: Settings, principal: str, right: str, queues: str) -> None:
    """Remove a rule."""
    call(settings, lambda s: s.access.remove_rule(principal, right, queues))
    output.say("The rule is removed.")
