"""`postroom settings`: each setting and its source, and those that are kept in the store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, operator, with_settings
from postroom.domain.errors import Invalid
from postroom.settings import SETTINGS, check_stored

if TYPE_CHECKING:
    from postroom.settings import Settings
    from postroom.wiring import Services


@click.group()
def settings() -> None:
    """Show settings, and change those that are kept in the store."""


@settings.command()
@output.json_option
@with_settings
def ls(found: Settings, as_json: bool) -> None:
    """Show each setting and its source.

    The source is an option, the environment, the file, the store, or the default."""
    from postroom.wiring import load_stored

    loaded = call(found, lambda services: load_stored(services, found))
    if as_json:
        output.print_items(
            (
                {"name": each.setting.name, "value": each.shown, "from": each.origin}
                for each in loaded.found.values()
            ),
            None,
        )
        return
    rows = [
        (each.setting.name, output.plain(each.shown), each.origin) for each in loaded.found.values()
    ]
    output.console().print(output.table(("setting", "value", "from"), rows))


@settings.command("set")
@click.argument("name")
@click.argument("value")
@with_settings
def set_(found: Settings, name: str, value: str) -> None:
    """Keep a setting in the store.

    All processes use it within seconds.

    If VALUE is "-", it is read from standard input, so that others cannot see a secret.
    Options, environment and file take precedence.
    """
    _check_name(name)
    text = sys.stdin.read() if value == "-" else value
    try:
        checked = check_stored(name, text)
    except Invalid as exc:
        raise click.UsageError(f"{name} {exc.problem}") from exc
    call(found, lambda services: _change(services, name, checked))
    output.say(f"Saved {name}.")
    _warn_if_fixed(found, name)


@settings.command()
@click.argument("name")
@with_settings
def reset(found: Settings, name: str) -> None:
    """Remove a setting from the store."""
    _check_name(name)
    call(found, lambda services: _change(services, name, None))
    output.say(f"Removed {name} from the store.")


def _check_name(name: str) -> None:
    if name not in {each.name for each in SETTINGS}:
        raise click.UsageError(f"there is no setting {name!r}: see `postroom settings ls`")


async def _change(services: Services, name: str, text: str | None) -> None:
    await services.stored_settings.change({name: text}, by=operator())


def _warn_if_fixed(found: Settings, name: str) -> None:
    if found.found[name].is_fixed:
        output.note(f"{found.found[name].origin} takes precedence here.")
