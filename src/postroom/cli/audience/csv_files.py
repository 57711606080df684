"""`postroom subscriber import` and `export`: CSV files in and out, with progress bars."""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from postroom.cli.support import output
from postroom.cli.support.calling import call
from postroom.cli.support.files import STANDARD, FileTrouble, written
from postroom.cli.support.running import with_settings
from postroom.folders import open_private
from postroom.services.resources.audience import describe_import

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from postroom.services.audience.files.imports import ImportReport
    from postroom.services.audience.files.subscriber_lines import RejectedLine
    from postroom.settings import Settings
    from postroom.wiring import Services

_ERRORS_SHOWN = 10


@click.command("import")
@click.argument("list_name", metavar="LIST")
@click.argument(
    "source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@click.option("--encoding", help="If not UTF-8 or UTF-16: windows-1252, …")
@click.option(
    "--verified",
    is_flag=True,
    help="Everybody in the file has agreed to get mail, but for lines that say otherwise.",
)
@click.option(
    "--even-unsubscribed",
    is_flag=True,
    help="Bring those back who have unsubscribed. Only if they have asked you to.",
)
@click.option(
    "--dry-run", is_flag=True, help="Only show what the import would do. Nothing is written."
)
@click.option(
    "--rejected",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write all lines that could not be used into this CSV file.",
)
@output.json_option
@with_settings
def import_file(
    settings: Settings,
    list_name: str,
    source: str,
    encoding: str | None,
    verified: bool,
    even_unsubscribed: bool,
    dry_run: bool,
    rejected: str | None,
    as_json: bool,
) -> None:
    """Put the addresses of a CSV file on a list.

    FILE may be '-' for standard input. It has a header line with a column 'email' (or 'E-Mail
    address' and the like), and perhaps one 'verified' (true or false), one 'blocked' (why) and one
    'status' with the words of other tools: people who are unsubscribed there leave the list, and
    those who are blocklisted, cleaned or bounced are blocked. --dry-run shows what each column is
    used for and what would be done.

    Subscribers of the list are updated: they are verified or not as their line says, and stay as
    they are where it says nothing. People who have unsubscribed from the list stay off it. Lines
    that cannot be used are reported and do not stop the others. An interrupted import is finished
    by importing again.
    """
    started = time.monotonic()
    with ExitStack() as stack:
        file = stack.enter_context(_opened(source))
        tell_rejected = stack.enter_context(_rejected_into(rejected)) if rejected else None
        advance = stack.enter_context(_import_bar(_size(file)))

        async def work(services: Services) -> ImportReport:
            return await services.imports.import_csv(
                list_name,
                file,
                encoding=encoding,
                verified=verified,
                even_unsubscribed=even_unsubscribed,
                dry_run=dry_run,
                progress=lambda done, report: advance(done, report.lines),
                on_rejected=tell_rejected,
            )

        try:
            report = call(settings, work)
        except KeyboardInterrupt as exc:
            raise FileTrouble("interrupted: import the same file again to finish it") from exc
    if as_json:
        output.print_json(describe_import(report))
    else:
        if dry_run:
            _show_preview(report)
        _show_report(report, list_name, time.monotonic() - started, rejected)
    if report.rejected and report.rejected == report.lines:
        raise FileTrouble("no line of the file could be used")


@click.command("export")
@click.argument("list_name", metavar="LIST")
@click.argument(
    "target", metavar="[FILE]", default=STANDARD, type=click.Path(dir_okay=False, allow_dash=True)
)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each, instead of CSV.")
@with_settings
def export_list(settings: Settings, list_name: str, target: str, as_json: bool) -> None:
    """Write a list's subscribers into a CSV file.

    In the order of their addresses; without FILE to standard output. Importing the file again
    changes nobody, and blocked ones stay blocked on another list, too. Cells that a spreadsheet
    would take for a formula get an apostrophe in front; import removes it.
    """

    async def work(services: Services) -> int:
        exported = services.exports.export_json if as_json else services.exports.export_csv
        lines = 0 if as_json else -1  # the header is none
        with written(target) as file, _export_bar() as advance:
            async for piece in exported(list_name):
                file.write(piece.encode())
                lines += piece.count("\n")
                advance(lines)
        return lines

    count = call(settings, work)
    if target != STANDARD:
        output.say(f"{count:,} subscribers of {list_name} are in {target}.")


def _show_preview(report: ImportReport) -> None:
    """Show the first rows under the names of the columns, and what each column is used for."""
    rows = [
        (
            output.plain(column.name),
            column.meaning.text,
            output.plain(", ".join(row[place] for row in report.sample if place < len(row))),
        )
        for place, column in enumerate(report.columns)
    ]
    heads = ("column", "used as", "first lines")
    output.console().print(output.table(heads, rows))
    output.say("Nothing has been written: this was a dry run.")


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
    if report.ignored_columns:
        output.say(f"Ignored columns: {', '.join(report.ignored_columns)}")
    if report.errors:
        shown = report.errors[:_ERRORS_SHOWN]
        rows = [
            (f"{each.line:,}", output.plain(each.email), output.plain(each.reason))
            for each in shown
        ]
        output.console().print(output.table(("#line", "email", "why it was rejected"), rows))
        hidden = report.rejected - len(shown)
        if rejected_file is not None:
            output.say(f"All rejected lines are in {rejected_file}.")
        elif hidden:
            output.say(f"… and {hidden:,} more: --rejected FILE writes all of them.")


# -- files ----------------------------------------------------------------------------------------


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    """A file that can be read twice; standard input is kept in a temporary one for that."""
    with ExitStack() as stack:
        try:
            if source == STANDARD:
                file: BinaryIO = stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(sys.stdin.buffer, file, 1024 * 1024)
            else:
                file = stack.enter_context(Path(source).open("rb"))
                if not file.seekable():
                    raise FileTrouble(f"{source} is no ordinary file: give it as '-' < {source}")
        except OSError as exc:
            raise FileTrouble(f"{source}: {exc.strerror}") from exc
        yield file


def _size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


@contextmanager
def _rejected_into(path: str) -> Iterator[Callable[[RejectedLine], None]]:
    from postroom.services.audience.files.subscriber_lines import protected

    with ExitStack() as stack:
        try:
            binary = stack.enter_context(open_private(Path(path)))
        except OSError as exc:
            raise FileTrouble(f"{path}: {exc.strerror}") from exc
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
    """A progress bar on a terminal, nothing elsewhere. Told bytes and lines."""
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
