"""What a message consists of, as options: times, files, and the lines that an inbox shows."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from postroom.domain.messages.attachments import Attachment
    from postroom.services.messages.drafts.draft_contents import ContentChange
    from postroom.services.messages.message_contents import NewBodies
    from postroom.wiring import Services

AUTHOR = "command line"
"""Who saved a draft, for its versions."""

BODY_FILE = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)


def read_moment(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Read `now`, or ISO 8601; a time without a zone is in the local one."""
    from postroom.domain.units import is_skipped

    if value is None:
        return None
    if value == "now":
        return datetime.now(UTC)
    try:
        written = datetime.fromisoformat(value)
        skipped = written.tzinfo is None and is_skipped(written)
        moment = written.astimezone(UTC)  # without a zone, in this machine's
    except (ValueError, OverflowError) as exc:
        raise click.BadParameter(
            "must be 'now', or a time such as 2026-11-15T09:00 or 2026-11-15T09:00+01:00,"
            f" not {value!r}"
        ) from exc
    if skipped:
        raise click.BadParameter(
            f"{value} does not exist in this machine's time zone: clocks are put forward then."
            " Choose another time, or add a zone, as in 2026-11-15T09:00+01:00."
        )
    return moment


def read_bodies(html: str | None, text: str | None, body: str | None = None) -> NewBodies:
    """Return both files, decoded; `body` is one in any format, instead of the HTML. `Invalid` names
    the one that is wrong."""
    from postroom.mail.bodies.body_files import html_from_file, text_from_file
    from postroom.services.messages.message_contents import NewBodies

    source = None if html is None else html_from_file(_read("html", html))
    return NewBodies(
        source if body is None else read_source(body),
        None if text is None else text_from_file(_read("text", text)),
    )


def read_source(path: str) -> str:
    """Return a file in the format of a message or template, decoded. `Invalid`."""
    from postroom.mail.bodies.body_files import text_from_file

    return text_from_file(_read("body", path), "body")


def _read(field: str, path: str) -> bytes:
    """Return the whole file. `Invalid` if it is too large to be a body."""
    from postroom.domain.errors import Invalid
    from postroom.domain.messages.messages import LARGEST_BODY

    limit = f"must be at most {LARGEST_BODY // 1024**2} MB"
    if path == "-":
        data = sys.stdin.buffer.read(LARGEST_BODY + 1)
        if len(data) > LARGEST_BODY:
            raise Invalid(field, f"{limit}, but standard input has more")
        return data
    size = Path(path).stat().st_size
    if size > LARGEST_BODY:
        raise Invalid(field, f"{limit}, but {path} has {size / 1024**2:,.1f} MB")
    return Path(path).read_bytes()


_published_option = click.option(
    "--published/--unpublished",
    default=None,
    help="Whether the list's web archive shows it once it is sent.",
)


