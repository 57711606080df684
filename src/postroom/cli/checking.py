"""`postroom check`: settings, store, transport."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
import msgspec

from postroom.cli import output
from postroom.cli.running import run, with_settings
from postroom.errors import PostroomError

if TYPE_CHECKING:
    from rich.text import Text

    from postroom.settings import FoundSetting, Settings

OK, WARNING, ERROR = "OK", "warning", "error"


class NotWell(PostroomError):
    """Something does not work."""


class Finding(msgspec.Struct, frozen=True):
    """What was found about one part, and what to do if it is not well."""

    part: str
    state: str
    text: str
    advice: str = ""


@click.command()
@click.option("--transport", help="The way out, as in the setting `transport`.")
@output.json_option
@with_settings
def check(settings: Settings, as_json: bool) -> None:
    """Settings, store and transport: does it work?

    Shows each setting and where it comes from, opens the store, and tries the transport as far as
    possible without sending. Exit status 1 if something does not work.
    """
    findings = run(_all_findings(settings))
    if as_json:
        _print_json(settings, findings)
    else:
        _print(settings, findings)
    broken = [each.part for each in findings if each.state == ERROR]
    if broken:
        raise NotWell(f"not well: {', '.join(broken)} (see above)")


async def _all_findings(settings: Settings) -> list[Finding]:
    findings = [_data_folder(settings), await _store(settings), await _transport(settings)]
    findings += [each async for each in _hints(settings)]
    return findings


def _data_folder(settings: Settings) -> Finding:
    """The nearest folder above that is there decides whether it can be made."""
    path = settings.data.absolute()
    there = next((each for each in (path, *path.parents) if each.exists()), path)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding("data", ERROR, f"{path} cannot be written", "Choose another with --data.")
    news = "can be written" if there == path else "is made when it is needed"
    return Finding("data", OK, f"{path} {news}")


async def _store(settings: Settings) -> Finding:
    from postroom.storage import AccessDenied, InvalidStoreUrl, StoreUnavailable
    from postroom.wiring import opened_store

    try:
        async with opened_store(settings) as store:
            info = await store.info()
    except PostroomError as exc:
        advice = ""
        if isinstance(exc, StoreUnavailable):
            advice = "Is it running, and are host and port right?"
        elif isinstance(exc, AccessDenied):
            advice = "Check user, password and rights."
        elif isinstance(exc, InvalidStoreUrl):
            advice = f"Correct the setting store (from {settings.found['store'].origin})."
        return Finding("store", ERROR, _one_line(exc), advice)
    return Finding(
        "store", OK, f"{info.engine} at {info.location}, schema version {info.schema_version}"
    )


async def _transport(settings: Settings) -> Finding:
    from postroom.wiring import opened_transport

    try:
        async with opened_transport(settings) as transport:
            found = await transport.check()
    except PostroomError as exc:
        origin = settings.found["transport"].origin
        return Finding(
            "transport", ERROR, _one_line(exc), f"Look at the setting transport (from {origin})."
        )
    if settings.text("transport").startswith("outbox:"):
        return Finding(
            "transport", WARNING, found, "To send mail, set transport to smtp://… or sendgrid://"
        )
    return Finding("transport", OK, found)


async def _hints(settings: Settings) -> AsyncIterator[Finding]:
    """What works, and yet is hardly meant."""
    url = settings.text("base_url")
    sends = not settings.text("transport").startswith("outbox:")
    if sends and (urlsplit(url).hostname or "") in ("localhost", "127.0.0.1", "::1"):
        yield Finding(
            "base_url",
            WARNING,
            f"links in mails lead to {url}, which only this machine can open",
            "Set base_url to the address that subscribers can reach.",
        )
    elif sends and url.startswith("http://"):
        yield Finding(
            "base_url",
            WARNING,
            f"links in mails lead to {url}, without encryption",
            "One-click unsubscribing needs https (RFC 8058).",
        )


def _one_line(exc: Exception) -> str:
    return " ".join(str(exc).split())


def _print(settings: Settings, findings: list[Finding]) -> None:
    console = output.console()
    rows = [
        (found.setting.name, output.plain(_value(settings, found)), found.origin)
        for found in settings.found.values()
    ]
    console.print(output.table(("setting", "value", "from"), rows))
    console.print()
    shown = [(output.state(each.state), each.part, _told(each)) for each in findings]
    console.print(output.table(("", "part", "what was found"), shown))


def _value(settings: Settings, found: FoundSetting) -> str:
    """What counts: without a URL the store is a file in the data folder."""
    is_implied = found.setting.name == "store" and not found.text
    return settings.store_url if is_implied else found.shown


def _told(finding: Finding) -> Text:
    told = output.plain(finding.text)
    return told.append(f"\n{finding.advice}", "dim") if finding.advice else told


def _print_json(settings: Settings, findings: list[Finding]) -> None:
    output.print_json(
        {
            "ok": all(each.state != ERROR for each in findings),
            "settings": [
                {"name": found.setting.name, "value": _value(settings, found), "from": found.origin}
                for found in settings.found.values()
            ],
            "findings": [
                {
                    "part": each.part,
                    "state": each.state.lower(),
                    "text": each.text,
                    "advice": each.advice or None,
                }
                for each in findings
            ],
        }
    )
