"""`postroom dkim`: keys that sign emails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.services.resources.deliverability.sending_domains import describe_dkim_key

if TYPE_CHECKING:
    from postroom.domain.messages.delivery.dkim_keys import DkimKey
    from postroom.services.messages.domains.record_findings import RecordFinding
    from postroom.settings import Settings
    from postroom.wiring import Services

_STRING = 255  # RFC 1035 3.3.14: a TXT record consists of strings of at most this length


@click.group("dkim")
def dkim() -> None:
    """Manage the DKIM keys that sign emails."""


@dkim.command()
@click.argument("domain")
@click.option(
    "--algorithm",
    type=click.Choice(["rsa", "ed25519"]),
    default="rsa",
    show_default=True,
    help="Every receiver verifies rsa. Add an ed25519 key as a second signature.",
)
@click.option("--selector", default="", help="Its name in DNS. [default: generated]")
@output.json_option
@with_settings
def create(settings: Settings, domain: str, algorithm: str, selector: str, as_json: bool) -> None:
    """Create a key for a From domain, and show its DNS record. It does not sign yet."""
    key = call(settings, lambda s: s.dkim_keys.create(domain, algorithm, selector))
    if as_json:
        output.print_json(describe_dkim_key(key))
    else:
        _show_new([key])


@dkim.command()
@click.argument("domain")
@output.json_option
@with_settings
def rotate(settings: Settings, domain: str, as_json: bool) -> None:
    """Create a successor for each key that signs for a domain. The old key keeps signing until its
    successor is activated."""
    keys = call(settings, lambda s: s.dkim_keys.rotate(domain))
    if as_json:
        output.print_items(map(describe_dkim_key, keys))
    else:
        _show_new(keys)


@dkim.command()
@click.argument("domain", required=False)
@output.json_option
@with_settings
def ls(settings: Settings, domain: str | None, as_json: bool) -> None:
    """Show the keys of all domains, or of one, newest first."""

    async def work(services: Services) -> list[DkimKey]:
        keys = services.dkim_keys
        return await (keys.all() if domain is None else keys.of_domain(domain))

    found = call(settings, work)
    if as_json:
        output.print_items(map(describe_dkim_key, found))
        return
    if not found:
        output.note("No DKIM keys: emails are signed by your mail server, or not at all.")
        return
    rows = [
        (each.domain, each.selector, each.algorithm, each.state, output.when(each.changed_at))
        for each in found
    ]
    output.console().print(
        output.table(("domain", "selector", "algorithm", "state", "since"), rows)
    )


@dkim.command()
@click.argument("domain")
@click.argument("selector")
@output.json_option
@with_settings
def show(settings: Settings, domain: str, selector: str, as_json: bool) -> None:
    """Show a key, its DNS record, and whether it is published."""
    from postroom.wiring import make_domain_checks

    async def work(services: Services) -> tuple[DkimKey, RecordFinding | None]:
        key = await services.dkim_keys.get(domain, selector)
        checks = make_domain_checks(services, settings)
        return key, await checks.check_key(key) if checks.is_online else None

    key, finding = call(settings, work)
    if as_json:
        state = None if finding is None else finding.state
        output.print_json({**output.builtins(describe_dkim_key(key)), "dns": state})
        return
    output.console().print(
        output.details(
            {
                "domain": key.domain,
                "selector": key.selector,
                "algorithm": key.algorithm,
                "state": key.state,
                "since": output.when(key.changed_at),
                "DNS": None if finding is None else finding.text,
            }
        )
    )
    _show_record(key)


@dkim.command()
@click.argument("domain")
@click.argument("selector")
@click.option("--without-check", is_flag=True, help="Do not look for its record in DNS first.")
@output.json_option
@with_settings
def activate(
    settings: Settings, domain: str, selector: str, without_check: bool, as_json: bool
) -> None:
    """Sign with this key from now on. The previous key of the same algorithm is retired."""
    from postroom.domain.errors import NotNow
    from postroom.wiring import make_domain_checks

    async def work(services: Services) -> DkimKey:
        checks = make_domain_checks(services, settings)
        return await checks.activate(domain, selector, without_check=without_check)

    try:
        activated = call(settings, work)
    except NotNow as exc:
        raise NotNow(f"{exc}. Publish its record first, or use --without-check") from exc
    text = f"{activated.selector} signs for {activated.domain} within 10 seconds."
    _show_changed(activated, as_json, text)


@dkim.command()
@click.argument("domain")
@click.argument("selector")
@output.json_option
@with_settings
def deactivate(settings: Settings, domain: str, selector: str, as_json: bool) -> None:
    """Stop signing with this key. Keep its DNS record for a week: emails are still in transit."""
    key = call(settings, lambda s: s.dkim_keys.deactivate(domain, selector))
    _show_changed(key, as_json, f"{key.selector} no longer signs for {key.domain}.")


@dkim.command()
@click.argument("domain")
@click.argument("selector")
@output.yes_option
@output.json_option
@with_settings
def remove(settings: Settings, domain: str, selector: str, yes: bool, as_json: bool) -> None:
    """Remove a key that does not sign."""
    output.confirm(f"Remove the key {selector} of {domain}? It cannot be restored.", yes=yes)
    key = call(settings, lambda s: s.dkim_keys.remove(domain, selector))
    _show_changed(
        key, as_json, f"Key {key.selector} removed. You can now delete {key.record_name} in DNS."
    )


def _show_new(keys: Sequence[DkimKey]) -> None:
    for key in keys:
        output.say(f"Key {key.selector} created for {key.domain}. Publish this TXT record:")
        _show_record(key)
        output.say(f"Then sign with it: postroom dkim activate {key.domain} {key.selector}")


def _show_record(key: DkimKey) -> None:
    value = key.record_value
    strings = [value[start : start + _STRING] for start in range(0, len(value), _STRING)]
    quoted = " ".join(f'"{each}"' for each in strings)
    output.say(f"\n{key.record_name}. IN TXT {quoted}\n")


def _show_changed(key: DkimKey, as_json: bool, text: str) -> None:
    if as_json:
        output.print_json(describe_dkim_key(key))
    else:
        output.say(text)
