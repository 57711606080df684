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
    """Both files, decoded. `Invalid` says what is wrong with which."""
    from postroom.mail.body_files import html_from_file, text_from_file
    from postroom.services.messages.message_contents import NewBodies

    return NewBodies(
        None if html is None else html_from_file(_read("html", html)),
        None if text is None else text_from_file(_read("text", text)),
    )


def _read(field: str, path: str) -> bytes:
    """The whole file, unless it is much too large to be a body."""
    from postroom.domain.errors import Invalid
    from postroom.domain.messages.messages import LARGEST_BODY

    allowed = f"a body may have {LARGEST_BODY // 1024**2} MB"
    if path == "-":
        data = sys.stdin.buffer.read(LARGEST_BODY + 1)
        if len(data) > LARGEST_BODY:
            raise Invalid(field, f"standard input does not end; {allowed}")
        return data
    size = Path(path).stat().st_size
    if size > LARGEST_BODY:
        raise Invalid(field, f"{path} has {size / 1024**2:,.1f} MB; {allowed}")
    return Path(path).read_bytes()
