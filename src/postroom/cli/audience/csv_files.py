"""`postroom subscriber import` and `export`: CSV files, with progress bars."""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import click
import msgspec

from postroom.cli.support import output
from postroom.cli.support.output import STANDARD, FileError, written
from postroom.cli.support.running import call, read_pairs, with_settings
from postroom.folders import open_private
from postroom.services.audience.files.columns.dates import DateOrder
from postroom.services.audience.files.import_report import Existing
from postroom.services.resources.audience import describe_import

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from postroom.services.audience.files.import_report import ImportReport, RejectedLine
    from postroom.settings import Settings
    from postroom.wiring import Services

_ERRORS_SHOWN = 10


_OPTIONS = (
    click.option(
        "--verified",
        is_flag=True,
        help="Import subscribers as confirmed unless their row says otherwise.",
    ),
    click.option(
        "--even-unsubscribed",
        is_flag=True,
        help="Re-subscribe people who unsubscribed. Use it only if they asked you to.",
    ),
    click.option(
        "--existing",
        type=click.Choice([each.value for each in Existing]),
        default=Existing.OVERWRITE.value,
        show_default=True,
        help="What happens to the fields of existing subscribers. An empty cell never removes a"
        " value.",
    ),
    click.option("--create-fields", is_flag=True, help="Create text fields for unknown columns."),
    click.option(
        "--dry-run", is_flag=True, help="Show what the import would do without changing anything."
    ),
    click.option(
        "--rejected",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Write all rejected lines to this CSV file.",
    ),
    click.option(
        "--column",
        "columns",
        metavar="NAME=USE",
        multiple=True,
        help="What a column is used for: skip, address, status, note, foreign_id (the id in old"
        " unsubscribe links), field:NAME, new:text, new:choices and so on. Can be repeated.",
    ),
    click.option(
        "--date-order",
        type=click.Choice([each.value for each in DateOrder]),
        default=DateOrder.YEAR_FIRST.value,
        show_default=True,
        help="How dates such as 2/3/2026 are read. With year_first, rows with such dates are"
        " rejected; 2026-01-31 and 31.1.2026 are understood in any order.",
    ),
)

F = TypeVar("F", bound=Callable[..., object])


