"""`MessageRef`, the id of a message: 18 digits, sortable, unique.

It looks like .NET ticks (tenths of microseconds since the year 1): the milliseconds of its
creation, then four random digits. The store refuses the same one twice, so messages created at the
same instant still differ.
"""

from __future__ import annotations

import re
import secrets
import time
from typing import NewType

from postroom.domain.errors import Invalid

MessageRef = NewType("MessageRef", str)

_TICKS_AT_1970 = 621_355_968_000_000_000
_TICKS_PER_MS = 10_000
_SHAPE = re.compile(r"[0-9]{18}")


def new_ref(milliseconds: int | None = None) -> MessageRef:
    """Return a reference for a new message."""
    now = time.time_ns() // 1_000_000 if milliseconds is None else milliseconds
    ticks = _TICKS_AT_1970 + now * _TICKS_PER_MS + secrets.randbelow(_TICKS_PER_MS)
    return MessageRef(f"{ticks:018}")


def is_ref(text: str) -> bool:
    """Return whether a text has the form of a reference."""
    return _SHAPE.fullmatch(text) is not None


def parse_ref(text: str) -> MessageRef:
    if not isinstance(text, str) or not is_ref(text):
        raise Invalid("ref", "must have 18 digits")
    return MessageRef(text)
