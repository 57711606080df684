"""`postroom field`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import LONGEST_TEXT, Field
from postroom.domain.audience.lists import EVERY_LIST
from postroom.domain.errors import NoSuch
from postroom.services.resources.audience import describe_field

_COUNT_SECONDS: Final = 60.0

if TYPE_CHECKING:
    from postroom.services.audience.fields.field_changes import ValueCount
    from postroom.settings import Settings
    from postroom.wiring import Services


@click.group("field")
def fields() -> None:
    """Manage the fields of a list.

    '*' as LIST stands for all lists: its fields apply to each of them.
    """


@fields.command()
@click.argument("list_name", metavar="LIST")
@output.json_option
@with_settings
def ls(settings: Settings, list_name: str, as_json: bool) -> None:
    """Show the fields that a list declares."""
    declared = call(settings, lambda s: s.fields.get(list_name)).fields.own
    if as_json:
        output.print_items(map(describe_field, declared))
        return
    if not declared:
        argument = shlex.quote(list_name)
        output.note(f"No fields. Add one with: postroom field add {argument} NAME")
        return
    rows = [
        (
            each.name,
            each.type.value,
            output.plain(each.shown_label),
            output.yes_or_no(each.required),
            output.yes_or_no(each.public),
            output.plain(", ".join(each.choices)),
        )
        for each in declared
    ]
    headings = ("field", "type", "label", "required", "public", "choices")
    output.console().print(output.table(headings, rows))


@fields.command()
@click.argument("list_name", metavar="LIST")
@click.argument("name")
@click.option(
    "--type",
    "kind",
    type=click.Choice([each.value for each in FieldType]),
    default=FieldType.TEXT.value,
    show_default=True,
    help="The type of its values.",
)
@click.option("--label", default="", help="What forms show. Default: derived from the name.")
@click.option("--required", is_flag=True, help="A new subscriber must have a value.")
@click.option("--public", is_flag=True, help="Subscribers see it and may change it.")
@click.option("--default", help="What emails show for subscribers without a value.")
@click.option("--choice", "choices", multiple=True, help="A value of a choice. Repeatable.")
@click.option(
    "--max-length", default=LONGEST_TEXT, show_default=True, help="Maximum length of a text."
)
@output.json_option
@with_settings
def add(
    settings: Settings, list_name: str, name: str, kind: str, as_json: bool, **options: Any
) -> None:
    """Add a field to a list."""
    new = Field(name, FieldType(kind), **options)
    added = call(settings, lambda s: s.field_changes.add(list_name, new))
    if as_json:
        output.print_json(describe_field(added))
    else:
        output.say(f"Field {name} added to {_shown(list_name)}.")


@fields.command()
@click.argument("list_name", metavar="LIST")
@click.argument("name")
@click.argument("new_name")
@output.json_option
@with_settings
def rename(settings: Settings, list_name: str, name: str, new_name: str, as_json: bool) -> None:
    """Rename a field, with its values and in the rules of segments.

    The scheduler finishes an interrupted rename. Merge fields in messages stay as they are:
    change them yourself.
    """

    async def work(services: Services) -> tuple[Field, int | None]:
        renamed = await services.field_changes.rename(list_name, name, new_name)
        return renamed, await services.field_changes.finish_rename(list_name)

    renamed, count = call(settings, work)
    if as_json:
        output.print_json(describe_field(renamed))
    else:
        values = "with its values" if count is None else f"with {output.counted(count, 'value')}"
        output.say(f"Field {name} of {_shown(list_name)} renamed to {new_name}, {values}.")
        if count is None:
            output.say("A message is being prepared; the values are renamed afterwards.")


@fields.command()
@click.argument("list_name", metavar="LIST")
@click.argument("name")
@output.yes_option
@output.json_option
@with_settings
def remove(settings: Settings, list_name: str, name: str, yes: bool, as_json: bool) -> None:
    """Remove a field from a list. Its values are hidden, and reappear with it.

    Asks first, and says how many subscribers have a value.
    """
    if not yes:
        found = call(settings, lambda s: _values_of(s, list_name, name))
        have = "has" if found.count == 1 else "have"
        people = f"{output.counted(found.count, 'subscriber')} {have} a value."
        shown = people if found.is_exact else f"More than {people}"
        output.note(f"{shown} Values reappear with a field of the same name and type.")
        output.confirm(f"Remove the field {name} of {_shown(list_name)}?", yes=yes)
    call(settings, lambda s: s.field_changes.remove(list_name, name))
    if as_json:
        output.print_json({"list": list_name, "removed": name})
    else:
        output.say(f"Field {name} removed from {_shown(list_name)}.")


async def _values_of(services: Services, list_name: str, name: str) -> ValueCount:
    """Count the values of a field. `NoSuch` list or field."""
    declared = (await services.fields.get(list_name)).fields.own
    if all(each.name != name for each in declared):
        raise NoSuch("field", name)
    return await services.field_changes.count_values(list_name, name, seconds=_COUNT_SECONDS)


def _shown(list_name: str) -> str:
    return "all lists" if list_name == EVERY_LIST else list_name
