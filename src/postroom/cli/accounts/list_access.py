"""`postroom access`: rights on individual lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.accounts import describe_grant

if TYPE_CHECKING:
    from postroom.services.accounts.list_grants import ListGrant
    from postroom.settings import Settings
    from postroom.wiring import Services

_RIGHTS = ("view", "edit", "send", "manage")


@click.group("access")
def access() -> None:
    """Grant rights on individual lists to users, groups and API keys.

    WHO is a user's address, group:NAME or key:ID. Each right includes view. Roles give rights on
    every list: viewer (view), writer (view, edit), editor and administrator (all). A member, and a
    key that is limited to selected lists, have only what is granted here.
    """


@access.command()
@click.option("--list", "list_name", help="Only rights on this list.")
@output.json_option
@with_settings
def ls(settings: Settings, list_name: str | None, as_json: bool) -> None:
    """Show who was granted which rights. Rights that a role gives are not listed."""

    async def work(services: Services) -> list[ListGrant]:
        grants = services.list_grants
        if list_name is None:
            return await grants.all()
        return await grants.on((await services.lists.get(list_name)).name)

    found = call(settings, work)
    if as_json:
        output.print_items(map(describe_grant, found))
        return
    if not found:
        output.note("No rights on individual lists. Grant some with: postroom access grant")
        return
    rows = [
        (output.plain(each.principal), each.list_name, ", ".join(describe_grant(each).rights))
        for each in found
    ]
    output.console().print(output.table(("who", "list", "rights"), rows))


@access.command()
@click.argument("who")
@click.argument("list_name", metavar="LIST")
@click.argument("rights", nargs=-1, required=True, type=click.Choice(_RIGHTS))
@output.json_option
@with_settings
def grant(
    settings: Settings, who: str, list_name: str, rights: tuple[str, ...], as_json: bool
) -> None:
    """Set the rights on a list. They replace those that were granted before."""
    found = call(settings, lambda s: _set(s, who, list_name, rights))
    if as_json:
        output.print_json(describe_grant(found))
    else:
        shown = ", ".join(describe_grant(found).rights)
        output.say(f"{found.principal} on {found.list_name}: {shown}.")


@access.command()
@click.argument("who")
@click.argument("list_name", metavar="LIST")
@with_settings
def revoke(settings: Settings, who: str, list_name: str) -> None:
    """Take away all rights on a list. Rights that a role gives remain."""
    found = call(settings, lambda s: _set(s, who, list_name, ()))
    output.say(f"{found.principal} no longer has individual rights on {found.list_name}.")


async def _set(services: Services, who: str, list_name: str, rights: tuple[str, ...]) -> ListGrant:
    from postroom.domain.audience.lists.list_rights import parse_rights
    from postroom.services.accounts.list_grants import ListGrant

    keys = frozenset(each.principal for each in await services.keys.all())
    principal = await services.list_access.find_principal(who, keys)
    name = (await services.lists.get(list_name)).name
    wanted = parse_rights(rights)
    await services.list_grants.set(principal, name, wanted)
    return ListGrant(principal, name, wanted)
