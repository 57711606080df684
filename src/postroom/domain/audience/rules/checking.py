"""Checking a rule against the fields that exist."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from difflib import get_close_matches
from typing import Final

from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.rules.errors import RuleError
from postroom.domain.audience.rules.syntax import (
    LOOKED_UP,
    Literal,
    Operator,
    Rule,
    comparisons,
    literal_text,
)

_EQUALITY: Final = {Operator.EQUAL, Operator.NOT_EQUAL, Operator.IN, Operator.NOT_IN}
_ORDER: Final = {Operator.LESS, Operator.AT_MOST, Operator.MORE, Operator.AT_LEAST}
_PARTS: Final = {Operator.CONTAINS, Operator.STARTS_WITH, Operator.ENDS_WITH}
_DATES: Final = {Operator.BEFORE, Operator.AFTER, Operator.WITHIN}

_OPERATORS: Final[Mapping[FieldType, frozenset[Operator]]] = {
    kind: frozenset({Operator.EMPTY, Operator.NOT_EMPTY, *operators})
    for kind, operators in {
        FieldType.TEXT: _EQUALITY | _PARTS,
        FieldType.INTEGER: _EQUALITY | _ORDER,
        FieldType.NUMBER: _EQUALITY | _ORDER,
        FieldType.BOOLEAN: {Operator.EQUAL, Operator.NOT_EQUAL},
        FieldType.DATE: _EQUALITY | _ORDER | _DATES,
        FieldType.CHOICE: _EQUALITY | _PARTS,
        FieldType.CHOICES: {Operator.CONTAINS, Operator.IN, Operator.NOT_IN},
    }.items()
}

_VALUES: Final = {
    FieldType.TEXT: 'a text in double quotes, such as "Berlin"',
    FieldType.INTEGER: "a whole number, such as 30",
    FieldType.NUMBER: "a number, such as 1.5",
    FieldType.BOOLEAN: "true or false",
    FieldType.DATE: "a date, such as 2026-01-31",
    FieldType.CHOICE: "a text in double quotes",
    FieldType.CHOICES: "a text in double quotes",
}


def operators_of(kind: FieldType) -> list[Operator]:
    """Return how a field of this type can be compared."""
    return [each for each in Operator if each in _OPERATORS[kind]]


def check_rule(
    rule: Rule, fields: Mapping[str, FieldType], *, may_ask_messages: bool = False
) -> None:
    """Raise `RuleError` if a field does not exist, or if its type rules out the comparison; also if
    the rule asks who received, opened or clicked a message, unless it may."""
    for each in comparisons(rule):
        if each.operator in LOOKED_UP:
            if not may_ask_messages:
                raise RuleError(each.place, f"{each.operator} can be used in segments only")
            continue
        kind = fields.get(each.field)
        if kind is None:
            raise RuleError(each.place, _unknown(each.field, fields))
        if each.operator not in _OPERATORS[kind]:
            usable = ", ".join(one.value for one in operators_of(kind))
            problem = f"{each.field} cannot be compared with {each.operator.value}; use {usable}"
            raise RuleError(each.place, problem)
        if not all(_fits(value, kind) for value in each.values):
            given = ", ".join(map(literal_text, each.values))
            problem = f"{each.field} must be compared with {_VALUES[kind]}, not {given}"
            raise RuleError(each.place, problem)


def _unknown(name: str, fields: Mapping[str, FieldType]) -> str:
    [meant] = get_close_matches(name, fields, 1) or [""]
    advice = f"did you mean {meant}?" if meant else f"the fields are {', '.join(sorted(fields))}"
    return f"there is no field {name}; {advice}"


def _fits(value: Literal, kind: FieldType) -> bool:
    match kind:
        case FieldType.TEXT | FieldType.CHOICE | FieldType.CHOICES:
            return isinstance(value, str)
        case FieldType.INTEGER | FieldType.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case FieldType.BOOLEAN:
            return isinstance(value, bool)
        case FieldType.DATE:
            return isinstance(value, date)
