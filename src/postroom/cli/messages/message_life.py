"""`postroom message pause`, `resume`, `cancel`, `retry` and `try-now`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.messages.watching import MessageView, read_state, show_message
from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings

if TYPE_CHECKING:
    from postroom.settings import Settings
    from postroom.wiring import Services


@click.command()
@click.argument("ref")
@click.option("--reason", default="", help="Shown with the message.")
@output.json_option
@with_settings
def pause(settings: Settings, ref: str, reason: str, as_json: bool) -> None:
    """Pause a message. Emails already in progress finish."""

    async def work(services: Services) -> MessageView:
        await services.message_states.pause(ref, reason)
        return await read_state(services, ref)

    show_message(call(settings, work), as_json)


@click.command()
@click.argument("ref")
@output.json_option
@with_settings
def resume(settings: Settings, ref: str, as_json: bool) -> None:
    """Resume a paused message."""

    async def work(services: Services) -> MessageView:
        await services.message_states.resume(ref)
        return await read_state(services, ref)

    show_message(call(settings, work), as_json)


@click.command()
@click.argument("ref")
@output.yes_option
@output.json_option
@with_settings
def cancel(settings: Settings, ref: str, yes: bool, as_json: bool) -> None:
    """Cancel a message permanently. Emails not sent yet will not be sent."""
    output.confirm(f"Cancel message {ref}?", yes=yes)

    async def work(services: Services) -> MessageView:
        await services.message_states.cancel(ref)
        return await read_state(services, ref)

    show_message(call(settings, work), as_json)


@click.command()
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

    async def work(services: Services) -> MessageView:
        return await read_state(services, (await services.retries.retry(ref)).ref)

    retried = call(settings, work)
    if not as_json and retried.message.ref != ref:
        output.say(f"Message {retried.message.ref} retries the refused recipients.")
    show_message(retried, as_json)


@click.command("try-now")
@click.argument("ref")
@output.json_option
@with_settings
def try_now(settings: Settings, ref: str, as_json: bool) -> None:
    """Probe each hold of a message now, with a single email.

    The first email that the mail server accepts lifts the hold.
    """

    async def work(services: Services) -> MessageView:
        return await read_state(services, (await services.message_holds.try_now(ref)).ref)

    show_message(call(settings, work), as_json)
