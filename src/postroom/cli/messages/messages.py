"""`postroom message`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from postroom.cli.messages.emails import decide, email, emails
from postroom.cli.messages.progress import read_state, show_message, watch_message
from postroom.cli.support import output
from postroom.cli.support.running import call, place_of_store, with_settings
from postroom.errors import PostroomError
from postroom.services.resources.messages import (
    describe_message_summary,
    describe_scheduled_message,
)

if TYPE_CHECKING:
    from postroom.domain.messages.messages import Message
    from postroom.services.messages.message_contents import NewBodies
    from postroom.services.messages.message_rows import MessagePage
    from postroom.services.messages.message_times import NewestMessages
    from postroom.services.messages.progress import SendingState
    from postroom.settings import Settings
    from postroom.transport.contract import Result
    from postroom.wiring import Services


BODY_FILE = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Read `now`, or ISO 8601; a time without a zone is in the local one."""
    from postroom.domain.units import is_skipped

    if value is None:
        return None
    if value == "now":
        return datetime.now(UTC)
    try:
        written = datetime.fromisoformat(value)
        skipped = written.tzinfo is None and is_skipped(written)
        moment = written.astimezone(UTC)  # without a zone, in this machine's
    except (ValueError, OverflowError) as exc:
        raise click.BadParameter(
            f"must be 2026-11-15T09:00+01:00, 2026-11-15T09:00 or now, not {value!r}"
        ) from exc
    if skipped:
        raise click.BadParameter(
            f"{value} does not exist in this machine's time zone: clocks are put forward then."
            " Choose another time, or add a zone, as in 2026-11-15T09:00+01:00."
        )
    return moment


def read_bodies(html: str | None, text: str | None) -> NewBodies:
    """Return both files, decoded. `Invalid` names the one that is wrong."""
    from postroom.mail.body_files import html_from_file, text_from_file
    from postroom.services.messages.message_contents import NewBodies

    return NewBodies(
        None if html is None else html_from_file(_read("html", html)),
        None if text is None else text_from_file(_read("text", text)),
    )


def _read(field: str, path: str) -> bytes:
    """Return the whole file. `Invalid` if it is too large to be a body."""
    from postroom.domain.errors import Invalid
    from postroom.domain.messages.messages import LARGEST_BODY

    limit = f"must have at most {LARGEST_BODY // 1024**2} MB"
    if path == "-":
        data = sys.stdin.buffer.read(LARGEST_BODY + 1)
        if len(data) > LARGEST_BODY:
            raise Invalid(field, f"{limit}, but standard input has more")
        return data
    size = Path(path).stat().st_size
    if size > LARGEST_BODY:
        raise Invalid(field, f"{limit}, but {path} has {size / 1024**2:,.1f} MB")
    return Path(path).read_bytes()


@click.group("message")
def messages() -> None:
    """Schedule messages and follow their delivery."""


for command in (emails, email, decide):
    messages.add_command(command)


