"""`postroom warmup`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.domain.messages.delivery.warm_up import (
    ALL,
    VOLUMES,
    WarmUpPlan,
    parse_volumes,
    parse_warm_up_domain,
)
from postroom.services.resources.deliverability.warm_ups import describe_warm_up

if TYPE_CHECKING:
    from postroom.services.messages.sending.warm_ups import WarmUpStatus
    from postroom.settings import Settings
    from postroom.wiring import Services


@click.group("warmup")
def warm_ups() -> None:
    """Plan how many emails per day a new domain or IP address sends."""


@warm_ups.command()
@output.json_option
@with_settings
def ls(settings: Settings, as_json: bool) -> None:
    """Show the warm-up plans."""
    found = call(settings, lambda s: s.warm_ups.statuses())
    if as_json:
        output.print_items(map(describe_warm_up, found), None)
    elif not found:
        output.note("No warm-up plans.")
    else:
        output.console().print(
            output.table(
                ("domain", "starts", "ends", "#today", "#used"),
                [
                    (
                        each.plan.domain,
                        each.plan.starts.isoformat(),
                        each.plan.ends.isoformat(),
                        "no limit" if each.volume is None else f"{each.volume:,}",
                        f"{each.used:,}",
                    )
                    for each in found
                ],
            )
        )


@warm_ups.command("set")
@click.argument("domain")
@click.option(
    "--volumes",
    metavar="N,N,…",
    help="Emails per day. [default: 50, 100, 500 … 1,000,000 in 15 days]",
)
@click.option(
    "--starts",
    metavar="DAY",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The first day, in UTC. [default: today]",
)
@output.json_option
@with_settings
def save(
    settings: Settings, domain: str, volumes: str | None, starts: datetime | None, as_json: bool
) -> None:
    """Create or replace the plan of a From domain.

    DOMAIN may be 'all' for all emails, if the IP address is new. Emails beyond a day's volume wait
    for the next day.
    """
    name = parse_warm_up_domain(domain)
    first = datetime.now(UTC).date() if starts is None else starts.date()
    plan = WarmUpPlan(name, first, VOLUMES if volumes is None else parse_volumes(volumes))

    async def work(services: Services) -> WarmUpStatus:
        await services.warm_ups.save(plan)
        return await services.warm_ups.get(name)

    saved = call(settings, work)
    if as_json:
        output.print_json(describe_warm_up(saved))
    else:
        days = output.counted(len(plan.volumes), "day")
        until = plan.ends - timedelta(days=1)
        output.say(f"Warm-up of {_shown(name)} saved: {days}, from {plan.starts} to {until}.")


@warm_ups.command()
@click.argument("domain")
@output.json_option
@with_settings
def remove(settings: Settings, domain: str, as_json: bool) -> None:
    """End a plan. Emails that wait for it are sent at their next attempt."""
    name = parse_warm_up_domain(domain)
    call(settings, lambda s: s.warm_ups.remove(name))
    if as_json:
        output.print_json({"domain": name, "removed": True})
    else:
        output.say(f"Warm-up of {_shown(name)} ended.")


def _shown(domain: str) -> str:
    return "all emails" if domain == ALL else domain
