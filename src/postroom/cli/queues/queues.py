"""`postroom queue`: inspect queues, put, redrive, and access rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import DURATION, call, read_pairs, with_settings
from postroom.services.resources.queues import (
    describe_access_rule,
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
    """Inspect queues, and manage access to them."""


@queues.command("ls")
@output.json_option
@with_settings
def list_queues(settings: Settings, as_json: bool) -> None:
    """Show all queues, and which applications handle them.

    Also how many messages are waiting, and since when."""
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
    headings = ("queue", "#messages", "oldest waiting", "#retry", "#poison", "#dead letters")
    output.print_or_none((*headings, "application", "state"), rows)


@queues.command()
@click.argument("queue")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 32))
@output.json_option
@with_settings
def peek(settings: Settings, queue: str, limit: int, as_json: bool) -> None:
    """Show the next messages of a queue without receiving them."""
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
@click.option("--delay", type=DURATION, default="0s", help="Time until it can be received.")
@click.option("--ttl", type=DURATION, help="Time until it expires and becomes a dead letter.")
@click.option(
    "--property",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property; can be repeated.",
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
    message_id = call(
        settings,
        lambda s: s.queues.put(
            queue, body, delay=delay.total_seconds(), ttl=lifetime, properties=properties
        ),
    )
    if as_json:
        output.print_json({"id": message_id, "queue": queue})
    else:
        output.say(f"Message {message_id} put into {queue}.")


@queues.command()
@click.argument("queue")
@click.option("--id", "identity", help="Only this message; `peek` shows IDs.")
@click.option("--rate", type=float, metavar="N", help="Messages per second at most.")
@click.option(
    "--from",
    "source",
    metavar="QUEUE",
    help="The sender's own dead-letter queue, if QUEUE rejected its messages into it.",
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
    """Move poison messages back to their queue, and reset their attempts.

    A stopped queue resumes. QUEUE is the queue itself, its ;poison or its ;dead-letter. Use --from
    for messages that were rejected into their sender's own dead-letter queue.
    """
    moved = call(settings, lambda s: s.queues.redrive(queue, id=identity, rate=rate, source=source))
    if as_json:
        output.print_json({"queue": queue, "redriven": moved})
    else:
        output.say(f"{output.counted(moved, 'message')} moved back.")


@queues.command()
@click.argument("queue")
@click.argument("identity", metavar="ID")
@output.yes_option
@output.json_option
@with_settings
def delete(settings: Settings, queue: str, identity: str, yes: bool, as_json: bool) -> None:
    """Delete one message of a queue, with its history."""
    output.confirm(f"Delete message {identity} of queue {queue}?", yes=yes)
    call(settings, lambda s: s.queues.delete_message(queue, identity))
    if as_json:
        output.print_json({"queue": queue, "id": identity, "deleted": True})
    else:
        output.say(f"Message {identity} deleted.")


@queues.command()
@click.argument("queue")
@output.yes_option
@output.json_option
@with_settings
def purge(settings: Settings, queue: str, yes: bool, as_json: bool) -> None:
    """Delete all messages of a queue, including those in progress."""
    output.confirm(f"Delete all messages of queue {queue}?", yes=yes)
    call(settings, lambda s: s.queues.purge(queue))
    if as_json:
        output.print_json({"queue": queue, "purged": True})
    else:
        output.say(f"Queue {queue} purged.")


@queues.command()
@click.argument("identity", metavar="ID")
@output.json_option
@with_settings
def history(settings: Settings, identity: str, as_json: bool) -> None:
    """Show the failed attempts of a message, and its moves."""
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
    output.print_or_none(("time", "queue", "#cycle", "#attempt", "process", "event"), rows)


@queues.command()
@click.argument("queue")
@click.option("--reason", default="stopped manually", show_default=True)
@with_settings
def fault(settings: Settings, queue: str, reason: str) -> None:
    """Stop a queue. Its messages wait until `queue clear` or `queue redrive`."""
    call(settings, lambda s: s.queues.fault(queue, reason))
    output.say(f"Queue {queue} stopped.")


@queues.command()
@click.argument("queue")
@with_settings
def clear(settings: Settings, queue: str) -> None:
    """Resume a stopped queue."""

    async def work(services: Services) -> bool:
        return await services.queues.clear_fault(queue)

    was_stopped = call(settings, work)
    output.say(f"Queue {queue} {'resumed' if was_stopped else 'was not stopped'}.")


_RIGHTS = click.Choice(["send", "peek", "receive", "manage"])


@queues.group()
def access() -> None:
    """Manage which applications and API keys may use queues.

    Applications are written app:/path, API keys key:ID.

    What no rule denies is allowed. A rule applies to all queues below its path; / means all queues.
    """


@access.command()
@output.json_option
@with_settings
def ls(settings: Settings, as_json: bool) -> None:
    """Show the access rules."""
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
    """Allow again what a rule for the same queues denied."""
    call(settings, lambda s: s.access.set_rule(principal, right, queues, "allow"))
    output.say(f"{principal} may {right} in {queues}.")


@access.command()
@click.argument("principal")
@click.argument("right", type=_RIGHTS)
@click.argument("queues")
@with_settings
def deny(settings: Settings, principal: str, right: str, queues: str) -> None:
    """Deny a right. A denying rule takes precedence over all others."""
    call(settings, lambda s: s.access.set_rule(principal, right, queues, "deny"))
    output.say(f"{principal} may no longer {right} in {queues}.")


@access.command()
@click.argument("principal")
@click.argument("right", type=_RIGHTS)
@click.argument("queues")
@with_settings
def remove(settings: Settings, principal: str, right: str, queues: str) -> None:
    """Remove an access rule."""
    call(settings, lambda s: s.access.remove_rule(principal, right, queues))
    output.say("Rule removed.")
