"""`postroom message`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from postroom.cli.messages.bodies import BODY_FILE, read_bodies
from postroom.cli.messages.emails import decide, email, emails
from postroom.cli.messages.progress import look, show_message, watch_message
from postroom.cli.messages.retries import retry, test, try_now
from postroom.cli.support import output
from postroom.cli.support.calling import call, place_of_store
from postroom.cli.support.running import with_settings
from postroom.services.resources.messages import (
    describe_message_summary,
    describe_scheduled_message,
)

if TYPE_CHECKING:
    from postroom.domain.messages.messages import Message
    from postroom.services.messages.message_rows import MessagePage
    from postroom.services.messages.message_times import NewestMessages
    from postroom.services.messages.progress import SendingState
    from postroom.settings import Settings
    from postroom.wiring import Services


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Read `now`, or ISO 8601; a time without a zone is in the local one."""
    from postroom.domain.local_times import is_skipped

    if value is None:
        return None
    if value == "now":
        return datetime.now(UTC)
    try:
        written = datetime.fromisoformat(value)
        skipped = written.tzinfo is None and is_skipped(written)
        moment = written.astimezone(UTC)  # without a zone, it is taken as this machine's
    except (ValueError, OverflowError) as exc:
        raise click.BadParameter(
            f"{value!r} is no time: write 2026-11-15T09:00+01:00, 2026-11-15T09:00 or now"
        ) from exc
    if skipped:
        raise click.BadParameter(
            f"{value} does not exist in this machine's time zone: clocks are put forward then."
            " Choose another time, or add a zone, as in 2026-11-15T09:00+01:00."
        )
    return moment


@click.group("message")
def messages() -> None:
    """Schedule messages and see what becomes of them."""


for command in (emails, email, decide, retry, test, try_now):
    messages.add_command(command)


@messages.command()
@click.argument("list_name", metavar="LIST")
@click.option("--subject", required=True)
@click.option("--html", type=BODY_FILE, help="The HTML body, a .htm file.")
@click.option(
    "--text", type=BODY_FILE, help="The text body, a .txt file. Without it: made of the HTML."
)
@click.option(
    "--at",
    metavar="TIME",
    callback=_moment,
    default="now",
    show_default=True,
    help="When it goes out, in ISO 8601.",
)
@output.json_option
@with_settings
def create(
    settings: Settings,
    list_name: str,
    subject: str,
    html: str | None,
    text: str | None,
    at: datetime,
    as_json: bool,
) -> None:
    """Schedule a message to all verified subscribers of a list.

    Bodies and subject may hold the merge fields {{email}} and {{list_description}}, bodies also
    {{unsubscribe_url}}; without it the link is added at the end. A time that has passed means
    now; a time without a zone is a local one.
    """
    from postroom.domain.messages.emails import Counts
    from postroom.domain.messages.messages import has_passed
    from postroom.services.messages.progress import SendingState

    asked_at = datetime.now(UTC)

    async def work(services: Services) -> Message:
        await services.lists.get(list_name)  # before large files are read
        bodies = read_bodies(html, text)
        return await services.messages.create(list_name, subject, bodies, at)

    made = call(settings, work)
    passed = has_passed(at, asked_at)
    if as_json:
        output.print_json(
            describe_scheduled_message(made, SendingState(Counts()), has_passed=passed)
        )
        return
    output.say(f"The message {made.ref} is scheduled.")
    if passed:
        output.say(f"{output.when(at)} has passed: it is sent now.")
    show_message(made, SendingState(Counts()), as_json)


