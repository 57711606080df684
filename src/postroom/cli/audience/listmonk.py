"""`postroom subscriber import-listmonk`: subscribers from the API of a listmonk installation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from postroom.cli.audience.csv_files import ImportChoices, import_options, run_import
from postroom.cli.support import output
from postroom.cli.support.running import read_pairs, with_settings
from postroom.services.audience.files.columns.dates import DateOrder
from postroom.services.audience.files.import_report import Existing

if TYPE_CHECKING:
    from typing import BinaryIO

    from postroom.services.audience.listmonk.listmonk_api import ListmonkApi
    from postroom.settings import Settings


@click.command("import-listmonk")
@click.argument("list_name", metavar="LIST")
@click.argument("url", metavar="URL")
@click.option("--list", "source", default="", help="The list of listmonk: its name or number.")
@click.option("--user", required=True, help="An API user of listmonk.")
@click.option(
    "--token",
    envvar="LISTMONK_TOKEN",
    prompt=True,
    hide_input=True,
    help="Its access token. [env: LISTMONK_TOKEN; otherwise it is asked for]",
)
@import_options
@output.json_option
@with_settings
def import_listmonk(
    settings: Settings,
    list_name: str,
    url: str,
    source: str,
    user: str,
    token: str,
    verified: bool,
    even_unsubscribed: bool,
    existing: str,
    create_fields: bool,
    dry_run: bool,
    rejected: str | None,
    columns: tuple[str, ...],
    date_order: str,
    as_json: bool,
) -> None:
    """Import a listmonk list through its API.

    Subscribers keep their states.

    URL is the address of listmonk, such as https://listmonk.example.org; it may be a private one.
    The API user needs the permissions lists:get_all and subscribers:get. The token is not stored.
    Without --list, the lists of listmonk are shown.

    People who unsubscribed from the list, and disabled ones, are recorded as unsubscribed;
    blocklisted ones are blocked. Those of a single opt-in list who never confirmed are confirmed
    only with --verified. Attributes named like fields fill them; --create-fields creates fields for
    the rest. listmonk's unsubscribe links can keep working: see the guide 'Old unsubscribe links'.
    """
    from postroom.services.audience.listmonk.listmonk_api import (
        ListmonkAccount,
        ListmonkApi,
        anywhere,
    )
    from postroom.services.audience.listmonk.listmonk_file import USES

    api = ListmonkApi(ListmonkAccount(url, user, token), anywhere)
    if not source:
        _show_lists(api, as_json=as_json)
        return
    choices = ImportChoices(
        None, verified, even_unsubscribed, Existing(existing), create_fields, dry_run,
        {**dict(USES), **read_pairs(columns, "--column")}, DateOrder(date_order), rejected,
    )  # fmt: skip
    with asyncio.run(_read(api, source)) as file:
        run_import(settings, list_name, file, choices, as_json=as_json)


async def _read(api: ListmonkApi, source: str) -> BinaryIO:
    from postroom.services.audience.listmonk.listmonk_file import listmonk_file

    return await listmonk_file(api, await api.list(source), lambda count, total: None)


def _show_lists(api: ListmonkApi, *, as_json: bool) -> None:
    lists = asyncio.run(api.lists())
    if as_json:
        output.print_json(
            [{"id": each.id, "name": each.name, "opt_in": each.optin} for each in lists]
        )
        return
    rows = [
        (str(each.id), output.plain(each.name), output.plain(each.optin), each.subscriber_count)
        for each in lists
    ]
    shown = [(*row[:3], f"{row[3]:,}") for row in rows]
    output.console().print(output.table(("#id", "name", "opt-in", "#subscribers"), shown))
    output.say("Choose one with --list NAME.")
