"""`postroom field`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import BUILT_IN, LONGEST_TEXT, Field, parse_value
from postroom.domain.audience.lists.lists import EVERY_LIST
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.languages import LANGUAGES
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


_TYPE: Final = click.Choice([each.value for each in FieldType])
_LABEL_HELP: Final = "What forms show, or de=TEXT for one language; can be repeated."
_DEFAULT_HELP: Final = "What emails show for subscribers without a value."
_CHOICE_HELP: Final = "A value of a choice; can be repeated."
_LENGTH_HELP: Final = "Maximum length of a text."


@fields.command()
@click.argument("list_name", metavar="LIST")
@click.argument("name")
@click.option(
    "--type",
    "kind",
    type=_TYPE,
    default=FieldType.TEXT.value,
    show_default=True,
    help="The type of its values.",
)
@click.option("--label", "labels", multiple=True, help=f"{_LABEL_HELP} Default: the name.")
@click.option("--required", is_flag=True, help="A new subscriber must have a value.")
@click.option("--public", is_flag=True, help="Subscribers see it and may change it.")
@click.option("--default", default="", help=_DEFAULT_HELP)
@click.option("--choice", "choices", multiple=True, help=_CHOICE_HELP)
@click.option("--max-length", default=LONGEST_TEXT, show_default=True, help=_LENGTH_HELP)
@output.json_option
@with_settings
def add(
    settings: Settings,
    list_name: str,
    name: str,
    kind: str,
    labels: tuple[str, ...],
    default: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Add a field to a list."""
    new = _with_default(Field(name, FieldType(kind), label=_label(labels), **options), default)
    added = call(settings, lambda s: s.field_changes.add(list_name, new))
    if as_json:
        output.print_json(describe_field(added))
    else:
        output.say(f"Field {name} added to {_shown(list_name)}.")


@fields.command()
@click.argument("list_name", metavar="LIST")
@click.argument("name")
@click.option("--type", "type", type=_TYPE, help="The type of its values.")
@click.option("--label", "labels", multiple=True, help=_LABEL_HELP)
@click.option("--required/--optional", default=None, help="A new subscriber must have a value.")
@click.option("--public/--private", default=None, help="Subscribers see it and may change it.")
@click.option("--default", help=f"{_DEFAULT_HELP} Empty: none.")
@click.option(
    "--choice", "choices", multiple=True, help=f"{_CHOICE_HELP} All choices are replaced."
)
@click.option("--max-length", type=int, help=_LENGTH_HELP)
@output.json_option
@with_settings
def edit(
    settings: Settings,
    list_name: str,
    name: str,
    labels: tuple[str, ...],
    default: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Change a field. Options that you omit stay as they are.

    Values that do not fit a new type are hidden. They reappear if you change it back.
    """
    changes = {each: value for each, value in options.items() if value not in (None, ())}
    if "type" in changes:
        changes["type"] = FieldType(changes["type"])
    if labels:
        changes["label"] = _label(labels)

    async def work(services: Services) -> Field:
        old = _found((await services.fields.get(list_name)).fields.own, name)
        new = msgspec.structs.replace(old, **changes)
        if default is not None:
            new = _with_default(new, default)
        return await services.field_changes.change(list_name, name, new, old)

    changed = call(settings, work)
    if as_json:
        output.print_json(describe_field(changed))
    else:
        output.say(f"Field {name} of {_shown(list_name)} changed.")


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
        after = "reappear with a field of the same name and type"
        after = "stay, because every list has this field" if name in BUILT_IN else after
        output.note(f"{shown} Values {after}.")
        output.confirm(f"Remove the field {name} of {_shown(list_name)}?", yes=yes)
    call(settings, lambda s: s.field_changes.remove(list_name, name))
    if as_json:
        output.print_json({"list": list_name, "removed": name})
    else:
        output.say(f"Field {name} removed from {_shown(list_name)}.")


async def _values_of(services: Services, list_name: str, name: str) -> ValueCount:
    """Count the values of a field. `NoSuch` list or field."""
    _found((await services.fields.get(list_name)).fields.own, name)
    return await services.field_changes.count_values(list_name, name, seconds=_COUNT_SECONDS)


def _found(fields: Sequence[Field], name: str) -> Field:
    for each in fields:
        if each.name == name:
            return each
    raise NoSuch("field", name)


def _label(given: Sequence[str]) -> str | dict[str, str]:
    """Return one label, or one per language; without a language, it is English."""
    by_language: dict[str, str] = {}
    for each in given:
        language, _, text = each.partition("=")
        is_named = language in LANGUAGES and text
        by_language |= {language: text} if is_named else {LANGUAGES[0]: each}
    is_one = by_language.keys() <= {LANGUAGES[0]}
    return by_language.get(LANGUAGES[0], "") if is_one else by_language


def _with_default(field: Field, text: str) -> Field:
    try:
        return msgspec.structs.replace(field, default=parse_value(field, text))
    except Invalid as exc:
        raise Invalid("default", exc.problem) from exc


def _shown(list_name: str) -> str:
    return "all lists" if list_name == EVERY_LIST else list_name
