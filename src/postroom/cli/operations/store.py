"""`postroom store`, `table` and `blob`: the store as a whole, and its contents."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.output import STANDARD, written
from postroom.cli.support.running import call, call_store, run, with_settings
from postroom.errors import PostroomError
from postroom.services.resources import describe_time
from postroom.services.resources.operations import describe_row
from postroom.settings import load_settings

if TYPE_CHECKING:
    from rich.text import Text

    from postroom.settings import Settings
    from postroom.storage import Entity, QueryResult
    from postroom.wiring import Services


@click.group("store")
def stores() -> None:
    """Copy the store to another engine, or re-encrypt its secrets."""


class MissingKey(PostroomError):
    """Some secrets could not be decrypted."""


@stores.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@output.json_option
def copy_store(source: str, target: str, as_json: bool) -> None:
    """Copy all data from one store to another, and compare them.

    FROM and TO are URLs as in the setting `store`. Stop all parts first. TO must be empty or
    contain an interrupted copy, which is continued. FROM does not change.
    """
    account = load_settings(os.environ, Path.cwd(), {}).storage.azure_connection_string
    report = run(_copy(source, target, account, quiet=as_json))
    if as_json:
        output.print_json(report)
        return
    output.say(
        f"Copied and compared: {report['entities']:,} entities, {report['messages']:,} queue"
        f" messages, {report['blobs']:,} blobs ({report['bytes']:,} bytes)."
    )
    output.say("Now set POSTROOM_STORE to the new store for every part, and start them.")


@stores.command("rekey")
@output.json_option
@with_settings
def rekey(settings: Settings, as_json: bool) -> None:
    """Encrypt the secrets in the store with the current secret key.

    To replace the secret key, set `secret_key` to the new and `old_secret_keys` to the old one,
    restart every part, and run this. Then remove the old key. It can be repeated.
    """
    from postroom.services.stored_secrets import SecretState

    counts = call(settings, lambda s: s.secrets.encrypt(SecretState.CLEAR, SecretState.OLD_KEY))
    if as_json:
        output.print_json({each.name.lower(): counts[each] for each in SecretState})
    else:
        done = counts.total() - counts[SecretState.UNREADABLE]
        output.say(
            f"Encrypted with the current key: {done:,} of {counts.total():,} secrets"
            f" ({counts[SecretState.OLD_KEY]:,} had an old key,"
            f" {counts[SecretState.CLEAR]:,} were in clear text)."
        )
    if unreadable := counts[SecretState.UNREADABLE]:
        raise MissingKey(
            f"{unreadable:,} of {counts.total():,} secrets cannot be decrypted: add the old key"
            " to POSTROOM_OLD_SECRET_KEYS and run this again"
        )


async def _copy(source: str, target: str, account: str, *, quiet: bool) -> dict[str, int]:
    import msgspec

    from postroom.services.operations.store_copy import CopyReport, StoreCopy
    from postroom.storage import open_existing_store, open_store

    async with (
        await open_existing_store(source, account) as old,
        await open_store(target, account) as new,
    ):
        with output.console(stderr=True).status("Copying", refresh_per_second=4) as shown:

            def show(what: str, report: CopyReport) -> None:
                shown.update(
                    f"{what}: {report.entities:,} entities, {report.messages:,} messages,"
                    f" {report.blobs:,} blobs; {report.compared:,} compared"
                )

            report = await StoreCopy(old, new, (lambda _, __: None) if quiet else show).run()
    counts: dict[str, int] = msgspec.to_builtins(report)
    return counts


@click.group("table")
def tables() -> None:
    """Inspect tables."""


@tables.command("ls")
@output.json_option
@with_settings
def list_tables(settings: Settings, as_json: bool) -> None:
    """Show the names of all tables."""
    found = call_store(settings, lambda store: store.tables())
    if as_json:
        output.print_items([{"name": name} for name in found])
    else:
        output.print_or_none(("table",), [(name,) for name in found])


@tables.command("show")
@click.argument("table")
@click.option("--partition", help="Show this partition only.")
@click.option("--row", help="Show this row of the partition only.")
@output.page_options(limit=100)
@output.json_option
@with_settings
def show_table(
    settings: Settings,
    table: str,
    partition: str | None,
    row: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """Show rows of a table, sorted by key.

    The emails of a page (messagepage) are shown as rows after it. Tables that may contain secrets,
    such as users, are not shown.
    """
    from postroom.services.operations.explorer import rows_to_show
    from postroom.storage import QueryResult

    if row is not None and partition is None:
        raise click.UsageError("--row needs --partition")

    async def query(services: Services) -> QueryResult:
        if partition is not None and row is not None:
            return QueryResult([await services.explorer.entity(table, partition, row)], None)
        return await services.explorer.rows(table, partition, limit=limit, after=after)

    found = call(settings, query)
    shown = [each for entity in found.entities for each in rows_to_show(table, entity)]
    if as_json:
        output.print_items(list(map(describe_row, shown)), found.next)
        return
    rows = [
        (output.plain(each.partition), output.plain(each.row), _properties(each)) for each in shown
    ]
    output.print_or_none(("partition", "row", "properties"), rows)
    chosen = "" if partition is None else f" --partition {shlex.quote(partition)}"
    output.more(found.next, f"postroom table show {table}{chosen}")


def _properties(entity: Entity) -> Text:
    from rich.text import Text

    from postroom.services.resources.operations import show_value

    lines = (f"{name} = {show_value(value)}" for name, value in entity.properties.items())
    return Text("\n").join(map(output.plain, lines))


@click.group("blob")
def blobs() -> None:
    """Inspect blobs."""


@blobs.command("ls")
@click.argument("container", required=False)
@click.option("--prefix", default="", help="Blobs whose names begin with this.")
@output.page_options(limit=100)
@output.json_option
@with_settings
def list_blobs(
    settings: Settings,
    container: str | None,
    prefix: str,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """Show all containers, or the blobs of one."""
    if container is None:
        names = call_store(settings, lambda store: store.containers())
        if as_json:
            output.print_items([{"name": name} for name in names])
        else:
            output.print_or_none(("container",), [(name,) for name in names])
        return
    found = call_store(
        settings, lambda store: store.container(container).list(prefix, limit=limit, after=after)
    )
    if as_json:
        items = [
            {"name": b.name, "size": b.size, "modified_at": describe_time(b.modified_at)}
            for b in found.blobs
        ]
        output.print_items(items, found.next)
        return
    rows = [(output.plain(b.name), f"{b.size:,}", output.when(b.modified_at)) for b in found.blobs]
    output.print_or_none(("blob", "#bytes", "written"), rows)
    output.more(found.next, f"postroom blob ls {container}")


@blobs.command("get")
@click.argument("container")
@click.argument("name")
@click.option(
    "--output",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    default=STANDARD,
    help="Write to this file. [default: standard output]",
)
@with_settings
def get_blob(settings: Settings, container: str, name: str, target: str) -> None:
    """Write the contents of a blob to standard output or a file."""

    async def work(services: Services) -> int:
        size = (await services.explorer.blob(container, name)).size
        with written(target) as file:
            async for piece in services.explorer.content(container, name):
                file.write(piece)
        return size

    size = call(settings, work)
    if target != STANDARD:
        output.say(f"{size:,} bytes of {name} written to {target}.")
