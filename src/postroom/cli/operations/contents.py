"""`postroom table` and `blob`: a look into the store."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.calling import call, call_store
from postroom.cli.support.files import STANDARD, written
from postroom.cli.support.running import with_settings
from postroom.services.resources import describe_time
from postroom.services.resources.operations import describe_row

if TYPE_CHECKING:
    from rich.text import Text

    from postroom.settings import Settings
    from postroom.storage import Entity, QueryResult
    from postroom.wiring import Services


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
        output.print_items([{"name": name} for name in found])
    else:
        output.print_or_none(("table",), [(name,) for name in found])


@tables.command("show")
@click.argument("table")
@click.option("--partition", help="Only this one.")
@click.option("--row", help="Only this one, of the partition.")
@output.page_options(limit=100)
@output.json_option
@with_settings
def show_table(
    settings: Settings,
    table: str,
    partition: str | None,
    row: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """Show rows of a table, in the order of their keys.

    A table that may hold secrets, such as users, is not shown.
    """
    from postroom.storage import QueryResult

    if row is not None and partition is None:
        raise click.UsageError("--row needs --partition")

    async def look(services: Services) -> QueryResult:
        if partition is not None and row is not None:
            return QueryResult([await services.explorer.entity(table, partition, row)], None)
        return await services.explorer.rows(table, partition, limit=limit, after=after)

    found = call(settings, look)
    if as_json:
        items = list(map(describe_row, found.entities))
        output.print_items(items, found.next)
        return
    rows = [
        (output.plain(each.partition), output.plain(each.row), _properties(each))
        for each in found.entities
    ]
    output.print_or_none(("partition", "row", "properties"), rows)
    chosen = "" if partition is None else f" --partition {shlex.quote(partition)}"
    output.more(found.next, f"postroom table show {table}{chosen}")


def _properties(entity: Entity) -> Text:
    from rich.text import Text

    from postroom.services.typed_values import shown

    lines = (f"{name} = {shown(value)}" for name, value in entity.properties.items())
    return Text("\n").join(map(output.plain, lines))


@click.group("blob")
def blobs() -> None:
    """Blobs, by container."""


@blobs.command("ls")
@click.argument("container", required=False)
@click.option("--prefix", default="", help="Only blobs whose names begin so.")
@output.page_options(limit=100)
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
            output.print_items([{"name": name} for name in names])
        else:
            output.print_or_none(("container",), [(name,) for name in names])
        return
    found = call_store(
        settings, lambda store: store.container(container).list(prefix, limit=limit, after=after)
    )
    if as_json:
        items = [
            {"name": b.name, "size": b.size, "modified_at": describe_time(b.modified_at)}
            for b in found.blobs
        ]
        output.print_items(items, found.next)
        return
    rows = [(output.plain(b.name), f"{b.size:,}", output.when(b.modified_at)) for b in found.blobs]
    output.print_or_none(("blob", "#bytes", "written"), rows)
    output.more(found.next, f"postroom blob ls {container}")


@blobs.command("get")
@click.argument("container")
@click.argument("name")
@click.option(
    "--output",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    default=STANDARD,
    help="Write it there, not to standard output.",
)
@with_settings
def get_blob(settings: Settings, container: str, name: str, target: str) -> None:
    """Write the bytes of a blob, however many, to standard output or into a file."""

    async def work(services: Services) -> int:
        size = (await services.explorer.blob(container, name)).size
        with written(target) as file:
            async for piece in services.explorer.content(container, name):
                file.write(piece)
        return size

    size = call(settings, work)
    if target != STANDARD:
        output.say(f"{size:,} bytes of {name} are in {target}.")
