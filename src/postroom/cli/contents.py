"""`postroom table` and `blob`: a look into the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli import output
from postroom.cli.calling import call_store
from postroom.cli.running import with_settings

if TYPE_CHECKING:
    from postroom.settings import Settings


@click.group("table")
def tables() -> None:
    """Tables."""


@tables.command("ls")
@output.json_option
@with_settings
def list_tables(settings: Settings, as_json: bool) -> None:
    """Show the names of the tables."""
    found = call_store(settings, lambda store: store.tables())
    if as_json:
        output.print_json({"items": [{"name": name} for name in found], "next": None})
    else:
        output.print_or_none(("table",), [(name,) for name in found])


@click.group("blob")
def blobs() -> None:
    """Blobs, by container."""


@blobs.command("ls")
@click.argument("container", required=False)
@click.option("--prefix", default="", help="Only blobs whose names begin so.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1000))
@click.option("--after", help="Go on after an earlier answer.")
@output.json_option
@with_settings
def list_blobs(
    settings: Settings,
    container: str | None,
    prefix: str,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """Show the containers, or the blobs of one."""
    if container is None:
        names = call_store(settings, lambda store: store.containers())
        if as_json:
            output.print_json({"items": [{"name": name} for name in names], "next": None})
        else:
            output.print_or_none(("container",), [(name,) for name in names])
        return
    from postroom.services.shapes import of_moment

    found = call_store(
        settings, lambda store: store.container(container).list(prefix, limit=limit, after=after)
    )
    if as_json:
        items = [
            {"name": b.name, "size": b.size, "modified_at": of_moment(b.modified_at)}
            for b in found.blobs
        ]
        output.print_json({"items": items, "next": found.next})
        return
    rows = [(output.plain(b.name), f"{b.size:,}", output.when(b.modified_at)) for b in found.blobs]
    output.print_or_none(("blob", "#bytes", "written"), rows)
    output.more(found.next, f"postroom blob ls {container}")
