"""`postroom list email`."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, with_settings
from postroom.domain.audience.lists.list_emails import ListEmailKind
from postroom.domain.languages import LANGUAGES
from postroom.services.resources.audience import describe_list_email

if TYPE_CHECKING:
    from postroom.domain.audience.lists.lists import MailingList
    from postroom.settings import Settings

_LIST = click.argument("list_name", metavar="LIST")
_KIND = click.argument("kind", type=click.Choice([each.value for each in ListEmailKind]))
_LANGUAGE = click.option(
    "--language", type=click.Choice(LANGUAGES), help="By default, the list's language."
)


@click.group("email")
def list_email() -> None:
    """Edit the emails that a list sends automatically.

    These are the confirmation, and the welcome email of lists with --welcome-email.
    """


@list_email.command()
@_LIST
@_KIND
@_LANGUAGE
@output.json_option
@with_settings
def show(
    settings: Settings, list_name: str, kind: str, language: str | None, as_json: bool
) -> None:
    """Show the text of an email."""
    found = call(settings, lambda s: s.lists.get(list_name))
    _print(found, kind, language, as_json)


@list_email.command("set")
@_LIST
@_KIND
@_LANGUAGE
@click.option("--subject", required=True, help="The subject.")
@click.option(
    "--text", type=click.File(encoding="utf-8"), required=True, help="A file with Markdown."
)
@output.json_option
@with_settings
def set_text(
    settings: Settings,
    list_name: str,
    kind: str,
    language: str | None,
    subject: str,
    text: IO[str],
    as_json: bool,
) -> None:
    """Replace the text of an email. The confirmation must link to {{ confirm_url }}."""
    body = text.read()
    chosen = language or call(settings, lambda s: s.lists.get(list_name)).language
    saved = call(
        settings,
        lambda s: s.list_emails.save(list_name, ListEmailKind(kind), chosen, subject, body),
    )
    _print(saved, kind, chosen, as_json)


@list_email.command()
@_LIST
@_KIND
@_LANGUAGE
@output.json_option
@with_settings
def reset(
    settings: Settings, list_name: str, kind: str, language: str | None, as_json: bool
) -> None:
    """Reset an email to the standard text."""
    chosen = language or call(settings, lambda s: s.lists.get(list_name)).language
    saved = call(settings, lambda s: s.list_emails.reset(list_name, ListEmailKind(kind), chosen))
    _print(saved, kind, chosen, as_json)


def _print(mailing_list: MailingList, kind: str, language: str | None, as_json: bool) -> None:
    from postroom.services.audience.list_emails import written_email

    shown = language or mailing_list.language
    written = written_email(mailing_list, ListEmailKind(kind), shown)
    if as_json:
        output.print_json(describe_list_email(written))
        return
    whose = "own text" if written.is_own else "standard text"
    output.say(f"{kind.capitalize()} email of {mailing_list.name} ({shown}, {whose})")
    output.say(f"\nSubject: {written.email.subject}\n\n{written.email.text}")
