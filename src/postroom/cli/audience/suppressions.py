"""`postroom suppression`."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from postroom import clock
from postroom.cli.support import output
from postroom.cli.support.output import STANDARD, FileError, written
from postroom.cli.support.running import call, with_settings
from postroom.domain.audience.suppressions import end_of_day
from postroom.services.resources.deliverability.suppressions import (
    describe_suppression,
    describe_suppression_import,
)

if TYPE_CHECKING:
    from postroom.domain.audience.suppressions import Suppression
    from postroom.services.audience.suppression.suppression_files import SuppressionImport
    from postroom.settings import Settings
    from postroom.wiring import Services

_SOURCE = "command line"
_ERRORS_SHOWN = 10

list_option = click.option(
    "--list", "list_name", metavar="LIST", help="On this list only. [default: on every list]"
)


@click.group("suppression")
def suppressions() -> None:
    """Manage addresses that must not receive email."""


@suppressions.command()
@click.argument("email")
@click.option("--reason", default="request", show_default=True, help="Why it is suppressed.")
@list_option
@click.option(
    "--until",
    metavar="DAY",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The last day, in UTC, such as 2027-01-31. [default: until someone lifts it]",
)
@output.json_option
@with_settings
def add(
    settings: Settings,
    email: str,
    reason: str,
    list_name: str | None,
    until: datetime | None,
    as_json: bool,
) -> None:
    """Suppress an address: it receives no email, on any list or on one."""
    expires_at = None if until is None else end_of_day(until.date(), clock.now())
    created = call(
        settings,
        lambda s: s.suppressions.suppress(
            email, reason, source=_SOURCE, list_name=list_name, expires_at=expires_at
        ),
    )
    _show(created, as_json, f"{created.address} suppressed.")


@suppressions.command()
@click.option("--search", "contains", default="", help="Only addresses that contain this.")
@output.page_options(limit=100)
@output.json_option
@with_settings
def ls(settings: Settings, contains: str, limit: int, after: str | None, as_json: bool) -> None:
    """Show suppressed addresses, newest first."""
    found = call(
        settings, lambda s: s.suppressions.slice(contains=contains, limit=limit, after=after)
    )
    if as_json:
        output.print_items(map(describe_suppression, found.suppressions), found.next)
        return
    rows = [
        (
            output.plain(each.address or "(erased)"),
            each.list_name or "every list",
            output.plain(each.reason),
            output.when(each.created_at),
            output.when(each.expires_at) if each.expires_at else "",
        )
        for each in found.suppressions
    ]
    if not rows:
        output.note("No suppressed addresses.")
        return
    output.console().print(output.table(("address", "on", "reason", "since", "until"), rows))
    output.more(found.next, "postroom suppression ls")


@suppressions.command()
@click.argument("email")
@list_option
@output.json_option
@with_settings
def show(settings: Settings, email: str, list_name: str | None, as_json: bool) -> None:
    """Show why an address is suppressed."""
    _show(call(settings, lambda s: s.suppressions.get(email, list_name)), as_json, None)


@suppressions.command()
@click.argument("email")
@list_option
@output.json_option
@with_settings
def lift(settings: Settings, email: str, list_name: str | None, as_json: bool) -> None:
    """Lift a suppression. The bounces that led to it no longer count."""
    lifted = call(settings, lambda s: s.suppressions.lift(email, list_name))
    if as_json:
        output.print_json({"email": lifted.address, "list": lifted.list_name, "lifted": True})
    else:
        output.say(f"{lifted.address} is no longer suppressed.")


@suppressions.command("import")
@click.argument(
    "source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@click.option(
    "--reason", default="request", show_default=True, help="For lines that have no reason."
)
@output.json_option
@with_settings
def import_file(settings: Settings, source: str, reason: str, as_json: bool) -> None:
    """Suppress the addresses of a file.

    FILE may be '-' for standard input. It has an address per line, or a header line with the
    columns email, list, reason and expires_at, of which only email is required. Addresses that are
    already suppressed stay as they are. To finish an interrupted import, import the file again.
    """
    from postroom.services.audience.suppression.suppression_files import import_suppressions

    data = _read(source)

    async def work(services: Services) -> SuppressionImport:
        return await import_suppressions(services.suppressions, data, source=_SOURCE, reason=reason)

    report = call(settings, work)
    if as_json:
        output.print_json(describe_suppression_import(report))
    else:
        _show_report(report)
    if report.rejected and len(report.rejected) == report.lines:
        raise FileError("no line of the file could be used")


@suppressions.command("export")
@click.argument(
    "target", metavar="[FILE]", default=STANDARD, type=click.Path(dir_okay=False, allow_dash=True)
)
@with_settings
def export_file(settings: Settings, target: str) -> None:
    """Export all suppressions to a CSV file, newest first. Without FILE, to standard output."""
    from postroom.services.audience.suppression.suppression_files import export_suppressions

    async def work(services: Services) -> int:
        lines = -1  # not counting the header
        with written(target) as file:
            async for piece in export_suppressions(services.suppressions):
                file.write(piece.encode())
                lines += piece.count("\n")
        return lines

    count = call(settings, work)
    if target != STANDARD:
        output.say(f"{output.counted(count, 'suppression')} exported to {target}.")


def _read(source: str) -> bytes:
    if source == STANDARD:
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as exc:
        raise FileError(f"{source} cannot be read: {exc.strerror}") from exc


def _show_report(report: SuppressionImport) -> None:
    output.say(
        f"{report.added:,} suppressed, {report.unchanged:,} already suppressed,"
        f" {len(report.rejected):,} rejected."
    )
    if report.rejected:
        rows = [
            (f"{each.line:,}", output.plain(each.email), output.plain(each.reason))
            for each in report.rejected[:_ERRORS_SHOWN]
        ]
        output.console().print(output.table(("#line", "email", "reason"), rows))
    if len(report.rejected) > _ERRORS_SHOWN:
        output.say(f"… and {len(report.rejected) - _ERRORS_SHOWN:,} more.")


def _show(suppression: Suppression, as_json: bool, news: str | None) -> None:
    if as_json:
        output.print_json(describe_suppression(suppression))
        return
    if news is not None:
        output.say(news)
    output.console().print(
        output.details(
            {
                "address": output.plain(suppression.address),
                "on": suppression.list_name or "every list",
                "reason": output.plain(suppression.reason),
                "source": output.plain(suppression.source),
                "since": output.when(suppression.created_at),
                "until": output.when(suppression.expires_at) if suppression.expires_at else None,
                "message": suppression.ref,
                "text": output.plain(suppression.diagnostic) if suppression.diagnostic else None,
            }
        )
    )
