"""`postroom queue`: look into queues, send, bring back, and who may."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from postroom.cli.queues.queue_access import access
from postroom.cli.support import output
from postroom.cli.support.calling import call
from postroom.cli.support.durations import DURATION
from postroom.cli.support.pairs import read_pairs
from postroom.cli.support.running import with_settings
from postroom.services.resources.queues import (
    describe_attempt,
    describe_queue,
    describe_queue_message,
)

if TYPE_CHECKING:
    from postroom.settings import Settings
    from postroom.wiring import Services

_LONGEST_BODY = 200


@click.group("queue")
def queues() -> None:
    """Queues and what waits in them."""


queues.add_command(access)


@queues.command("ls")
@output.json_option
@with_settings
def list_queues(settings: Settings, as_json: bool) -> None:
    """Show the queues: what waits in each and in its subqueues, for how long, and for whom."""
    found = call(settings, lambda s: s.queue_overview.overview())
    if as_json:
        output.print_items(map(describe_queue, found))
        return
    rows = [
        (
            output.plain(queue.name),
            f"{queue.length:,}",
            output.ago(queue.oldest),
            f"{queue.retry:,}",
            f"{queue.poison:,}",
            f"{queue.dead_letter:,}",
            output.plain(queue.app or ""),
            output.state(queue.state),
        )
        for queue in found
    ]
    headings = ("queue", "#messages", "oldest waits for", "#retry", "#poison", "#dead letters")
    output.print_or_none((*headings, "application", "state"), rows)


@queues.command()
@click.argument("queue")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 32))
@output.json_option
@with_settings
def peek(settings: Settings, queue: str, limit: int, as_json: bool) -> None:
    """Show the next messages of a queue without touching them."""
    found = call(settings, lambda s: s.queues.peek(queue, limit))
    if as_json:
        output.print_items(map(describe_queue_message, found))
        return
    rows = [
        (
            message.id,
            output.when(message.enqueued_at),
            f"{message.dequeue_count}",
            output.plain(message.body[:_LONGEST_BODY]),
        )
        for message in found
    ]
    output.print_or_none(("id", "put", "#received", "body"), rows)


@queues.command()
@click.argument("queue")
@click.argument("body")
@click.option("--delay", type=DURATION, default="0s", help="It can be received only then.")
@click.option("--ttl", type=DURATION, help="After that it is a dead letter, not delivered.")
@click.option(
    "--property", "pairs", multiple=True, metavar="NAME=VALUE", help="Travels with it; repeatable."
)
@output.json_option
@with_settings
def put(
    settings: Settings,
    queue: str,
    body: str,
    delay: timedelta,
    ttl: timedelta | None,
    pairs: Sequence[str],
    as_json: bool,
) -> None:
    """Put a message into a queue."""
    properties = read_pairs(pairs, "--property")
    lifetime = None if ttl is None else ttl.total_seconds()
    made = call(
        settings,
        lambda s: s.queues.put(
            queue, body, delay=delay.total_seconds(), ttl=lifetime, properties=properties
        ),
    )
    if as_json:
        output.print_json({"id": made, "queue": queue})
    else:
        output.say(f"Put into {queue} as {made}.")


@queues.command()
@click.argument("queue")
@click.option("--id", "identity", help="Only this message, as peek shows its id.")
@click.option("--rate", type=float, metavar="N", help="Messages per second at most.")
@click.option(
    "--from",
    "source",
    metavar="QUEUE",
    help="The dead-letter queue that the sender named, if QUEUE rejected its messages to it.",
)
@output.json_option
@with_settings
def redrive(
    settings: Settings,
    queue: str,
    identity: str | None,
    rate: float | None,
    source: str | None,
    as_json: bool,
) -> None:
    """Bring poison messages back to their queue, and reset their attempts.

    A queue that is stopped continues. Name the queue itself, its ;poison or its ;dead-letter.
    Messages that were rejected to a queue that their sender named come back with --from.
    """
    moved = call(settings, lambda s: s.queues.redrive(queue, id=identity, rate=rate, source=source))
    if as_json:
        output.print_json({"queue": queue, "redriven": moved})
    else:
        output.say(f"{moved:,} {'message is' if moved == 1 else 'messages are'} back.")


@queues.command()
@click.argument("queue")
@click.argument("identity", metavar="ID")
@output.yes_option
@with_settings
def delete(settings: Settings, queue: str, identity: str, yes: bool) -> None:
    """Remove one message of a queue, with its history."""
    output.confirm(f"Remove the message {identity} of the queue {queue}?", yes=yes)
    call(settings, lambda s: s.queues.delete_message(queue, identity))
    output.say(f"The message {identity} is removed.")


@queues.command()
@click.argument("queue")
@output.yes_option
@with_settings
def purge(settings: Settings, queue: str, yes: bool) -> None:
    """Remove all messages of a queue, also those that somebody has in hand."""
    output.confirm(f"Remove all messages of the queue {queue}?", yes=yes)
    call(settings, lambda s: s.queues.purge(queue))
    output.say(f"The queue {queue} is empty.")


@queues.command()
@click.argument("identity", metavar="ID")
@output.json_option
@with_settings
def history(settings: Settings, identity: str, as_json: bool) -> None:
    """Show what happened to a message: each failed attempt, and where it went."""
    found = call(settings, lambda s: s.queues.history(identity))
    if as_json:
        output.print_items(map(describe_attempt, found))
        return
    rows = [
        (
            output.when(entry.time),
            output.plain(entry.queue),
            f"{entry.cycle}",
            f"{entry.attempt or ''}",
            output.plain(entry.process),
            output.plain(entry.event or entry.error),
        )
        for entry in found
    ]
    output.print_or_none(("time", "queue", "#cycle", "#attempt", "process", "what"), rows)


@queues.command()
@click.argument("queue")
@click.option("--reason", default="stopped by hand", show_default=True)
@with_settings
def fault(settings: Settings, queue: str, reason: str) -> None:
    """Stop a queue: its messages stay, until `queue clear` or `queue redrive`."""
    call(settings, lambda s: s.queues.fault(queue, reason))
    output.say(f"The queue {queue} is stopped.")


@queues.command()
@click.argument("queue")
@with_settings
def clear(settings: Settings, queue: str) -> None:
    """Let a stopped queue go on."""

    async def work(services: Services) -> bool:
        return await services.queues.clear_fault(queue)

    was_stopped = call(settings, work)
    output.say(f"The queue {queue} {'goes on' if was_stopped else 'was not stopped'}.")
