"""Deciding whether a rule selects a subscriber."""

from __future__ import annotations

import operator as op
import unicodedata
from calendar import monthrange
from collections.abc import Callable, Container, Mapping
from datetime import date, timedelta
from typing import Any, Final, TypeAlias

import msgspec

from postroom.domain.audience.addresses import Address, address_key
from postroom.domain.audience.field_texts import shown_value
from postroom.domain.audience.field_types import FieldValue
from postroom.domain.audience.rules.syntax import (
    LOOKED_UP,
    AllRules,
    AnyRule,
    Not,
    Operator,
    Period,
    Rule,
    RuleComparison,
    Unit,
    text_of,
)

Row: TypeAlias = Mapping[str, FieldValue]
Selects: TypeAlias = Callable[[Row], bool]
Received: TypeAlias = Mapping[str, Container[str]]
"""For each question of rules about messages, opens and clicks (see `asked`), the keys of the
addresses for which it holds. It is looked up for each subscriber, so it may cover only a few
neighbours at a time."""

NOBODY: Final[Received] = {}

_ORDER: Final[Mapping[Operator, Callable[[Any, Any], bool]]] = {
    Operator.LESS: op.lt,
    Operator.AT_MOST: op.le,
    Operator.MORE: op.gt,
    Operator.AT_LEAST: op.ge,
    Operator.BEFORE: op.lt,
    Operator.AFTER: op.gt,
}
_PARTS: Final[Mapping[Operator, Callable[[str, str], bool]]] = {
    Operator.CONTAINS: op.contains,
    Operator.STARTS_WITH: str.startswith,
    Operator.ENDS_WITH: str.endswith,
}


class Reason(msgspec.Struct, frozen=True):
    """A part of a rule, whether it holds for a subscriber, and the parts that it consists of. A
    comparison has the subscriber's `value` instead, which may be empty."""

    text: str
    holds: bool
    parts: tuple[Reason, ...] = ()
    value: str | None = None


def compile_rule(rule: Rule, today: date, received: Received = NOBODY) -> Selects:
    """Return a function that says whether the rule selects a subscriber with these fields.
    `received` has everything of `LOOKED_UP` that the rule asks.

    An empty field equals nothing, and is neither more nor less than anything: `!=` and `not in`
    select it, and every other comparison but `is empty` does not.
    """
    match rule:
        case RuleComparison():
            return _compare(rule, today, received)
        case Not(part):
            holds = compile_rule(part, today, received)
            return lambda row: not holds(row)
        case AllRules(parts):
            each = [compile_rule(part, today, received) for part in parts]
            return lambda row: all(holds(row) for holds in each)
        case AnyRule(parts):
            each = [compile_rule(part, today, received) for part in parts]
            return lambda row: any(holds(row) for holds in each)


def explain(rule: Rule, row: Row, today: date, received: Received = NOBODY) -> Reason:
    """Return whether each part of the rule holds for a subscriber."""
    parts: tuple[Rule, ...] = ()
    if isinstance(rule, Not):
        parts = (rule.part,)
    elif isinstance(rule, AllRules | AnyRule):
        parts = rule.parts
    holds = compile_rule(rule, today, received)(row)
    inner = tuple(explain(each, row, today, received) for each in parts)
    value = None
    if isinstance(rule, RuleComparison) and rule.operator not in LOOKED_UP:
        value = shown_value(row.get(rule.field))
    return Reason(text_of(rule), holds, inner, value)


def asked(rule: RuleComparison) -> str:
    """Return the key of a comparison in `Received`: for `received REF`, the message."""
    return str(rule.values[0]) if rule.operator is Operator.RECEIVED else text_of(rule)


def first_day(period: Period, today: date) -> date:
    """Return the first day of a period that ends today."""
    try:
        match period.unit:
            case Unit.DAYS:
                return today - timedelta(days=period.count)
            case Unit.WEEKS:
                return today - timedelta(weeks=period.count)
            case Unit.MONTHS:
                return _months_before(today, period.count)
            case Unit.YEARS:
                return _months_before(today, 12 * period.count)
    except (OverflowError, ValueError):  # before the first year
        return date.min


def _months_before(day: date, months: int) -> date:
    year, month = divmod(12 * day.year + day.month - 1 - months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _compare(rule: RuleComparison, today: date, received: Received) -> Selects:
    name = rule.field
    if rule.operator in LOOKED_UP:
        key = asked(rule)
        return lambda row: address_key(Address(str(row[name]))) in received[key]
    if rule.operator is Operator.EMPTY:
        return lambda row: is_empty(row.get(name))
    if rule.operator is Operator.NOT_EMPTY:
        return lambda row: not is_empty(row.get(name))
    holds = _test(rule, today)
    # An empty field fails the test, so the negated comparisons select it.
    if rule.operator in (Operator.NOT_EQUAL, Operator.NOT_IN):
        return lambda row: is_empty(value := row.get(name)) or not holds(value)
    return lambda row: not is_empty(value := row.get(name)) and holds(value)


def _test(rule: RuleComparison, today: date) -> Callable[[Any], bool]:
    """Return the test of a value that is not empty."""
    values = [_comparable(each) for each in rule.values]
    if rule.period is not None:
        first = first_day(rule.period, today)
        return lambda value: first <= value <= today
    if (order := _ORDER.get(rule.operator)) is not None:
        return lambda value: order(value, values[0])
    if (part := _PARTS.get(rule.operator)) is not None:
        return lambda value: (
            part(_comparable(value), values[0])
            if isinstance(value, str)
            else values[0] in map(_comparable, value)
        )
    wanted = set(values)
    return lambda value: (
        wanted.isdisjoint(map(_comparable, value)) is False
        if _is_several(value)
        else _comparable(value) in wanted
    )


def is_empty(value: FieldValue) -> bool:
    """Return whether nothing is known: `false` and 0 are values, an empty text is not."""
    return value is None or value == "" or (_is_several(value) and not value)


def _is_several(value: FieldValue) -> bool:
    return isinstance(value, list | tuple)  # asked a million times: `Sequence` takes much longer


def _comparable(value: FieldValue) -> Any:
    """Return a text as it is compared: without regard to case and to how accents are encoded."""
    return unicodedata.normalize("NFC", value).casefold() if isinstance(value, str) else value
