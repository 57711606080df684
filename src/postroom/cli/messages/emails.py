"""`postroom message emails`, `email` and `decide`: the outcome of each email."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.messages import describe_email

if TYPE_CHECKING:
    from postroom.services.messages.sending.outcomes import EmailRecord
    from postroom.settings import Settings
    from postroom.wiring import Services

_OUTCOMES = ("pending", "accepted", "refused", "suppressed", "in_doubt")


@click.command()
@click.argument("ref")
@click.option("--outcome", type=click.Choice(_OUTCOMES), help="Filter by outcome.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number to show. [default: all]")
@click.option("--after", metavar="ADDRESS", default="", help="Continue after this address.")
@output.json_option
@with_settings
def emails(
    settings: Settings,
    ref: str,
    outcome: str | None,
    limit: int | None,
    after: str,
    as_json: bool,
) -> None:
    """Show the outcome of each email of a message."""

    async def work(services: Services) -> int:
        from postroom.domain.messages.emails import EmailOutcome

        message = await services.messages.get(ref)
        wanted = None if outcome is None else EmailOutcome(outcome)
        shown, last = 0, ""
        lines = _JsonItems() if as_json else _AlignedLines(f"postroom message emails {ref}")
        async for record in services.outcomes.emails(message, wanted):
            if record.address <= after:
                continue
            if shown == limit:
                break
            lines.show(record)
            shown, last = shown + 1, record.address
        else:
            last = ""
        lines.end(last or None)
        return shown

    if not call(settings, work) and not as_json:
        output.note("No matching emails.")


@click.command()
@click.argument("ref")
@click.argument("address")
@output.json_option
@with_settings
def email(settings: Settings, ref: str, address: str, as_json: bool) -> None:
    """Show the outcome of the email to one address."""

    async def work(services: Services) -> EmailRecord:
        return await _find(services, ref, address)

    _show_one(call(settings, work), as_json)


@click.command()
@click.argument("ref")
@click.argument("address")
@click.option(
    "--sent/--resend", "was_sent", default=None, help="Record that it was sent, or send it again."
)
@output.json_option
@with_settings
def decide(
    settings: Settings, ref: str, address: str, was_sent: bool | None, as_json: bool
) -> None:
    """Record the outcome of an email in doubt, or send it again."""
    if was_sent is None:
        raise click.UsageError("give --sent or --resend")

    async def work(services: Services) -> EmailRecord:
        from postroom.domain.audience.addresses import parse_address

        message = await services.messages.get(ref)
        await services.in_doubt.decide(message, parse_address(address), was_sent=was_sent)
        return await _find(services, ref, address)

    _show_one(call(settings, work), as_json)


async def _find(services: Services, ref: str, address: str) -> EmailRecord:
    from postroom.domain.audience.addresses import parse_address
    from postroom.domain.errors import NoSuch

    message = await services.messages.get(ref)
    parsed = parse_address(address)
    found = await services.outcomes.email(message, parsed)
    if found is None:
        raise NoSuch("email of this message to", parsed)
    return found


def _show_one(record: EmailRecord, as_json: bool) -> None:
    if as_json:
        output.print_json(describe_email(record))
        return
    output.console().print(
        output.details(
            {
                "address": output.plain(record.address),
                "outcome": output.state(record.outcome.value),
                "reply": output.plain(record.reply) if record.reply else None,
                "tries": f"{record.tries}" if record.tries else None,
                "note": "was in doubt: may have been sent twice" if record.was_in_doubt else "",
            }
        )
    )


class _AlignedLines:
    """Aligned lines, printed as they are read."""

    def __init__(self, command: str) -> None:
        self._command = command

    def show(self, record: EmailRecord) -> None:
        style = output.STYLES[record.outcome.value]
        word = f"{record.outcome.value.replace('_', ' '):<10}"
        outcome = click.style(word, dim=True) if style == "dim" else click.style(word, fg=style)
        mark = " (was in doubt)" if record.was_in_doubt else ""
        click.echo(f"{outcome} {output.plain(record.address)}{mark}  {output.plain(record.reply)}")

    def end(self, following: str | None) -> None:
        output.more(following, self._command)


class _JsonItems:
    """The items of one JSON object, printed as they are read."""

    def __init__(self) -> None:
        click.echo('{"items": [', nl=False)
        self._separator = "\n"

    def show(self, record: EmailRecord) -> None:
        click.echo(
            f"{self._separator}  {output.json_line(describe_email(record))}",
            nl=False,
        )
        self._separator = ",\n"

    def end(self, following: str | None) -> None:
        click.echo(f'\n], "next": {json.dumps(following, ensure_ascii=False)}}}')
