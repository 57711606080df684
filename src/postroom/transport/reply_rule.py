"""A row of the table in `reply_table.py`."""

from __future__ import annotations

import re

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
    text: re.Pattern[str] | None
    status: re.Pattern[str] | None
    code: re.Pattern[str]
    only_status: re.Pattern[str] | None
    stages: frozenset[Stage]

    def matches(self, stage: Stage, code: str, status: str, text: str) -> bool:
        if stage not in self.stages or self.code.fullmatch(code) is None:
            return False
        if self.only_status is not None and self.only_status.fullmatch(status) is None:
            return False
        if self.text is None and self.status is None:
            return True
        return (self.text is not None and self.text.search(text) is not None) or (
            self.status is not None and self.status.fullmatch(status) is not None
        )


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
    return Rule(
        scope,
        reason,
        seen,
        re.compile("|".join(texts), re.IGNORECASE) if texts else None,
        re.compile(status) if status else None,
        re.compile(code),
        re.compile(only_status) if only_status else None,
        stages,
    )
