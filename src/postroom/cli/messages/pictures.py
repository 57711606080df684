"""`postroom picture`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from postroom.cli.support import output
from postroom.cli.support.running import call, operator, with_settings
from postroom.domain.units import show_size
from postroom.services.resources.pictures import describe_picture

if TYPE_CHECKING:
    from postroom.domain.messages.pictures import Picture
    from postroom.services.resources.pictures import PictureResource
    from postroom.settings import Settings


@click.group("picture")
def pictures() -> None:
    """Manage the pictures of messages."""


@pictures.command()
@click.option("--search", default="", help="Part of the name or the alternative text.")
@output.page_options(limit=100)
@output.json_option
@with_settings
def ls(settings: Settings, search: str, limit: int, after: str | None, as_json: bool) -> None:
    """Show pictures, newest first."""
    found = call(settings, lambda s: s.pictures.slice(search=search, limit=limit, after=after))
    if as_json:
        output.print_items((_describe(each, settings) for each in found.pictures), found.next)
        return
    rows = [
        (
            output.plain(each.name),
            f"{each.width} by {each.height}",
            show_size(each.size),
            output.when(each.uploaded_at),
            each.hash,
        )
        for each in found.pictures
    ]
    output.print_or_none(("picture", "pixels", "#size", "uploaded", "hash"), rows)
    output.more(found.next, "postroom picture ls")


@pictures.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@click.option("--alt", default="", help="What it shows, for people who cannot see it.")
@output.json_option
@with_settings
def add(settings: Settings, file: Path, alt: str, as_json: bool) -> None:
    """Upload a picture: JPEG, PNG, GIF or WebP."""
    data = file.read_bytes()
    added, _ = call(settings, lambda s: s.pictures.upload(data, file.name, alt, by=operator()))
    if as_json:
        output.print_json(_describe(added, settings))
    else:
        output.say(_describe(added, settings).url)


@pictures.command()
@click.argument("hash")
@output.yes_option
@output.json_option
@with_settings
def remove(settings: Settings, hash: str, yes: bool, as_json: bool) -> None:
    """Delete a picture that no message uses."""
    output.confirm(f"Delete the picture {hash}?", yes=yes)
    removed = call(settings, lambda s: s.pictures.delete(hash))
    if as_json:
        output.print_json({"removed": removed.hash})
    else:
        output.say(f"Picture {removed.name} deleted.")


def _describe(picture: Picture, settings: Settings) -> PictureResource:
    return describe_picture(picture, str(settings.web.base_url))
