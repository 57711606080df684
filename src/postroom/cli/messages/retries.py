"""`postroom message test` and `retry`: a mail to oneself before, and the failed again after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.messages.bodies import BODY_FILE, read_bodies
from postroom.cli.messages.progress import look, show_message
from postroom.cli.support import output
from postroom.cli.support.calling import call
from postroom.cli.support.running import with_settings
from postroom.errors import PostroomError

if TYPE_CHECKING:
    from postroom.domain.messages.messages import Message
    from postroom.services.messages.progress import SendingState
    from postroom.settings import Settings
    from postroom.transport.contract import Result
    from postroom.wiring import Services


@click.command("test")
@click.argument("list_name", metavar="LIST")
@click.argument("address")
@click.option("--subject", required=True)
@click.option("--html", type=BODY_FILE, help="The HTML body, a .htm file.")
@click.option(
    "--text", type=BODY_FILE, help="The text body, a .txt file. Without it: made of the HTML."
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
    """Send a message to one address only, marked [Test]; nothing of it is kept."""

    async def work(services: Services) -> Result:
        from postroom.sender.test_emails import send_test
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
        raise PostroomError(f"the mail is {result.kind}: {result.reply}")
    if as_json:
        output.print_json({"email": address, "outcome": result.kind, "reply": result.reply})
    else:
        output.say(f"The mail is on its way. The server said: {result.reply}")


@click.command()
@click.argument("ref")
@output.yes_option
@output.json_option
@with_settings
def retry(settings: Settings, ref: str, yes: bool, as_json: bool) -> None:
    """Retry what a message did not reach.

    While it is being sent: deferred emails, at once. When it is done: refused recipients, by
    another message, due now; however often you retry, there is only one.
    """
    from postroom.domain.messages.messages import FINAL

    message = call(settings, lambda services: services.messages.get(ref))
    if message.status in FINAL:
        output.confirm(f"Send the message {ref} again to those who were refused?", yes=yes)

    async def work(services: Services) -> tuple[Message, SendingState]:
        return await look(services, (await services.retries.retry(ref)).ref)

    made, standing = call(settings, work)
    if not as_json and made.ref != ref:
        output.say(f"The message {made.ref} tries them again.")
    show_message(made, standing, as_json)


@click.command("try-now")
@click.argument("ref")
@output.json_option
@with_settings
def try_now(settings: Settings, ref: str, as_json: bool) -> None:
    """Try now whether the cause of a message's holds is gone.

    A single email is sent for each hold; the first one that gets through lifts it.
    """

    async def work(services: Services) -> tuple[Message, SendingState]:
        return await look(services, (await services.message_holds.try_now(ref)).ref)

    show_message(*call(settings, work), as_json)