def _read_canary(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return what a message chooses, an empty text to leave it to the settings."""
    from postroom.domain.errors import Invalid
    from postroom.domain.messages.waves.canaries import parse_canary

    if value is None:
        return None
    try:
        return parse_canary("" if value == _AS_THE_SETTINGS else value)
    except Invalid as exc:
        raise click.BadParameter(exc.problem) from exc


_AS_THE_SETTINGS = "default"
_canary_option = click.option(
    "--canary",
    metavar="SHARE[,WAIT]",
    callback=_read_canary,
    help="Send to some recipients first, such as 1% or 500, and to the rest after WAIT if"
    " all is well; off: to everyone together; default: as configured. [default: default]",
)

_local_time_option = click.option(
    "--local-time/--same-time",
    default=None,
    help="Send to each subscriber at the scheduled time in their own time zone.",
)

_AS_THE_LIST = "list"


def _read_track(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return what a message chooses, an empty text to leave it to its list."""
    from postroom.domain.messages.tracking import Track

    if value is None or value in set(Track):
        return value
    if value == _AS_THE_LIST:
        return ""
    problem = f"must be off, aggregate, personal or {_AS_THE_LIST}, not {value[:60]!r}"
    raise click.BadParameter(problem)


_track_option = click.option(
    "--track",
    metavar="[off|aggregate|personal|list]",
    callback=_read_track,
    help="Whether opens and clicks are measured; personal: of each subscriber who agreed to it;"
    " list: as its list says. [default: list]",
)


_attach_option = click.option(
    "--attach",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    multiple=True,
    metavar="FILE",
    help="A file to attach; can be repeated.",
)


_lines_options = (
    click.option("--preheader", help="What an inbox shows after the subject."),
    click.option("--from-name", help="The sender's name. [default: the list's description]"),
    click.option("--reply-to", metavar="ADDRESS", help="Where replies go."),
)

_audience_options = (
    click.option("--segment", metavar="NAME", help="Send only to this segment of the list."),
    click.option(
        "--exclude-list",
        "exclude_lists",
        metavar="LIST",
        multiple=True,
        help="Leave out confirmed subscribers of this other list. Can be repeated.",
    ),
    click.option(
        "--exclude-segment",
        "exclude_segments",
        metavar="NAME",
        multiple=True,
        help="Leave out subscribers of this segment. Can be repeated.",
    ),
    click.option(
        "--also-list",
        "more_lists",
        metavar="LIST",
        multiple=True,
        help="Also send to this list. People on several lists get one copy. Can be repeated.",
    ),
)


class GivenOptions(msgspec.Struct, frozen=True):
    """The options that `message create` and `message edit` share, as they were given. An empty text
    or name removes what a message has."""

    segment: str | None
    exclude_lists: tuple[str, ...]
    exclude_segments: tuple[str, ...]
    more_lists: tuple[str, ...]
    preheader: str | None
    from_name: str | None
    reply_to: str | None
    track: str | None
    published: bool | None
    canary: str | None
    local_time: bool | None
    attach: tuple[str, ...]
    """Paths of files."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a `ContentChange` that were given, except for the attached files."""
        given = msgspec.structs.asdict(self)
        del given["attach"]
        for name, value in given.items():
            if isinstance(value, tuple):
                given[name] = tuple(filter(None, value)) if value else None
        return {name: value for name, value in given.items() if value is not None}


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for audience, lines, tracking, publication, waves and files; the command gets
    them as `given`."""

    @functools.wraps(command)
    def gathered(*args: Any, **options: Any) -> Any:
        names = GivenOptions.__struct_fields__
        given = GivenOptions(**{name: options.pop(name) for name in names})
        return command(*args, given=given, **options)

    every = (
        *_audience_options,
        *_lines_options,
        _track_option,
        _published_option,
        _canary_option,
        _local_time_option,
        _attach_option,
    )
    for option in reversed(every):
        gathered = option(gathered)
    return gathered


def read_files(paths: Sequence[str]) -> tuple[tuple[Attachment, ...], dict[str, bytes]]:
    """Return files to attach, and their contents by their hashes. `Invalid`."""
    from postroom.domain.errors import Invalid
    from postroom.domain.messages.attachments import LARGEST_IN_TOTAL, describe_file

    if sum(Path(each).stat().st_size for each in paths) > LARGEST_IN_TOTAL:
        raise Invalid("attach", f"must be at most {LARGEST_IN_TOTAL // 1024**2} MB in total")
    contents = [(path, Path(path).read_bytes()) for path in paths]
    found = [(describe_file(Path(path).name, content), content) for path, content in contents]
    return tuple(each for each, _ in found), {each.hash: content for each, content in found}


async def attach_files(
    services: Services, ref: str, paths: Sequence[str]
) -> tuple[Attachment, ...]:
    """Store files, and return all that a message then has: the new ones replace those of the same
    names. `Invalid`, `NoSuch`."""
    added, contents = read_files(paths)
    message = await services.messages.get(ref)
    await services.attached_files.put(message.ref, contents)
    names = {each.name for each in added}
    return (*(each for each in message.attachments if each.name not in names), *added)


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for a body in any format."""
    for option in (
        click.option("--template", help="The template that the body is put into."),
        click.option("--body", type=BODY_FILE, help="The body in this format, instead of --html."),
        click.option(
            "--format",
            "body_format",
            type=click.Choice(["html", "markdown", "mjml", "blocks"]),
            help="What --body is written in. [default: html]",
        ),
    ):
        command = option(command)
    return command


def content_change(bodies: NewBodies, **fields: Any) -> ContentChange:
    """Return the change of the options that were given."""
    from postroom.services.messages.drafts.draft_contents import ContentChange

    given = {**fields, "body": bodies.html, "text": bodies.text}
    return ContentChange(**{name: value for name, value in given.items() if value is not None})
