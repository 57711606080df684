"""`postroom provider`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.domain.messages.providers import Provider, parse_provider
from postroom.services.resources.providers import describe_provider

if TYPE_CHECKING:
    from postroom.services.audience.suppression.provider_overview import ProviderStatus
    from postroom.settings import Settings
    from postroom.wiring import Services

_NO_LIMIT = "none"


@click.group("provider")
def providers() -> None:
    """Show how fast providers accept emails, and limit that."""


@providers.command()
@output.json_option
@with_settings
def ls(settings: Settings, as_json: bool) -> None:
    """Show the providers that are limited or held, and the largest others."""
    found = call(settings, lambda s: s.provider_overview.all())
    if as_json:
        output.print_items(map(describe_provider, found), None)
        return
    if not found:
        output.note("No providers yet: they appear when messages have been sent.")
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
@output.json_option
@with_settings
def limit(
    settings: Settings, provider: str, rate: str | None, connections: str | None, as_json: bool
) -> None:
    """Limit how fast a provider gets emails. Options that are left out stay as they are."""
    name = parse_provider(provider)
    changes: dict[str, float | int | None] = {}
    if rate is not None:
        changes["per_second"] = None if rate == _NO_LIMIT else _number("--rate", rate, float)
    if connections is not None:
        given = None if connections == _NO_LIMIT else _number("--connections", connections, int)
        changes["connections"] = given

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