@messages.command()
@click.argument("list_name", metavar="LIST")
@click.option("--subject", required=True)
@click.option("--html", type=BODY_FILE, help="The HTML body, a .htm file.")
@click.option(
    "--text", type=BODY_FILE, help="The text body, a .txt file. [default: generated from the HTML]"
)
@click.option(
    "--at",
    metavar="TIME",
    callback=_moment,
    default="now",
    show_default=True,
    help="When to send it, in ISO 8601.",
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

    Subject and bodies may contain the merge fields {{email}} and {{list_description}}, bodies also
    {{unsubscribe_url}}; without it the link is added at the end. A time in the past means now; a
    time without a zone is local.
    """
    from postroom.domain.messages.emails import Counts
    from postroom.domain.messages.messages import has_passed
    from postroom.services.messages.progress import SendingState

    asked_at = datetime.now(UTC)

    async def work(services: Services) -> Message:
        await services.lists.get(list_name)  # before large files are read
        bodies = read_bodies(html, text)
        return await services.messages.create(list_name, subject, bodies, at)

    created = call(settings, work)
    passed = has_passed(at, asked_at)
    if as_json:
        output.print_json(
            describe_scheduled_message(created, SendingState(Counts()), has_passed=passed)
        )
        return
    output.say(f"Message {created.ref} scheduled.")
    if passed:
        output.say(f"{output.when(at)} has passed: sending starts now.")
    show_message(created, SendingState(Counts()), as_json)


@messages.command()
@click.option("--done", is_flag=True, help="Show completed and cancelled messages.")
@output.page_options(limit=100)
@output.json_option
@with_settings
def ls(settings: Settings, done: bool, limit: int, after: str | None, as_json: bool) -> None:
    """Show unfinished messages by time, or with --done finished ones, newest first."""

    async def read(services: Services) -> MessagePage | NewestMessages:
        if done:
            return await services.times.done(limit=limit, before=after)
        return await services.messages.page(done=False, limit=limit, after=after)

    page = call(settings, read)
    if as_json:
        items = list(map(describe_message_summary, page.messages))
        output.print_items(items, page.next)
        return
    if not page.messages:
        kind, hint = ("finished", "") if done else ("unfinished", " For finished ones: --done")
        output.note(f"No {kind} messages in {place_of_store(settings)}.{hint}")
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
@click.option("--watch", is_flag=True, help="Follow it until it is finished.")
@output.json_option
@with_settings
def show(settings: Settings, ref: str, watch: bool, as_json: bool) -> None:
    """Show a message and the outcomes of its emails.

    Always: planned = pending + accepted + refused + suppressed + in doubt.
    """
    if watch:
        call(settings, lambda services: watch_message(services, ref, as_json))
    else:
        show_message(*call(settings, lambda services: read_state(services, ref)), as_json)


@messages.command()
@click.argument("ref")
@click.option("--list", "list_name", help="The new list.")
@click.option("--subject")
@click.option("--html", type=BODY_FILE, help="The new HTML body.")
@click.option("--text", type=BODY_FILE, help="The new text body. A generated one follows the HTML.")
@click.option("--at", metavar="TIME", callback=_moment, help="The new time.")
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
    """Change a message that is Pending, or Paused with nothing sent yet."""
    if all(each is None for each in (list_name, subject, html, text, at)):
        raise click.UsageError("nothing to change: give --list, --subject, --html, --text or --at")

    async def work(services: Services) -> tuple[Message, SendingState]:
        await services.messages.edit(
            ref,
            list_name=list_name,
            subject=subject,
            bodies=read_bodies(html, text),
            scheduled_at=at,
        )
        return await read_state(services, ref)

    saved = call(settings, work)
    if not as_json:
        output.say(f"Message {ref} saved.")
    show_message(*saved, as_json)


@messages.command()
@click.argument("ref")
@output.yes_option
@with_settings
def delete(settings: Settings, ref: str, yes: bool) -> None:
    """Delete a message that is still Pending."""
    output.confirm(f"Delete message {ref}?", yes=yes)
    call(settings, lambda s: s.messages.delete(ref))
    output.say(f"Message {ref} deleted.")


@messages.command()
@click.argument("ref")
@click.option("--reason", default="", help="Shown with the message.")
@output.json_option
@with_settings
def pause(settings: Settings, ref: str, reason: str, as_json: bool) -> None:
    """Pause a message. Emails already in progress finish."""

    async def work(services: Services) -> tuple[Message, SendingState]:
        await services.messages.pause(ref, reason)
        return await read_state(services, ref)

    show_message(*call(settings, work), as_json)


@messages.command()
@click.argument("ref")
@output.json_option
@with_settings
def resume(settings: Settings, ref: str, as_json: bool) -> None:
    """Resume a paused message."""

    async def work(services: Services) -> tuple[Message, SendingState]:
        await services.messages.resume(ref)
        return await read_state(services, ref)

    show_message(*call(settings, work), as_json)


@messages.command()
@click.argument("ref")
@output.yes_option
@output.json_option
@with_settings
def cancel(settings: Settings, ref: str, yes: bool, as_json: bool) -> None:
    """Cancel a message for good. Emails that are not sent yet are not sent."""
    output.confirm(f"Cancel message {ref}?", yes=yes)

    async def work(services: Services) -> tuple[Message, SendingState]:
        await services.messages.cancel(ref)
        return await read_state(services, ref)

    show_message(*call(settings, work), as_json)


@messages.command("test")
@click.argument("list_name", metavar="LIST")
@click.argument("address")
@click.option("--subject", required=True)
@click.option("--html", type=BODY_FILE, help="The HTML body, a .htm file.")
@click.option(
    "--text", type=BODY_FILE, help="The text body, a .txt file. [default: generated from the HTML]"
)
@output.json_option
@with_settings
def test(
    settings: Settings,
    list_name: str,
    address: str,
    subject: str,
    html: str | None,
    text: str | None,
    as_json: bool,
) -> None:
    """Send a test email, marked [Test], to one address. Nothing is stored."""

    async def work(services: Services) -> Result:
        from postroom.sender.draft_mail import send_test
        from postroom.services.messages.message_contents import checked_bodies, with_text
        from postroom.wiring import opened_transport

        mailing_list = await services.lists.get(list_name)
        bodies = await with_text(await checked_bodies(read_bodies(html, text)))
        async with opened_transport(settings) as transport:
            return await send_test(
                transport, mailing_list, subject, bodies, address, settings.web.base_url
            )

    result = call(settings, work)
    if result.kind != "accepted":
        raise PostroomError(f"the test email was {result.kind}: {result.reply}")
    if as_json:
        output.print_json({"email": address, "outcome": result.kind, "reply": result.reply})
    else:
        output.say(f"Test email sent. The mail server replied: {result.reply}")


@messages.command()
@click.argument("ref")
@output.yes_option
@output.json_option
@with_settings
def retry(settings: Settings, ref: str, yes: bool, as_json: bool) -> None:
    """Retry failed recipients of a message.

    While it is being sent, deferred emails are retried now. Once it is finished, a new message goes
    to the refused recipients; there is only one, however often you retry.
    """
    from postroom.domain.messages.messages import FINAL

    message = call(settings, lambda services: services.messages.get(ref))
    if message.status in FINAL:
        output.confirm(f"Send message {ref} again to refused recipients?", yes=yes)

    async def work(services: Services) -> tuple[Message, SendingState]:
        return await read_state(services, (await services.retries.retry(ref)).ref)

    retried, state = call(settings, work)
    if not as_json and retried.ref != ref:
        output.say(f"Message {retried.ref} retries the refused recipients.")
    show_message(retried, state, as_json)


@messages.command("try-now")
@click.argument("ref")
@output.json_option
@with_settings
def try_now(settings: Settings, ref: str, as_json: bool) -> None:
    """Probe each hold of a message now, with a single email.

    The first email that the mail server accepts lifts the hold.
    """

    async def work(services: Services) -> tuple[Message, SendingState]:
        return await read_state(services, (await services.message_holds.try_now(ref)).ref)

    show_message(*call(settings, work), as_json)
