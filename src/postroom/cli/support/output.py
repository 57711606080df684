"""How commands print: tables and text for people, JSON for programs, files."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from postroom.errors import PostroomError
from postroom.folders import open_private

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

F = TypeVar("F", bound=Callable[..., Any])

# Wide enough for any table: lines are not wrapped for programs and files.
_ENDLESS = 10_000

STYLES = {
    "Pending": "cyan",
    "Queuing": "blue",
    "Processing": "blue",
    "Completed": "green",
    "Paused": "yellow",
    "Cancelled": "dim",
    "pending": "cyan",
    "accepted": "green",
    "refused": "red",
    "suppressed": "dim",
    "in_doubt": "yellow",
    "OK": "green",
    "warning": "yellow",
    "error": "bold red",
}


def json_option(command: F) -> F:
    """Add `--json`, as the argument `as_json`."""
    decorated: F = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
    return decorated


def yes_option(command: F) -> F:
    """Add `--yes`, as the argument `yes` of `confirm`."""
    decorated: F = click.option(
        "--yes",
        is_flag=True,
        help="Do not ask for confirmation. Without a terminal, nothing is asked.",
    )(command)
    return decorated


def page_options(*, limit: int) -> Callable[[F], F]:
    """Add `--limit` and `--after`, for long collections."""

    def decorate(command: F) -> F:
        some = click.option(
            "--limit",
            default=limit,
            show_default=True,
            type=click.IntRange(1, 1000),
            help="Maximum number to show.",
        )
        following = click.option("--after", help="Continue where earlier output ended.")
        decorated: F = some(following(command))
        return decorated

    return decorate


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _ENDLESS
    return Console(file=stream, width=width, highlight=False)


def print_json(value: Any) -> None:
    """Print a resource, or a dictionary that may hold some, over several lines."""
    click.echo(json.dumps(builtins(value), ensure_ascii=False, indent=2))


def json_line(value: Any) -> str:
    """Return a resource as JSON in one line."""
    return json.dumps(builtins(value), ensure_ascii=False)


def builtins(value: Any) -> Any:
    """Return a resource as a dictionary."""
    import msgspec

    return msgspec.to_builtins(value)


def print_items(items: Iterable[Any], following: str | None = None) -> None:
    """Print a collection as the API returns it."""
    print_json({"items": list(items), "next": following})


def say(text: str) -> None:
    """Print one line about what was done."""
    click.echo(text)


def note(text: str) -> None:
    """Print a note to standard error, so that it does not get into a pipe."""
    click.echo(text, err=True)


def table(headings: Sequence[str], rows: Iterable[Sequence[RenderableType]]) -> Table:
    """Return a plain table. A heading that begins with `#` is for numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for heading in headings:
        made.add_column(
            heading.removeprefix("#"),
            justify="right" if heading.startswith("#") else "left",
            overflow="fold",
        )
    for row in rows:
        made.add_row(*row)
    return made


def print_or_none(headings: Sequence[str], rows: Sequence[Sequence[RenderableType]]) -> None:
    """Print a table, or a note that there is nothing to show."""
    if rows:
        console().print(table(headings, rows))
    else:
        note("Nothing to show.")


def details(values: Mapping[str, RenderableType | None]) -> Table:
    """Return names and values, one per line, without empty values."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in values.items():
        if value is not None and value != "":
            made.add_row(name, value)
    return made


def plain(value: object) -> Text:
    """Return text of any origin: without markup, and with nothing unprintable."""
    from rich.text import Text

    lines = str(value).replace("\r\n", "\n").replace("\n", "↵")
    return Text("".join(each if each.isprintable() else "�" for each in lines))


def state(word: str) -> Text:
    """Return a status or an outcome in its colour."""
    from rich.text import Text

    return Text(word.replace("_", " "), STYLES.get(word, ""))


def yes_or_no(value: bool) -> Text:
    from rich.text import Text

    return Text("yes", "green") if value else Text("no", "dim")


def when(moment: datetime | None) -> str:
    """Return a time in the local zone."""
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def ago(moment: datetime | None) -> str:
    return "" if moment is None else span(datetime.now(UTC) - moment)


def span(length: timedelta) -> str:
    """Return a duration in at most two units: `42 s`, `3 min 20 s`, `2 h 5 min`."""
    seconds = max(0, round(length.total_seconds()))
    parts = [
        (seconds // 86_400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "min"),
        (seconds % 60, "s"),
    ]
    while len(parts) > 1 and parts[0][0] == 0:
        parts.pop(0)
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count) or "0 s"


def counted(count: int, noun: str) -> str:
    """Return `1 subscriber`, `1,200 subscribers`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def more(token: str | None, command: str) -> None:
    """Print how to continue after a part of a collection."""
    if token is not None:
        note(f"More: {command} --after {token}")


def confirm(question: str, *, yes: bool) -> None:
    """Ask before an action that cannot be undone. `--yes` and scripts, which have no terminal, are
    not asked."""
    if not yes and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)


def columns() -> int:
    return shutil.get_terminal_size().columns


STANDARD = "-"
"""Stands for standard input or output."""


class FileError(PostroomError):
    """A file that cannot be read or written."""


@contextmanager
def written(target: str) -> Iterator[BinaryIO]:
    """Open a file for writing. It gets its name when it is complete.

    Only its owner can read it: it may contain addresses.
    """
    if target == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    part = path.with_name(f".{path.name}.part")
    try:
        with open_private(part) as file:
            yield file
        part.replace(path)
    except PostroomError:
        raise  # one of the store's, which may be an OSError too
    except OSError as exc:
        raise FileError(f"{target}: {exc.strerror}") from exc
    finally:
        part.unlink(missing_ok=True)