def import_options(command: F) -> F:
    """Add the options that all imports have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("import")
@click.argument("list_name", metavar="LIST")
@click.argument(
    "source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@click.option(
    "--encoding", help="The encoding of the file, such as windows-1252. [default: detected]"
)
@import_options
@output.json_option
@with_settings
def import_file(
    settings: Settings,
    list_name: str,
    source: str,
    encoding: str | None,
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
    """Import the addresses of a CSV file into a list.

    FILE may be '-' for standard input. Its header line has a column 'email' (or 'E-Mail address'
    or similar) and may have 'verified' (true or false), 'blocked' (the reason) and 'status' with
    the values of other tools: 'unsubscribed' removes an address from the list; 'blocklisted',
    'cleaned' and 'bounced' suppress it. Columns named like fields of the list are imported
    into them. --dry-run shows what each column is used for and what would happen.

    Exports of Mailchimp (including the whole zip archive), listmonk, Substack, Ghost, Buttondown,
    Brevo, phpList and Keila are recognised: people who unsubscribed or were blocked there keep that
    status.

    Existing subscribers are updated with what their line says. People who unsubscribed from the
    list stay off it. Lines that cannot be used are reported and do not stop the others. To finish
    an interrupted import, import the file again.
    """
    options = ImportChoices(
        encoding, verified, even_unsubscribed, Existing(existing), create_fields, dry_run,
        read_pairs(columns, "--column"), DateOrder(date_order), rejected,
    )  # fmt: skip
    with _opened(source) as file:
        run_import(settings, list_name, file, options, as_json=as_json)


class ImportChoices(msgspec.Struct, frozen=True):
    """What the options of the command say about an import."""

    encoding: str | None
    verified: bool
    even_unsubscribed: bool
    existing: Existing
    create_fields: bool
    dry_run: bool
    columns: Mapping[str, str]
    date_order: DateOrder
    rejected: str | None


def run_import(
    settings: Settings, list_name: str, file: BinaryIO, choices: ImportChoices, *, as_json: bool
) -> None:
    """Import a file that can be read twice, and print the report. `FileError`."""
    started = time.monotonic()
    rejected = choices.rejected
    with ExitStack() as stack:
        on_rejected_line = stack.enter_context(_rejected_into(rejected)) if rejected else None
        advance = stack.enter_context(_import_bar(_size(file)))

        async def work(services: Services) -> ImportReport:
            return await services.imports.import_csv(
                list_name,
                file,
                encoding=choices.encoding,
                verified=choices.verified,
                even_unsubscribed=choices.even_unsubscribed,
                existing=choices.existing,
                create_fields=choices.create_fields,
                columns=choices.columns,
                date_order=choices.date_order,
                dry_run=choices.dry_run,
                progress=lambda done, report: advance(done, report.lines),
                on_rejected=on_rejected_line,
            )

        try:
            report = call(settings, work)
        except KeyboardInterrupt as exc:
            raise FileError("interrupted: import the same file again to finish it") from exc
    if as_json:
        output.print_json(describe_import(report))
    else:
        if choices.dry_run:
            _show_preview(report)
        _show_report(report, list_name, time.monotonic() - started, rejected)
    if report.rejected and report.rejected == report.lines:
        raise FileError("no line of the file could be used")


@click.command("export")
@click.argument("list_name", metavar="LIST")
@click.argument(
    "target", metavar="[FILE]", default=STANDARD, type=click.Path(dir_okay=False, allow_dash=True)
)
@click.option(
    "--json", "as_json", is_flag=True, help="Write a line of JSON per subscriber instead of CSV."
)
@click.option("--segment", default="", help="Only subscribers of this segment.")
@with_settings
def export_list(
    settings: Settings, list_name: str, target: str, as_json: bool, segment: str
) -> None:
    """Export the subscribers of a list to a CSV file.

    They are sorted by address; each field is a column.

    Without FILE, to standard output. Importing the file again changes nothing; in another list,
    blocked addresses stay blocked. Cells that a spreadsheet would interpret as a formula start with
    an apostrophe, which import removes.
    """

    async def work(services: Services) -> int:
        exported = services.exports.export_json if as_json else services.exports.export_csv
        lines = 0 if as_json else -1  # not counting the header
        with written(target) as file, _export_bar() as advance:
            async for piece in exported(list_name, segment):
                file.write(piece.encode())
                lines += piece.count("\n")
                advance(lines)
        return lines

    count = call(settings, work)
    if target != STANDARD:
        output.say(f"{output.counted(count, 'subscriber')} of {list_name} exported to {target}.")


def _show_preview(report: ImportReport) -> None:
    """Show the first rows under the names of the columns, and what each column is used for."""
    rows = [
        (
            output.plain(column.name),
            output.plain(column.text),
            output.plain(", ".join(row[place] for row in report.sample if place < len(row))),
        )
        for place, column in enumerate(report.columns)
    ]
    heads = ("column", "used as", "first lines")
    output.console().print(output.table(heads, rows))
    output.say("Dry run: nothing was written.")


def _show_report(
    report: ImportReport, list_name: str, seconds: float, rejected_file: str | None
) -> None:
    rate = report.lines / max(seconds, 0.001)
    what = "would be " if report.dry_run else ""
    left = f" {report.unsubscribed:,} unsubscribed," if report.unsubscribed else ""
    output.say(
        f"{list_name}: {what}{report.added:,} added, {report.updated:,} updated,"
        f" {report.unchanged:,} unchanged,{left} {report.rejected:,} rejected"
        f" ({seconds:,.1f} s, {rate:,.0f} lines/s)"
    )
    if report.dry_run or report.blocked:
        output.say(f"{report.confirmed:,} newly confirmed, {report.blocked:,} blocked.")
    if report.suppressed:
        output.say(f"Addresses {what}suppressed: {report.suppressed:,}")
    if report.tool:
        output.say(f"Recognised as an export of {report.tool}.")
    if report.warning:
        output.say(f"Warning: {report.warning}")
    if report.created_fields:
        output.say(f"Fields {what}created: {', '.join(report.created_fields)}")
    if report.ignored_columns:
        output.say(f"Ignored columns: {', '.join(report.ignored_columns)}")
    if report.errors:
        shown = report.errors[:_ERRORS_SHOWN]
        rows = [
            (f"{each.line:,}", output.plain(each.email), output.plain(each.reason))
            for each in shown
        ]
        output.console().print(output.table(("#line", "email", "reason"), rows))
        hidden = report.rejected - len(shown)
        if rejected_file is not None:
            output.say(f"All rejected lines were written to {rejected_file}.")
        elif hidden:
            output.say(f"… and {hidden:,} more; --rejected FILE writes all of them to a file.")


# -- files ----------------------------------------------------------------------------------------


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    """Open a file that can be read twice; standard input is copied to a temporary one."""
    with ExitStack() as stack:
        try:
            if source == STANDARD:
                file: BinaryIO = stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(sys.stdin.buffer, file, 1024 * 1024)
            else:
                file = stack.enter_context(Path(source).open("rb"))
                if not file.seekable():
                    raise FileError(f"{source} is not an ordinary file: use - < {source}")
        except OSError as exc:
            raise FileError(f"{source}: {exc.strerror}") from exc
        yield file


def _size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


@contextmanager
def _rejected_into(path: str) -> Iterator[Callable[[RejectedLine], None]]:
    from postroom.services.audience.files.cells import protected

    with ExitStack() as stack:
        try:
            binary = stack.enter_context(open_private(Path(path)))
        except OSError as exc:
            raise FileError(f"{path}: {exc.strerror}") from exc
        file = stack.enter_context(io.TextIOWrapper(binary, encoding="utf-8", newline=""))
        writer = csv.writer(file)
        writer.writerow(("line", "email", "reason"))
        yield lambda each: writer.writerow((each.line, protected(each.email), each.reason))


# -- progress -------------------------------------------------------------------------------------


def _import_bar(size: int) -> AbstractContextManager[Callable[[int, int], None]]:
    return _bar(size)


@contextmanager
def _export_bar() -> Iterator[Callable[[int], None]]:
    with _bar(None) as advance:
        yield lambda lines: advance(0, lines)


@contextmanager
def _bar(size: int | None) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal; yield a function that takes bytes and lines."""
    if not sys.stderr.isatty():
        yield lambda done, lines: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    with_end: list[ProgressColumn] = [BarColumn(), TaskProgressColumn(), TimeLeft()]
    words = TextColumn("{task.fields[lines]:>12,} lines {task.fields[rate]:>9,.0f}/s")
    columns = [words, *(with_end if size is not None else [])]
    started = time.monotonic()
    with Progress(*columns, console=output.console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=size, lines=0, rate=0.0)

        def advance(done: int, lines: int) -> None:
            rate = lines / max(time.monotonic() - started, 0.001)
            progress.update(task, completed=done, lines=lines, rate=rate)

        yield advance
