"""`postroom provider`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.domain.messages.delivery.providers import Provider, parse_provider
from postroom.services.resources.deliverability.providers import describe_provider

if TYPE_CHECKING:
    from postroom.services.audience.suppression.provider_overview import ProviderStatus
    from postroom.settings import Settings
    from postroom.wiring import Services

_NO_LIMIT = "none"


@click.group("provider")
def providers() -> None:
    """Show how fast providers accept emails, and limit the rate."""


@providers.command()
@output.json_option
@with_settings
def ls(settings: Settings, as_json: bool) -> None:
    """Show providers that are limited or held, and the largest other ones."""
    found = call(settings, lambda s: s.provider_overview.all())
    if as_json:
        output.print_items(map(describe_provider, found), None)
        return
    if not found:
        output.note("No providers yet: they appear after messages have been sent.")
        return
    rows = [
        (
            each.provider,
            _rate(each.per_second),
            "" if each.throttled_at is None else output.when(each.throttled_at),
            "" if each.hold is None else output.plain(each.hold.reason),
            f"{each.figures.accepted:,}",
            f"{each.figures.bounced:,}",
            f"{each.figures.complained:,}",
        )
        for each in found
    ]
    heads = ("provider", "rate", "throttled", "on hold", "#accepted", "#bounced", "#spam")
    output.console().print(output.table(heads, rows))


@providers.command()
@click.argument("provider")
@output.json_option
@with_settings
def show(settings: Settings, provider: str, as_json: bool) -> None:
    """Show what is known about a provider, such as gmail.com."""
    name = parse_provider(provider)
    _show(call(settings, lambda s: s.provider_overview.get(name)), as_json)


@providers.command("set")
@click.argument("provider")
@click.option("--rate", metavar="N", help="Emails per second at most; 'none' for no limit.")
@click.option(
    "--connections", metavar="N", help="Emails in progress at the same time; 'none' for no limit."
)
@click.option(
    "--emails-per-connection",
    metavar="N",
    help="Emails to it that one connection carries; 'none' to remove your limit.",
)
@click.option(
    "--rest",
    "rest_minutes",
    metavar="MINUTES",
    help="How long it gets no emails after throttling them; 'none' for the usual time.",
)
@output.json_option
@with_settings
def limit(
    settings: Settings, provider: str, rate: str | None, as_json: bool, **given: str | None
) -> None:
    """Limit how fast a provider gets emails. Options that you omit stay as they are."""
    name = parse_provider(provider)
    changes: dict[str, float | int | None] = {}
    if rate is not None:
        changes["per_second"] = None if rate == _NO_LIMIT else _number("--rate", rate, float)
    for field, text in given.items():
        if text is not None:
            option = "--rest" if field == "rest_minutes" else f"--{field.replace('_', '-')}"
            changes[field] = None if text == _NO_LIMIT else _number(option, text, int)

    async def work(services: Services) -> ProviderStatus:
        found = await services.provider_rates.get(name)
        changed = msgspec.structs.replace(found.limit, **changes)
        await services.provider_rates.set_limit(name, changed)
        return await services.provider_overview.get(name)

    _show(call(settings, work), as_json)


@providers.command()
@click.argument("provider")
@output.json_option
@with_settings
def reset(settings: Settings, provider: str, as_json: bool) -> None:
    """Forget the rate that was learned from a provider's replies. Limits stay."""
    name = parse_provider(provider)

    async def work(services: Services) -> ProviderStatus:
        await services.provider_rates.forget(name)
        return await services.provider_overview.get(Provider(name))

    _show(call(settings, work), as_json)


def _number(option: str, text: str, kind: type[float] | type[int]) -> float | int:
    try:
        return kind(text)
    except ValueError as exc:
        raise click.BadParameter(
            f"must be a number or 'none', not {text!r}", param_hint=f"'{option}'"
        ) from exc


def _rate(per_second: float | None) -> str:
    return "no limit" if per_second is None else f"{per_second:.3g}/s"


def _rest(status: ProviderStatus) -> str | None:
    minutes = status.rate.rest_minutes
    if minutes is None:
        return None
    return f"{minutes:,} minutes after {status.initial.rest_reply or 'throttling'}"


def _show(status: ProviderStatus, as_json: bool) -> None:
    if as_json:
        output.print_json(describe_provider(status))
        return
    limit, figures = status.rate.limit, status.figures
    output.console().print(
        output.details(
            {
                "provider": status.provider,
                "rate": _rate(status.per_second),
                "connections": None if status.connections is None else str(status.connections),
                "per connection": None
                if status.emails_per_connection is None
                else f"{status.emails_per_connection:,} emails",
                "rest": _rest(status),
                "maximum": None if limit.per_second is None else _rate(limit.per_second),
                "throttled": None
                if status.throttled_at is None
                else output.when(status.throttled_at),
                "reply": output.plain(status.rate.reply) if status.rate.reply else None,
                "on hold": output.plain(status.hold.reason) if status.hold else None,
                "accepted": f"{figures.accepted:,} in 30 days",
                "bounced": f"{figures.bounced:,}",
                "spam": f"{figures.complained:,}",
            }
        )
    )