@messages.command()
@click.option("--done", is_flag=True, help="Those that are completed or cancelled.")
@output.page_options(limit=100)
@output.json_option
@with_settings
def ls(settings: Settings, done: bool, limit: int, after: str | None, as_json: bool) -> None:
    """Show the messages that are not done, by time, or those that are, newest first."""

    async def look(services: Services) -> MessagePage | NewestMessages:
        if done:
            return await services.times.done(limit=limit, before=after)
        return await services.messages.page(done=False, limit=limit, after=after)

    page = call(settings, look)
    if as_json:
        items = list(map(describe_message_summary, page.messages))
        output.print_items(items, page.next)
        return
    if not page.messages:
        hint = "" if done else " Those that are done: --done"
        output.note(f"There are none in {place_of_store(settings)}.{hint}")
        return
    rows = [
        (
            each.ref,
            output.state(each.status.value),
            output.when(each.scheduled_at),
            each.list_name,
            output.plain(each.subject),
        )
        for each in page.messages
    ]
    headings = ("message", "status", "scheduled", "list", "subject")
    output.console().print(output.table(headings, rows))
    output.more(page.next, f"postroom message ls{' --done' if done else ''}")


@messages.command()
@click.argument("ref")
@click.option("--watch", is_flag=True, help="Follow it until it is done.")
@output.json_option
@with_settings
def show(settings: Settings, ref: str, watch: bool, as_json: bool) -> None:
    """Show a message and what has become of its emails.

    At every moment: planned = pending + accepted + refused + suppressed + in doubt.
    """
    if watch:
        call(settings, lambda services: watch_message(services, ref, as_json))
    else:
        show_message(*call(settings, lambda services: look(services, ref)), as_json)


@messages.command()
@click.argument("ref")
@click.option("--list", "list_name", help="To another list.")
@click.option("--subject")
@click.option("--html", type=BODY_FILE, help="Another HTML body.")
@click.option(
    "--text", type=BODY_FILE, help="Another text body. One that was made of the HTML follows it."
)
@click.option("--at", metavar="TIME", callback=_moment, help="Another time.")
@output.json_option
@with_settings
def edit(
    settings: Settings,
    ref: str,
    list_name: str | None,
    subject: str | None,
    html: str | None,
    text: str | None,
    at: datetime | None,
    as_json: bool,
) -> None:
    """Change a message that is Pending, or Paused before any of it was sent."""
    if all(each is None for each in (list_name, subject, html, text, at)):
        raise click.UsageError("say what to change: --list, --subject, --html, --text or --at")

    async def work(services: Services) -> tuple[Message, SendingState]:
        await services.messages.edit(
            ref,
            list_name=list_name,
            subject=subject,
            bodies=read_bodies(html, text),
            scheduled_at=at,
        )
        return await look(services, ref)

    saved = call(settings, work)
    if not as_json:
        output.say(f"The message {ref} is changed.")
    show_message(*saved, as_json)


@messages.command()
@click.argument("ref")
@output.yes_option
@with_settings
def delete(settings: Settings, ref: str, yes: bool) -> None:
    """Delete a message that is still Pending."""
    output.confirm(f"Delete the message {ref}?", yes=yes)
    call(settings, lambda s: s.messages.delete(ref))
    output.say(f"The message {ref} is deleted.")


@messages.command()
@click.argument("ref")
@click.option("--reason", default="", help="Shown to whoever looks at the message.")
@output.json_option
@with_settings
def pause(settings: Settings, ref: str, reason: str, as_json: bool) -> None:
    """Stop sending for now, within a second or a page."""

    async def work(services: Services) -> tuple[Message, SendingState]:
        await services.messages.pause(ref, reason)
        return await look(services, ref)

    show_message(*call(settings, work), as_json)


@messages.command()
@click.argument("ref")
@output.json_option
@with_settings
def resume(settings: Settings, ref: str, as_json: bool) -> None:
    """Go on where the message was paused."""

    async def work(services: Services) -> tuple[Message, SendingState]:
        await services.messages.resume(ref)
        return await look(services, ref)

    show_message(*call(settings, work), as_json)


@messages.command()
@click.argument("ref")
@output.yes_option
@output.json_option
@with_settings
def cancel(settings: Settings, ref: str, yes: bool, as_json: bool) -> None:
    """End a message for good: whoever has not got it yet will not."""
    output.confirm(f"Cancel the message {ref}?", yes=yes)

    async def work(services: Services) -> tuple[Message, SendingState]:
        await services.messages.cancel(ref)
        return await look(services, ref)

    show_message(*call(settings, work), as_json)
