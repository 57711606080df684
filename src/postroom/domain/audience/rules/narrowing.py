"""How the addresses that a rule selects begin, so that not every subscriber has to be read."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

from postroom.domain.audience.rules.syntax import AllRules, AnyRule, Operator, Rule, RuleComparison

_LONGEST: Final = 24
_WHOLE: Final = (Operator.STARTS_WITH, Operator.EQUAL, Operator.IN)


def address_start(rule: Rule) -> str:
    """Return the prefix that all addresses selected by the rule share, ignoring case; empty if
    there is none. It is ASCII in lower case."""
    folded = _start(rule)
    plain = next((n for n, letter in enumerate(folded) if not letter.isascii()), len(folded))
    return folded[: min(plain, _LONGEST)]


def _start(rule: Rule) -> str:
    match rule:
        case AllRules(parts):
            return max(map(_start, parts), key=len)
        case AnyRule(parts):
            return _common(map(_start, parts))
        case RuleComparison(field="email", operator=operator, values=values) if operator in _WHOLE:
            return _common(unicodedata.normalize("NFC", str(each)).casefold() for each in values)
    return ""


def _common(texts: Iterable[str]) -> str:
    """Return the common prefix of all texts."""
    first, *others = texts
    for length, letter in enumerate(first):
        if any(each[length : length + 1] != letter for each in others):
            return first[:length]
    return first
