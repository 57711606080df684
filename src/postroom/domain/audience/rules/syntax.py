"""What a rule consists of."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

Literal: TypeAlias = str | bool | int | float | date


class Operator(StrEnum):
    """How a field is compared. The value is how it is written."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts with"
    ENDS_WITH = "ends with"
    BEFORE = "before"
    AFTER = "after"
    IN = "in"
    NOT_IN = "not in"
    WITHIN = "within"
    EMPTY = "is empty"
    NOT_EMPTY = "is not empty"
    RECEIVED = "received"
    OPENED = "opened"
    CLICKED = "clicked"
    CLICKED_LINK = "clicked link"
    OPENED_WITHIN = "opened within"
    CLICKED_WITHIN = "clicked within"
    INACTIVE = "inactive for"


ABOUT_A_MESSAGE: Final = frozenset({Operator.RECEIVED, Operator.OPENED, Operator.CLICKED})
ABOUT_ENGAGEMENT: Final = frozenset(
    {
        Operator.OPENED,
        Operator.CLICKED,
        Operator.CLICKED_LINK,
        Operator.OPENED_WITHIN,
        Operator.CLICKED_WITHIN,
        Operator.INACTIVE,
    }
)
LOOKED_UP: Final = ABOUT_A_MESSAGE | ABOUT_ENGAGEMENT
"""Comparisons of what has to be looked up for each address; all others are about fields."""


class Unit(StrEnum):
    DAYS = "days"
    WEEKS = "weeks"
    MONTHS = "months"
    YEARS = "years"


class RulePosition(msgspec.Struct, frozen=True):
    """Where something is in the text of a rule, both counted from 1."""

    line: int = 1
    column: int = 1


class Period(msgspec.Struct, frozen=True):
    """The time up to today: `30 days`."""

    count: int
    unit: Unit


class RuleComparison(msgspec.Struct, frozen=True):
    """One field compared with some values: none for `is empty`, several for `in (…)`.

    `within` has a period instead. Those in `LOOKED_UP` are about the address: their field is
    `email`, and their value the reference of a message, or a part of a link.
    """

    field: str
    operator: Operator
    values: tuple[Literal, ...] = ()
    period: Period | None = None
    place: RulePosition = RulePosition()


class Not(msgspec.Struct, frozen=True):
    part: Rule


class AllRules(msgspec.Struct, frozen=True):
    parts: tuple[Rule, ...]


class AnyRule(msgspec.Struct, frozen=True):
    parts: tuple[Rule, ...]


Rule: TypeAlias = RuleComparison | Not | AllRules | AnyRule


def comparisons(rule: Rule) -> Iterator[RuleComparison]:
    """Yield every comparison, in the order of the text, however deeply they are nested."""
    left = [rule]
    while left:
        match left.pop():
            case RuleComparison() as found:
                yield found
            case Not(part):
                left.append(part)
            case AllRules(parts) | AnyRule(parts):
                left.extend(reversed(parts))


def fields_of(rule: Rule) -> set[str]:
    """Return the names of the fields that have to be known to evaluate the rule."""
    return {each.field for each in comparisons(rule)}


def messages_of(rule: Rule) -> dict[str, RulePosition]:
    """Return the messages of whose recipients the rule asks, and where it names them first."""
    found: dict[str, RulePosition] = {}
    for each in comparisons(rule):
        if each.operator in ABOUT_A_MESSAGE:
            found.setdefault(str(each.values[0]), each.place)
    return found


def with_field_renamed(rule: Rule, old: str, new: str) -> Rule:
    """Return the rule with another name of a field."""
    match rule:
        case RuleComparison():
            return msgspec.structs.replace(rule, field=new) if rule.field == old else rule
        case Not(part):
            return Not(with_field_renamed(part, old, new))
        case AllRules(parts):
            return AllRules(tuple(with_field_renamed(each, old, new) for each in parts))
        case AnyRule(parts):
            return AnyRule(tuple(with_field_renamed(each, old, new) for each in parts))


def text_of(rule: Rule) -> str:
    """Write a rule as text; `parse_rule` reads the same rule from it."""
    match rule:
        case RuleComparison():
            return _comparison_text(rule)
        case Not(part):
            return f"not {_in_parentheses(part, (AllRules, AnyRule))}"
        case AllRules(parts):
            return " and ".join(_in_parentheses(each, (AllRules, AnyRule)) for each in parts)
        case AnyRule(parts):
            return " or ".join(_in_parentheses(each, (AnyRule,)) for each in parts)


def _in_parentheses(rule: Rule, kinds: tuple[type, ...]) -> str:
    return f"({text_of(rule)})" if isinstance(rule, kinds) else text_of(rule)


def _comparison_text(rule: RuleComparison) -> str:
    if rule.operator in ABOUT_A_MESSAGE:
        return f"{rule.operator} {rule.values[0]}"
    if rule.operator is Operator.CLICKED_LINK:
        return f"{Operator.CLICKED} {literal_text(rule.values[0])}"
    words = [rule.operator.value] if rule.operator in LOOKED_UP else [rule.field, rule.operator]
    if rule.period is not None:
        words += [str(rule.period.count), rule.period.unit.value]
    elif rule.operator in (Operator.IN, Operator.NOT_IN):
        words.append(f"({', '.join(map(literal_text, rule.values))})")
    else:
        words += map(literal_text, rule.values)
    return " ".join(words)


def literal_text(value: Literal) -> str:
    """Write a value as a rule contains it."""
    match value:
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case bool():
            return "true" if value else "false"
        case date():
            return value.isoformat()
        case float():
            digits = format(Decimal(repr(value)), "f")  # without an exponent
            return digits if "." in digits else f"{digits}.0"
        case int():
            return str(value)
