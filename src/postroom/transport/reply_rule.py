"""A row of the table in `reply_table.py`."""

from __future__ import annotations

import re
from functools import cache

import msgspec

from postroom.transport.contract import Scope
from postroom.transport.reply_parsing import Stage

_ANY = frozenset(Stage)


class Rule(msgspec.Struct, frozen=True):
    """Which replies are whose fault. A scope of `RECIPIENT` refuses the recipient, or defers it if
    the code is 4xx; all others hold. `seen` says where such replies come from.

    The reply matches if its text or its enhanced status code does. Of the latter, subject and
    detail are compared (`7.26`), because some servers mix up its class.
    """

    scope: Scope
    reason: str
    seen: str
    text: str
    status: str
    code: str
    only_status: str
    stages: frozenset[Stage]

    def matches(self, stage: Stage, code: str, status: str, text: str) -> bool:
        if stage not in self.stages or not _fits(self.code, code):
            return False
        if self.only_status and not _fits(self.only_status, status):
            return False
        if not self.text and not self.status:
            return True
        return bool(self.text and _pattern(self.text).search(text)) or bool(
            self.status and _fits(self.status, status)
        )


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when it is first needed: all of them take 20 ms, which would be added to
    every start of a sender."""
    return re.compile(pattern, re.IGNORECASE)


def _fits(pattern: str, value: str) -> bool:
    return _pattern(pattern).fullmatch(value) is not None


def rule(
    scope: Scope,
    reason: str,
    seen: str,
    *texts: str,
    status: str = "",
    code: str = "[45]..",
    only_status: str = "",
    stages: frozenset[Stage] = _ANY,
) -> Rule:
    """Return a rule for replies with one of these texts, or this status, or any if neither is
    given. `code`, `only_status` and `stages` restrict it."""
    return Rule(scope, reason, seen, "|".join(texts), status, code, only_status, stages)
