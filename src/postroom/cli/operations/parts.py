"""`postroom up`, and `web`, `scheduler`, `sender` and `host`: everything or one part, until it is
stopped."""

from __future__ import annotations

import asyncio
import io
import random
import socket
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from postroom.cli.support.running import run_until_stopped, with_settings
from postroom.domain.errors import NotNow
from postroom.hosted import register_apps, run_host
from postroom.services.messages.message_contents import NewBodies
from postroom.settings import Settings
from postroom.transport.registry import sends_mail
from postroom.wiring import (
    Services,
    make_alerts,
    make_retention,
    opened_sending,
    opened_services,
    opened_transport,
    run_confirmations,
    run_scheduler,
    run_sender,
)

if TYPE_CHECKING:
    from postroom.web.serving.server import FirstStep


@click.command()
@click.option("--transport", help="How to send, as in the setting `transport`.")
@click.option("--port", help="The port of the web pages, as in the setting `port`.")
@click.option("--demo", is_flag=True, help="Start with two example lists and messages.")
@with_settings
def up(settings: Settings, demo: bool) -> None:
    """Run everything: web, scheduler and host. Senders start when they are needed."""
    from postroom.web.context import make_context
    from postroom.web.serving.server import bound_socket, first_step, serve

    listener = bound_socket(settings)

    async def work(stopping: asyncio.Event) -> None:
        async with opened_services(settings) as services, opened_transport(settings) as transport:
            await register_apps(settings, services.apps)
            filled = demo and await fill_with_examples(services, settings)
            context = make_context(services, settings)
            async with asyncio.TaskGroup() as parts:
                parts.create_task(serve(context, listener, stopping))
                parts.create_task(run_scheduler(services, settings, stopping))
                parts.create_task(make_retention(services, settings).run(stopping))
                parts.create_task(run_host(services, settings, stopping))
                alerts = make_alerts(services, transport, settings)
                if alerts is not None:
                    parts.create_task(alerts.run(stopping))
                _print_summary(settings, await first_step(context), listener, demo=filled)

    run_until_stopped(work, settings)
    with suppress(OSError):  # the terminal may be closed
        click.echo("Stopped.", err=True)


def _print_summary(
    settings: Settings, first: FirstStep, listener: socket.socket, *, demo: bool
) -> None:
    """Print where to go next."""
    address, port = listener.getsockname()[:2]
    here = f"http://{'localhost' if address in ('127.0.0.1', '0.0.0.0') else address}:{port}"  # noqa: S104
    click.secho(
        "\n  Postroom is running. Press Ctrl-C to stop it.\n", fg="green", bold=True, err=True
    )
    file = settings.storage.file
    lines = {
        "Open": first.link or here,
        "Data": str(settings.storage.data.absolute()),
        "Store": f"SQLite, {file}" if file else settings.found["store"].shown,
        "Transport": settings.found["transport"].shown,
    }
    for name, value in lines.items():
        click.echo(f"  {click.style(f'{name:<10}', dim=True)} {value}", err=True)
    if first.link:
        click.echo(f"  {'':<10} The link creates your administrator account.", err=True)
    elif first.is_needed:
        from postroom.web.serving.server import ADD_FIRST_USER

        click.echo(f"  {'First':<10} {ADD_FIRST_USER}", err=True)
    if demo:
        click.echo(f"  {'':<10} The demo's first message is being sent now.", err=True)
    missing = _missing_for_production(settings)
    if missing:
        click.secho("\n  Before you go live:", fg="yellow", err=True)
        for each in missing:
            click.echo(f"  • {each}", err=True)
    click.echo("\n  Check your setup:  postroom check\n", err=True)


def _missing_for_production(settings: Settings) -> list[str]:
    missing = []
    if not sends_mail(settings.transport.url):
        missing.append(
            "Emails are kept in the outbox and not sent: set POSTROOM_TRANSPORT=smtp://…"
        )
    base_url = settings.web.base_url
    if urlsplit(base_url).hostname in ("localhost", "127.0.0.1", "::1"):
        missing.append(f"Links in emails lead to {base_url}: set POSTROOM_BASE_URL=https://…")
    elif base_url.startswith("http://"):
        missing.append("One-click unsubscribe needs https: put a proxy with TLS in front.")
    if not settings.alerts.email and not settings.alerts.webhook:
        missing.append("Nobody is alerted when a message is paused: set POSTROOM_ALERT_EMAIL.")
    return missing


_GARDEN = "garden-club"
_SHOP = "contoso-news"
_NAMES = (
    *("ada", "amir", "bela", "carmen", "chidi", "dana", "elif", "emil", "fatou", "george"),
    *("hana", "igor", "ines", "jonas", "keiko", "lars", "lucia", "mateo", "mina", "nadia"),
    *("noor", "olga", "oscar", "paulo", "priya", "quinn", "rosa", "sami", "tariq", "ulla"),
    *("vera", "wanda", "xavier", "yara", "yuki", "zoe"),
)
_DOMAINS = ("example.com", "example.net", "example.org", "mail.example.com")

