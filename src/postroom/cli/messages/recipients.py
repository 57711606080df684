"""The number of recipients: asked for on a terminal, printed for scripts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from postroom.cli.support import output

if TYPE_CHECKING:
    from postroom.domain.messages.audiences import Audience
    from postroom.wiring import Services

F = TypeVar("F", bound=Callable[..., Any])


def recipients_options(command: F) -> F:
    """Add `--yes` and `--require-recipients`."""
    required = click.option(
        "--require-recipients",
        is_flag=True,
        help="Fail if nobody would receive the message now.",
    )
    decorated: F = output.yes_option(required(command))
    return decorated


async def confirm_recipients(
    services: Services,
    list_name: str,
    audience: Audience,
    at: datetime | None,
    *,
    yes: bool,
    is_required: bool,
) -> str:
    """Ask on a terminal before a message is scheduled, and return what to print afterwards: how
    many subscribers would receive it now. `at` is its time, if it is not sent now."""
    if is_required:
        await services.estimates.check_has_recipients(list_name, audience)
    many = (await services.estimates.of(list_name, None, audience)).recipients
    lists = ", ".join((list_name, *audience.more_lists))
    who = "1 subscriber" if many == 1 else f"{many:,} subscribers" if many else "nobody"
    when = f"at {output.when(at)}" if at else "now"
    question = f"Send to {who} of {lists} {when}?"
    if not many:
        question = f"Nobody on {lists} would receive this message now. Schedule it anyway?"
    output.confirm(question, yes=yes)
    if many:
        return f"{who} would receive it now." if at else f"{who} will receive it."
    return "Nobody would receive it now: the audience has no confirmed subscribers."
