"""`postroom segment`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.audience import (
    describe_explanation,
    describe_preview,
    describe_segment,
)

if TYPE_CHECKING:
    from postroom.domain.audience.segments import Segment
    from postroom.settings import Settings


@click.group("segment")
def segments() -> None:
    """Manage segments: named rules that select subscribers."""


@segments.command()
@click.argument("list_name", metavar="LIST")
@click.argument("name")
@click.argument("rule")
@output.json_option
@with_settings
def create(settings: Settings, list_name: str, name: str, rule: str, as_json: bool) -> None:
    """Create a segment.

    For example: postroom segment create news berlin 'city = "Berlin"'"""
    created = call(settings, lambda s: s.segments.create(list_name, name, rule))
    _show(created, as_json, f"Segment {name} created.")


@segments.command()
@click.argument("list_name", metavar="LIST")
@output.page_options(limit=100)
@output.json_option
@with_settings
def ls(settings: Settings, list_name: str, limit: int, after: str | None, as_json: bool) -> None:
    """Show the segments of a list, sorted by name."""
    found = call(settings, lambda s: s.segments.slice(list_name, limit=limit, after=after))
    if as_json:
        output.print_items(map(describe_segment, found.segments), found.next)
        return
    if not found.segments:
        output.note(f"No segments. Create one with: postroom segment create {list_name} NAME RULE")
        return
    rows = [(each.name, output.plain(each.rule)) for each in found.segments]
    output.console().print(output.table(("segment", "rule"), rows))
    output.more(found.next, f"postroom segment ls {list_name}")


@segments.command()
@click.argument("list_name", metavar="LIST")
@click.argument("name")
@output.json_option
@with_settings
def show(settings: Settings, list_name: str, name: str, as_json: bool) -> None:
    """Show one segment."""
    _show(call(settings, lambda s: s.segments.get(list_name, name)), as_json, None)


@segments.command()
@click.argument("list_name", metavar="LIST")
@click.argument("name")
@click.argument("rule")
@output.json_option
@with_settings
def edit(settings: Settings, list_name: str, name: str, rule: str, as_json: bool) -> None:
    """Change the rule of a segment."""
    saved = call(settings, lambda s: s.segments.change(list_name, name, rule))
    _show(saved, as_json, f"Segment {name} saved.")


@segments.command()
@click.argument("list_name", metavar="LIST")
@click.argument("name")
@output.yes_option
@output.json_option
@with_settings
def delete(settings: Settings, list_name: str, name: str, yes: bool, as_json: bool) -> None:
    """Delete a segment. Its subscribers stay on the list."""
    output.confirm(f"Delete the segment {name} of {list_name}?", yes=yes)
    call(settings, lambda s: s.segments.remove(list_name, name))
    if as_json:
        output.print_json({"list": list_name, "deleted": name})
    else:
        output.say(f"Segment {name} deleted.")


@segments.command()
@click.argument("list_name", metavar="LIST")
@click.argument("rule")
@output.json_option
@with_settings
def preview(settings: Settings, list_name: str, rule: str, as_json: bool) -> None:
    """Count the subscribers that a rule selects, and show some of them."""
    found = call(settings, lambda s: s.segments.preview(list_name, rule))
    if as_json:
        output.print_json(describe_preview(found))
        return
    output.say(f"{output.counted(found.count, 'subscriber')} selected.")
    for each in found.sample:
        output.console().print(output.plain(f"  {each}"))
    if found.count > len(found.sample):
        output.note(f"and {found.count - len(found.sample):,} more")


@segments.command()
@click.argument("list_name", metavar="LIST")
@click.argument("name")
@click.argument("email")
@output.json_option
@with_settings
def explain(settings: Settings, list_name: str, name: str, email: str, as_json: bool) -> None:
    """Explain why a subscriber is or is not in a segment."""
    found = describe_explanation(
        call(settings, lambda s: s.segments.explain(list_name, name, email))
    )
    if as_json:
        output.print_json(found)
        return
    state = "is in" if found.matches else "is not in"
    output.say(f"{found.email} {state} the segment {name}:")
    for each in found.reasons:
        sign = "✓" if each.holds else "✗"
        value = "" if each.value is None else f" ({each.value or 'empty'})"
        line = f"{'  ' * (each.depth + 1)}{sign} {each.text}{value}"
        output.console().print(output.plain(line))


def _show(segment: Segment, as_json: bool, news: str | None) -> None:
    if as_json:
        output.print_json(describe_segment(segment))
        return
    if news is not None:
        output.say(news)
    output.console().print(
        output.details(
            {
                "segment": segment.name,
                "list": segment.list_name,
                "rule": output.plain(segment.rule),
            }
        )
    )
