"""`postroom message schedule`, `unschedule`, `duplicate`, `follow-up`, `win-back`, `preflight` and
`test`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from postroom.cli.messages.options import AUTHOR, read_moment
from postroom.cli.messages.recipients import confirm_recipients, recipients_options
from postroom.cli.messages.watching import MessageView, read_state, show_message
from postroom.cli.support import output
from postroom.cli.support.inactivity import inactive_days_option
from postroom.cli.support.running import call, with_settings
from postroom.errors import PostroomError
from postroom.services.resources.messages import (
    describe_preflight,
    describe_scheduled_message,
    describe_tests,
)

if TYPE_CHECKING:
    from postroom.domain.audience.addresses import Address
    from postroom.services.messages.checks.preflight import Preflight
    from postroom.settings import Settings
    from postroom.transport.contract import Result
    from postroom.wiring import Services

_PREFLIGHT_SECONDS = 10.0


@click.command()
@click.argument("ref")
@click.option(
    "--at",
    metavar="TIME",
    callback=read_moment,
    help="When to send it, in ISO 8601. [default: the draft's time, or now]",
)
@recipients_options
@output.json_option
@with_settings
def schedule(
    settings: Settings,
    ref: str,
    at: datetime | None,
    yes: bool,
    require_recipients: bool,
    as_json: bool,
) -> None:
    """Schedule a draft. A time in the past means now.

    On a terminal, it asks you to confirm the number of recipients; otherwise it prints the number
    to standard error.
    """
    from postroom.domain.messages.messages import MessageStatus, has_passed

    asked_at = datetime.now(UTC)

    async def work(services: Services) -> tuple[MessageView, str]:
        draft, number = await services.messages.get(ref), ""
        if draft.status is MessageStatus.DRAFT:
            _ = await services.composing.checked(draft)
            then = at or draft.scheduled_at
            number = await confirm_recipients(
                services,
                draft.list_name,
                draft.audience,
                then if then and not has_passed(then, asked_at) else None,
                yes=yes,
                is_required=require_recipients,
            )
        await services.composing.schedule(ref, at)
        return await read_state(services, ref), number

    view, number = call(settings, work)
    if number:
        output.note(number)
    message = view.message
    passed = has_passed(message.due_at, asked_at)
    if as_json:
        output.print_json(describe_scheduled_message(*view, has_passed=passed))
        return
    output.say(f"Message {ref} scheduled.")
    if passed:
        output.say(f"{output.when(message.scheduled_at)} has passed: sending starts now.")
    show_message(view, as_json)


@click.command()
@click.argument("ref")
@output.json_option
@with_settings
def unschedule(settings: Settings, ref: str, as_json: bool) -> None:
    """Make a scheduled message a draft again."""

    async def work(services: Services) -> MessageView:
        await services.composing.unschedule(ref)
        return await read_state(services, ref)

    unscheduled = call(settings, work)
    if not as_json:
        output.say(f"Message {ref} is a draft again.")
    show_message(unscheduled, as_json)


@click.command()
@click.argument("ref")
@output.json_option
@with_settings
def duplicate(settings: Settings, ref: str, as_json: bool) -> None:
    """Create a draft with the content of a message."""

    async def work(services: Services) -> MessageView:
        return await read_state(services, (await services.composing.duplicate(ref, AUTHOR)).ref)

    made = call(settings, work)
    if not as_json:
        output.say(f"Draft {made.message.ref} created.")
    show_message(made, as_json)


@click.command("follow-up")
@click.argument("ref")
@click.option("--subject", required=True, help="The subject of the draft.")
@click.option(
    "--to",
    type=click.Choice(["new", "unclicked"]),
    default="new",
    show_default=True,
    help="Who gets it: those who have not received the message, or have not clicked.",
)
@output.json_option
@with_settings
def follow_up(settings: Settings, ref: str, subject: str, to: str, as_json: bool) -> None:
    """Create a draft that sends a message again.

    It has the content of the sent message and goes to a part of its audience.

    With --to new, it goes to everyone in the audience who has not received the message, such as new
    subscribers. With --to unclicked, it goes to everyone who received it and is not known to have
    clicked, which requires personal tracking.
    """

    async def work(services: Services) -> MessageView:
        from postroom.services.audience.targeting.follow_ups import FollowUp

        made = await services.follow_ups.create(ref, FollowUp(to), subject, AUTHOR)
        return await read_state(services, made.ref)

    made = call(settings, work)
    if not as_json:
        output.say(f"Draft {made.message.ref} created.")
    show_message(made, as_json)


@click.command("win-back")
@click.argument("list_name", metavar="LIST")
@inactive_days_option
@output.json_option
@with_settings
def win_back(settings: Settings, list_name: str, days: str, as_json: bool) -> None:
    """Create a draft to the inactive subscribers of a list.

    They are those who agreed to personal tracking and have neither opened nor clicked an email for
    a while. Those who open the message or click its link are active again.
    """

    async def work(services: Services) -> MessageView:
        made = await services.inactive.win_back(list_name, int(days), AUTHOR)
        return await read_state(services, made.ref)

    made = call(settings, work)
    if not as_json:
        output.say(f"Draft {made.message.ref} created.")
    show_message(made, as_json)


@click.command()
@click.argument("ref")
@output.json_option
@with_settings
def preflight(settings: Settings, ref: str, as_json: bool) -> None:
    """Show who will receive a message, and what is wrong with it.

    Links and DNS records are looked up for up to ten seconds. An error means that the message
    cannot be sent, or should not be.
    """

    async def work(services: Services) -> Preflight:
        from postroom.wiring import load_stored, make_preflight, make_renderer

        found = await load_stored(services, settings)
        checks = make_preflight(services, found, make_renderer(services, found))
        try:
            return await checks.check(ref, seconds=_PREFLIGHT_SECONDS)
        finally:
            await checks.close()

    found = call(settings, work)
    if as_json:
        output.print_json(describe_preflight(found))
        return
    output.say(f"{found.audience.will_receive:,} will receive this message.")
    for reason, count in found.audience.excluded.items():
        output.say(f"{count:,} will not: {reason.replace('_', ' ')}.")
    rows = [(each.level.value, output.plain(str(each))) for each in found.findings]
    if rows:
        output.console().print(output.table(("level", "finding"), rows))
    else:
        output.say("No problems found.")
    if found.checking:
        output.note(f"{found.checking} checks did not finish in time.")


@click.command("test")
@click.argument("ref")
@click.argument("addresses", metavar="ADDRESS...", nargs=-1, required=True)
@click.option(
    "--as",
    "subscriber",
    metavar="ADDRESS",
    help="The subscriber whose fields it shows. [default: an example]",
)
@output.json_option
@with_settings
def test(
    settings: Settings,
    ref: str,
    addresses: tuple[str, ...],
    subscriber: str | None,
    as_json: bool,
) -> None:
    """Send a message, marked [Test], to up to ten addresses now."""

    async def work(services: Services) -> list[tuple[Address, Result]]:
        from postroom.wiring import load_stored, send_test_emails

        found = await load_stored(services, settings)
        return await send_test_emails(services, found, ref, addresses, subscriber)

    results = call(settings, work)
    failed = [(address, each) for address, each in results if each.kind != "accepted"]
    if as_json:
        output.print_json(describe_tests(results))
    else:
        for address, each in results:
            if each.kind == "accepted":
                output.say(f"Test sent to {address}. The mail server replied: {each.reply}")
    if failed:
        address, each = failed[0]
        raise PostroomError(f"the test to {address} was {each.kind}: {each.reply}")
