"""`postroom message ab-test`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from postroom.cli.messages.options import AUTHOR, read_moment
from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.domain.messages.waves.ab_tests import SHARE, WAIT_MINUTES
from postroom.domain.units import parse_duration, show_duration
from postroom.services.resources.ab_tests import describe_ab_test

if TYPE_CHECKING:
    from postroom.domain.messages.waves.ab_tests import AbTest
    from postroom.services.audience.results.ab_views import AbView
    from postroom.services.resources.ab_tests import AbTestResource
    from postroom.settings import Settings
    from postroom.wiring import Services


@click.group("ab-test")
def ab_test() -> None:
    """Send variants to some recipients, and the best one to the rest."""


@ab_test.command()
@click.argument("ref")
@click.option("--subject", help="The subject of the variant.")
@click.option("--from-name", help="The sender's name of the variant.")
@output.json_option
@with_settings
def add(
    settings: Settings, ref: str, subject: str | None, from_name: str | None, as_json: bool
) -> None:
    """Add a variant to a draft. The variant is a separate draft, which can be edited.

    The first variant is the draft itself. You can add three more.
    """

    async def work(services: Services) -> AbView:
        from msgspec import UNSET

        from postroom.services.messages.drafts.draft_contents import ContentChange

        tests = services.ab_tests
        if await tests.rows.of(ref) is None:
            await tests.create(ref, AUTHOR)
        change = ContentChange(
            subject=UNSET if subject is None else subject,
            from_name=UNSET if from_name is None else from_name,
        )
        await tests.add(ref, change, AUTHOR)
        return await tests.view(await tests.get(ref))

    view = call(settings, work)
    if not as_json:
        output.say(f"Draft {view.variants[-1].ref} created: variant {view.variants[-1].letter}.")
    _show(view, as_json)


def _read_wait(ctx: click.Context, param: click.Parameter, value: str) -> timedelta:
    try:
        return parse_duration(value)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from exc


@ab_test.command()
@click.argument("ref")
@click.option(
    "--share",
    type=int,
    default=SHARE,
    show_default=True,
    help="Percentage of the audience that gets a variant, divided equally.",
)
@click.option(
    "--wait",
    metavar="DURATION",
    default=show_duration(timedelta(minutes=WAIT_MINUTES)),
    show_default=True,
    callback=_read_wait,
    help="How long to wait before the winner is decided.",
)
@click.option(
    "--at",
    metavar="TIME",
    callback=read_moment,
    help="When to send the variants, in ISO 8601. [default: the draft's time, or now]",
)
@output.json_option
@with_settings
def start(
    settings: Settings, ref: str, share: int, wait: timedelta, at: datetime | None, as_json: bool
) -> None:
    """Schedule the variants of a test."""
    minutes = round(wait.total_seconds() / 60)

    async def work(services: Services) -> AbTest:
        return await services.ab_tests.start(ref, share=share, wait_minutes=minutes, at=at)

    _change(settings, work, "A/B test started.", as_json)


@ab_test.command()
@click.argument("ref")
@output.json_option
@with_settings
def show(settings: Settings, ref: str, as_json: bool) -> None:
    """Show the variants of a test with their numbers."""

    async def work(services: Services) -> AbView:
        return await services.ab_tests.view(await services.ab_tests.get(ref))

    _show(call(settings, work), as_json)


@ab_test.command()
@click.argument("ref")
@click.argument("variant", metavar="VARIANT")
@output.json_option
@with_settings
def winner(settings: Settings, ref: str, variant: str, as_json: bool) -> None:
    """End a test now, and send one variant to the rest.

    The variant is given by its letter or reference."""

    async def work(services: Services) -> AbTest:
        test = await services.ab_tests.get(ref)
        named = next((each for each in test.variants if test.letter(each) == variant), variant)
        return await services.ab_tests.choose(ref, named, AUTHOR)

    _change(settings, work, "Winner chosen.", as_json)


@ab_test.command()
@click.argument("ref")
@output.yes_option
@with_settings
def cancel(settings: Settings, ref: str, yes: bool) -> None:
    """Cancel a test: nothing is sent to the rest of the audience.

    Variants whose sending has not started are cancelled, too. A test that has not been started is
    removed, and its variants become ordinary drafts.
    """
    output.confirm(f"Cancel the A/B test of message {ref}?", yes=yes)
    call(settings, lambda services: services.ab_tests.cancel(ref))
    output.say("A/B test cancelled.")


def _change(
    settings: Settings,
    work: Callable[[Services], Awaitable[AbTest]],
    done: str,
    as_json: bool,
) -> None:
    """Change a test, confirm the change, and show the test."""

    async def change(services: Services) -> AbView:
        return await services.ab_tests.view(await work(services))

    view = call(settings, change)
    if not as_json:
        output.say(done)
    _show(view, as_json)


def _show(view: AbView, as_json: bool) -> None:
    found = describe_ab_test(view)
    if as_json:
        output.print_json(found)
        return
    output.console().print(output.details(_lines(found)))
    rows = [
        (
            each.letter,
            each.ref,
            "deleted" if each.status is None else output.state(each.status.value),
            output.plain(each.subject),
            output.plain(each.from_name),
            f"{each.accepted:,}",
            "-" if each.clicked is None else f"{each.clicked:,}",
            f"{each.unsubscribed:,}",
        )
        for each in found.variants
    ]
    headings = (
        "", "message", "status", "subject", "sender", "accepted", "clicked", "unsubscribed",
    )  # fmt: skip
    output.console().print(output.table(headings, rows))


def _percent(confidence: float) -> str:
    return "over 99.9%" if confidence > 99.9 else f"{confidence:.1f}%"


def _lines(found: AbTestResource) -> dict[str, Any]:
    """Return the properties of a test under readable names."""
    letters = {each.ref: each.letter for each in found.variants}
    lines: dict[str, Any] = {
        "state": found.state.value,
        "share": f"{found.share}%",
        "wait": show_duration(timedelta(minutes=found.wait_minutes)),
    }
    if found.decides_at:
        lines["decides"] = found.decides_at
    if found.best:
        by = f"by {found.criterion}, {_percent(found.confidence)} confidence"
        lines["best so far" if found.decided_at is None else "best"] = f"{found.best} ({by})"
    if found.decided_at:
        chosen = f" (chosen by {found.chosen_by})" if found.chosen_by else ""
        lines["winner"] = (
            letters[found.winner] + chosen if found.winner else "none: the first variant is sent"
        )
    if found.rest:
        lines["rest"] = found.rest
    if found.problem:
        lines["problem"] = output.plain(found.problem)
    return lines
