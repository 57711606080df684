"""Segments of a list."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Invalid

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


class Segment(msgspec.Struct, frozen=True):
    """A named rule that selects subscribers of a list. The ETag guards an edit."""

    list_name: ListName
    name: str
    rule: str
    etag: str = ""


def parse_segment_name(text: str, field: str = "name") -> str:
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise Invalid(field, "must have 1 to 100 letters, digits, '_', '-' or '.'")
    if text in (".", "..", "preview"):
        raise Invalid(field, f"must not be {text!r}, which is reserved")
    return text
