"""What a message consists of, as options: times, files, and the lines that an inbox shows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
            f"must be 2026-11-15T09:00+01:00, 2026-11-15T09:00 or now, not {value!r}"
        ) from exc
    if skipped:
        raise click.BadParameter(
            f"{value} does not exist in this machine's time zone: clocks are put forward then."
            " Choose another time, or add a zone, as in 2026-11-15T09:00+01:00."
        )
    return moment


def read_bodies(html: str | None, text: str | None) -> NewBodies:
    """Return both files, decoded. `Invalid` names the one that is wrong."""
    from postroom.mail.bodies.body_files import html_from_file, text_from_file
    from postroom.services.messages.message_contents import NewBodies

    return NewBodies(
        None if html is None else html_from_file(_read("html", html)),
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

    limit = f"must have at most {LARGEST_BODY // 1024**2} MB"
    if path == "-":
        data = sys.stdin.buffer.read(LARGEST_BODY + 1)
        if len(data) > LARGEST_BODY:
            raise Invalid(field, f"{limit}, but standard input has more")
        return data
    size = Path(path).stat().st_size
    if size > LARGEST_BODY:
        raise Invalid(field, f"{limit}, but {path} has {size / 1024**2:,.1f} MB")
    return Path(path).read_bytes()


def lines_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for what an inbox shows besides the subject."""
    for option in (
        click.option("--reply-to", metavar="ADDRESS", help="Where replies go."),
        click.option("--from-name", help="The sender's name. [default: the list's description]"),
        click.option("--preheader", help="What an inbox shows after the subject."),
    ):
        command = option(command)
    return command


published_option = click.option(
    "--published/--unpublished",
    default=None,
    help="Whether the list's web archive shows it once it is sent.",
)


def _read_canary(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return what a message chooses, an empty text to leave it to the settings."""
    from postroom.domain.errors import Invalid
    from postroom.domain.messages.canaries import parse_canary

    if value is None:
        return None
    try:
        return parse_canary("" if value == _AS_THE_SETTINGS else value)
    except Invalid as exc:
        raise click.BadParameter(exc.problem) from exc


_AS_THE_SETTINGS = "default"
canary_option = click.option(
    "--canary",
    metavar="SHARE[,WAIT]",
    callback=_read_canary,
    help="Send to some of the recipients first, such as 1% or 500, and to the others after WAIT if"
    " all is well; off: to all at once; default: as configured. [default: default]",
)

local_time_option = click.option(
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


track_option = click.option(
    "--track",
    metavar="[off|aggregate|personal|list]",
    callback=_read_track,
    help="Whether opens and clicks are measured; personal: of each subscriber who agreed to it;"
    " list: as its list says. [default: list]",
)


def audience_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for who gets a message: additional lists, or a part of them."""
    for option in (
        click.option(
            "--also-list",
            "more_lists",
            metavar="LIST",
            multiple=True,
            help="Also send to this list; each person gets it once. Can be repeated.",
        ),
        click.option(
            "--exclude-segment",
            "exclude_segments",
            metavar="NAME",
            multiple=True,
            help="Leave out subscribers of this segment. Can be repeated.",
        ),
        click.option(
            "--exclude-list",
            "exclude_lists",
            metavar="LIST",
            multiple=True,
            help="Leave out confirmed subscribers of this other list. Can be repeated.",
        ),
        click.option("--segment", metavar="NAME", help="Send only to this segment of the list."),
    ):
        command = option(command)
    return command


def given_audience(
    segment: str | None,
    exclude_segments: tuple[str, ...],
    exclude_lists: tuple[str, ...],
    more_lists: tuple[str, ...],
) -> dict[str, Any]:
    """Return the options of the audience that were given; an empty name stands for none."""
    several = {
        "exclude_segments": exclude_segments,
        "exclude_lists": exclude_lists,
        "more_lists": more_lists,
    }
    return {
        "segment": segment,
        **{
            option: tuple(filter(None, names)) if names else None
            for option, names in several.items()
        },
    }


attach_option = click.option(
    "--attach",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    multiple=True,
    metavar="FILE",
    help="A file to attach; may be repeated.",
)


def read_files(paths: Sequence[str]) -> tuple[tuple[Attachment, ...], dict[str, bytes]]:
    """Return files to attach, and their contents by their hashes. `Invalid`."""
    from postroom.domain.errors import Invalid
    from postroom.domain.messages.attachments import LARGEST_IN_TOTAL, describe_file

    if sum(Path(each).stat().st_size for each in paths) > LARGEST_IN_TOTAL:
        raise Invalid("attach", f"must have at most {LARGEST_IN_TOTAL // 1024**2} MB in total")
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
