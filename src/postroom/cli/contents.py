"""`postroom queue`, `table` and `blob`: a look into the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from postroom.cli import output
from postroom.cli.calling import call_store
from postroom.cli.running import with_settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from postroom.settings import Settings

_LONGEST_BODY = 200


@click.group("queue")
def queues() -> None:
    """Queues and what waits in them."""


@queues.command("ls")
@output.json_option
@with_settings
def list_queues(settings: Settings, as_json: bool) -> None:
    """Show the queues: how many messages wait, and how long the next one has been waiting."""
    from postroom.services.shapes import of_moment

    found = call_store(settings, lambda store: store.queues())
    if as_json:
        items = [{"name": q.name, "length": q.length, "oldest": of_moment(q.oldest)} for q in found]
        output.print_json({"items": items, "next": None})
        return
    rows = [(output.plain(q.name), f"{q.length:,}", output.ago(q.oldest)) for q in found]
    _print_or_none(("queue", "#messages", "oldest waits for"), rows)


@queues.command()
@click.argument("queue")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 32))
@output.json_option
@with_settings
def peek(settings: Settings, queue: str, limit: int, as_json: bool) -> None:
    """Show the next messages of a queue without touching them."""
    from postroom.services.shapes import of_moment

    found = call_store(settings, lambda store: store.queue(queue).peek(limit))
    if as_json:
        items = [
            {
                "id": each.id,
                "body": each.body,
                "properties": dict(each.properties),
                "dequeue_count": each.dequeue_count,
                "enqueued_at": of_moment(each.enqueued_at),
            }
            for each in found
        ]
        output.print_json({"items": items, "next": None})
        return
    rows = [
        (output.when(m.enqueued_at), f"{m.dequeue_count}", output.plain(m.body[:_LONGEST_BODY]))
        for m in found
    ]
    _print_or_none(("put", "#received", "body"), rows)


@queues.command()
@click.argument("queue")
@click.argument("body")
@click.option("--delay", default=0.0, metavar="SECONDS", help="It can be received only then.")
@output.json_option
@with_settings
def put(settings: Settings, queue: str, body: str, delay: float, as_json: bool) -> None:
    """Put a message into a queue."""
    made = call_store(settings, lambda store: store.queue(queue).put(body, delay=delay))
    if as_json:
        output.print_json({"id": made, "queue": queue})
    else:
        output.say(f"Put into {queue} as {made}.")


@queues.command()
@click.argument("queue")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_settings
def purge(settings: Settings, queue: str, yes: bool) -> None:
    """Remove all messages of a queue, also those that somebody has in hand."""
    output.confirm(f"Remove all messages of the queue {queue}?", yes=yes)
    call_store(settings, lambda store: store.queue(queue).purge())
    output.say(f"The queue {queue} is empty.")


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
        _print_or_none(("table",), [(name,) for name in found])


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
            _print_or_none(("container",), [(name,) for name in names])
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
    _print_or_none(("blob", "#bytes", "written"), rows)
    output.more(found.next, f"postroom blob ls {container}")


def _print_or_none(headings: tuple[str, ...], rows: Sequence[tuple[RenderableType, ...]]) -> None:
    if rows:
        output.console().print(output.table(headings, rows))
    else:
        output.note("There are none.")