_WELCOME_HTML = """<!doctype html>
<html><body style="font-family: sans-serif; max-width: 36rem; margin: auto">
<h1>The garden in November</h1>
<p>Dear member,</p>
<p>the tulips are in, the compost is turned, and on Saturday we prune the apple trees.
Bring gloves; there will be soup.</p>
<p>You read this as {{ email }}.</p>
<p><a href="{{ unsubscribe_url }}">Leave the list “{{ list_description }}”</a></p>
</body></html>
"""
_SALE_HTML = """<!doctype html>
<html><body style="font-family: sans-serif; max-width: 36rem; margin: auto">
<h1>Winter is coming to Contoso</h1>
<p>From Monday on: everything that keeps you warm, at a third less.</p>
<p><a href="{{ unsubscribe_url }}">No more of these</a></p>
</body></html>
"""


async def fill_with_examples(services: Services, settings: Settings) -> bool:
    """Create example data, for `--demo`; return False if there are lists already.

    `NotNow` with a transport that sends: the addresses are nobody's (RFC 2606).
    """
    if sends_mail(settings.transport.url):
        raise NotNow("--demo sends to invented addresses: use the transport outbox:")
    if (await services.lists.page(limit=1)).lists:
        return False
    dice = random.Random(1)  # noqa: S311 - every demo looks the same
    await _make_list(services, dice, _GARDEN, "Garden club", "garden@example.com", 240)
    await _make_list(services, dice, _SHOP, "Contoso news", "news@example.com", 1200)
    now = datetime.now(UTC)
    await services.messages.create(
        _GARDEN, "The garden in November", NewBodies(_WELCOME_HTML, None), now
    )
    await services.messages.create(
        _SHOP, "Winter is coming: a third off", NewBodies(_SALE_HTML, None), now + timedelta(days=3)
    )
    return True


async def _make_list(
    services: Services, dice: random.Random, name: str, description: str, sender: str, size: int
) -> None:
    await services.lists.create(name, description, sender)
    lines = ["email,verified"]
    for number in range(size):
        address = f"{dice.choice(_NAMES)}.{number}@{dice.choice(_DOMAINS)}"
        lines.append(f"{address},{'true' if dice.random() < 0.92 else 'false'}")
    await services.imports.import_csv(name, io.BytesIO("\n".join(lines).encode()))


_TRANSPORT = click.option("--transport", help="How to send, as in the setting `transport`.")


@click.command()
@with_settings
def scheduler(settings: Settings) -> None:
    """Split due messages into pages for the senders. Any number may run; one is active."""

    async def work(stopping: asyncio.Event) -> None:
        async with opened_services(settings) as services, opened_transport(settings) as transport:
            alerts = make_alerts(services, transport, settings)
            async with asyncio.TaskGroup() as parts:
                parts.create_task(run_scheduler(services, settings, stopping))
                parts.create_task(make_retention(services, settings).run(stopping))
                if alerts is not None:
                    parts.create_task(alerts.run(stopping))

    run_until_stopped(work, settings)


@click.command()
@_TRANSPORT
@with_settings
def sender(settings: Settings) -> None:
    """Send the emails of pages. Any number may run, on any number of machines."""

    async def work(stopping: asyncio.Event) -> None:
        async with (
            opened_sending(settings) as (services, transport),
            asyncio.TaskGroup() as parts,
        ):
            parts.create_task(run_sender(services, transport, settings, stopping))
            parts.create_task(run_confirmations(services, transport, settings, stopping))

    run_until_stopped(work, settings)


@click.command()
@_TRANSPORT
@with_settings
def host(settings: Settings) -> None:
    """Start applications when messages arrive, and stop idle ones. Any number may run.

    Runs Postroom's own senders, the applications in the file postroom.toml of this folder, and
    those that `postroom app add` registered.
    """

    async def work(stopping: asyncio.Event) -> None:
        async with opened_services(settings) as services:
            await register_apps(settings, services.apps)
            await run_host(services, settings, stopping)

    run_until_stopped(work, settings)


@click.command()
@click.option("--port", help="The port, as in the setting `port`.")
@with_settings
def web(settings: Settings) -> None:
    """Serve the web pages and the API. Any number may run."""
    from postroom.web.context import make_context
    from postroom.web.serving.server import bound_socket, print_url, serve
    from postroom.wiring import opened_services

    listener = bound_socket(settings)

    async def work(stopping: asyncio.Event) -> None:
        async with opened_services(settings) as services:
            context = make_context(services, settings)
            await print_url(context, listener)
            await serve(context, listener, stopping)

    run_until_stopped(work, settings)
