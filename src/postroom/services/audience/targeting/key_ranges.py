"""The ranges of subscribers' rows in which a rule can select someone.

Rows are in the order of address keys. A key is folded letter by letter, and a rule compares more
coarsely: `straße@` begins with "strasse" for a rule, but not as a key. So in addition to the
keys that begin as the rule says, each key is read that departs from that beginning with a letter
outside of ASCII. There are few of those, usually none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postroom.domain.audience.rules import Rule
from postroom.domain.audience.rules.narrowing import address_start
from postroom.services import entities
from postroom.storage import KeyRange

EVERY_ROW: Final = KeyRange.prefix(entities.EMAIL_PREFIX)
_FIRST_BEYOND_ASCII: Final = "\x80"

KeyRanges = Sequence[KeyRange]
"""In order, and without overlaps."""


def ranges_of(rule: Rule | None) -> KeyRanges:
    """Return the ranges in which a rule can select someone; every row without a rule."""
    begin = "" if rule is None else address_start(rule)
    if not begin:
        return (EVERY_ROW,)
    found = [KeyRange.prefix(entities.EMAIL_PREFIX + begin)]
    for length in range(len(begin) - 1, -1, -1):
        common = entities.EMAIL_PREFIX + begin[:length]
        found.append(KeyRange(common + _FIRST_BEYOND_ASCII, KeyRange.prefix(common).stop))
    return found


def within(ranges: KeyRanges, start: str | None, stop: str | None = None) -> list[KeyRange]:
    """Return the parts of ranges from a row on, and before another one."""
    found = []
    for each in ranges:
        begin = max(each.start or "", start or "")
        ends = [end for end in (each.stop, stop) if end is not None]
        end = min(ends) if ends else None
        if end is None or begin < end:
            found.append(KeyRange(begin or None, end))
    return found
