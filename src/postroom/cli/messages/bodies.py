"""The bodies of a message, from files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from postroom.services.messages.message_contents import NewBodies

BODY_FILE = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)


def read_bodies(html: str | None, text: str | None) -> NewBodies:
    """Return both files, decoded. `Invalid` names the one that is wrong."""
    from postroom.mail.body_files import html_from_file, text_from_file
    from postroom.services.messages.message_contents import NewBodies

    return NewBodies(
        None if html is None else html_from_file(_read("html", html)),
        None if text is None else text_from_file(_read("text", text)),
    )


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
