"""`postroom check`: settings, store, transport and everything else that sending needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import run, with_settings
from postroom.errors import PostroomError

if TYPE_CHECKING:
    from rich.text import Text

    from postroom.checks import Finding
    from postroom.settings import Settings


class CheckFailed(PostroomError):
    """A check found an error."""


@click.command()
@click.option("--transport", help="How to send, as in the setting `transport`.")
@click.option(
    "--mail-to", default="", metavar="ADDRESS", help="Also send a test email to this address."
)
@click.option(
    "--from",
    "mail_from",
    default="",
    metavar="ADDRESS",
    help="The test email's From address. [default: alert_from, or the first list's]",
)
@output.json_option
@with_settings
def check(settings: Settings, mail_to: str, mail_from: str, as_json: bool) -> None:
    """Check settings, store and transport.

    Checks the data folder and its permissions, the disk, the store and its clock, the applications
    of postroom.toml, the transport (without sending), the base URL, and the DNS records of the
    domains that lists send from. Then shows each setting and its source. Exit status 1 if there is
    an error.
    """
    from postroom.checks import FindingState, check_everything, load_all_settings

    if mail_from and not mail_to:
        raise click.UsageError("--from needs --mail-to, the address of the test email")
    settings, unreadable = run(load_all_settings(settings))
    findings = run(check_everything(settings, mail_to=mail_to, mail_from=mail_from))
    findings[:0] = unreadable
    if as_json:
        _print_json(settings, findings)
    else:
        _print(settings, findings)
    broken = [each.part for each in findings if each.state is FindingState.ERROR]
    if broken:
        raise CheckFailed(f"problems found: {', '.join(broken)} (see above)")


def _print(settings: Settings, findings: list[Finding]) -> None:
    console = output.console()
    shown = [(output.state(each.state.value), each.part, _text(each)) for each in findings]
    console.print(output.table(("", "part", "finding"), shown))
    console.print()
    rows = [
        (found.setting.name, output.plain(found.shown), found.origin)
        for found in settings.found.values()
    ]
    console.print(output.table(("setting", "value", "from"), rows))


def _text(finding: Finding) -> Text:
    text = output.plain(finding.text)
    return text.append(f"\n{finding.advice}", "dim") if finding.advice else text


def _print_json(settings: Settings, findings: list[Finding]) -> None:
    from postroom.checks import FindingState

    output.print_json(
        {
            "ok": all(each.state is not FindingState.ERROR for each in findings),
            "findings": [
                {
                    "part": each.part,
                    "state": each.state.lower(),
                    "text": each.text,
                    "advice": each.advice or None,
                }
                for each in findings
            ],
            "settings": [
                {"name": found.setting.name, "value": found.shown, "from": found.origin}
                for found in settings.found.values()
            ],
        }
    )
