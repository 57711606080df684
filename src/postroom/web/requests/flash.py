"""Flash messages: what a form has done, shown once on the next page, with a way to undo it."""

from __future__ import annotations

import msgspec

LARGEST_COOKIE = 3000
"""Bytes of a signed flash message. Browsers keep 4 KB of a cookie, with its name and attributes."""


class Undo(msgspec.Struct, frozen=True):
    """The form that reverts what was done: where it is sent, its fields, and its button."""

    action: str
    fields: tuple[tuple[str, str], ...] = ()
    label: str = "Undo"


class Flash(msgspec.Struct, frozen=True):
    """A sentence that says what was done, and how to undo it if that is possible."""

    text: str
    undo: Undo | None = None


def packed(flash: Flash) -> object:
    """Return the flash message as plain data, to be signed."""
    return msgspec.to_builtins(flash)


def unpacked(data: object) -> Flash | None:
    """Return the flash message in signed data; None if it is in an unknown form."""
    try:
        return msgspec.convert(data, Flash)
    except msgspec.ValidationError:
        return None
