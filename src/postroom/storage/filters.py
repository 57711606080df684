"""Filters on properties, which the engine evaluates.

A filter is a comparison, or comparisons joined by `&` and `|`:

    eq("Verified", True) & (lt("Failures", 3) | ge("SeenAt", yesterday))

A comparison holds only if the property is there and has the type of the value: `ne("Age", 3)` does
not match an entity without `Age`, nor one whose `Age` is text. There is no 'not': engines disagree
on what it means for a missing property. Text is ordered by code point. Booleans support only `eq`
and `ne`; bytes cannot be compared. Text longer than `limits.COMPARABLE_TEXT` matches nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from postroom.storage import limits
from postroom.storage.errors import InvalidValue
from postroom.storage.values import Properties, Value, check_property_name, check_value

Operator: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]

_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


class Filter:
    """A `Comparison`, or several under `AllOf` or `AnyOf`."""

    __slots__ = ()

    def __and__(self, other: Filter) -> AllOf:
        return AllOf((*_parts(self, AllOf), *_parts(other, AllOf)))

    def __or__(self, other: Filter) -> AnyOf:
        return AnyOf((*_parts(self, AnyOf), *_parts(other, AnyOf)))


@dataclass(frozen=True, slots=True)
class Comparison(Filter):
    """A comparison of one property with one value."""

    name: str
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class AllOf(Filter):
    """Every part matches."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Filter):
    """At least one part matches."""

    parts: tuple[Filter, ...]


def eq(name: str, value: Value) -> Comparison:
    return Comparison(name, "eq", value)


def ne(name: str, value: Value) -> Comparison:
    return Comparison(name, "ne", value)


def lt(name: str, value: Value) -> Comparison:
    return Comparison(name, "lt", value)


def le(name: str, value: Value) -> Comparison:
    return Comparison(name, "le", value)


def gt(name: str, value: Value) -> Comparison:
    return Comparison(name, "gt", value)


def ge(name: str, value: Value) -> Comparison:
    return Comparison(name, "ge", value)


def matches(where: Filter, properties: Properties) -> bool:
    """Return whether the properties match. Engines must evaluate filters in the same way."""
    match where:
        case AllOf(parts):
            return all(matches(part, properties) for part in parts)
        case AnyOf(parts):
            return any(matches(part, properties) for part in parts)
        case Comparison(name, compare, wanted):
            found = properties.get(name)
            if found is None or type(found) is not type(wanted):
                return False
            if isinstance(found, str) and len(found) > limits.COMPARABLE_TEXT:
                return False
            return _COMPARE[compare](found, wanted)
        case _:
            raise InvalidValue(f"not a filter: {where!r}")


def check_filter(where: Filter) -> None:
    """Refuse filters that not every engine could evaluate."""
    comparisons = list(_comparisons(where))
    if not 1 <= len(comparisons) <= limits.FILTER_COMPARISONS:
        raise InvalidValue(
            f"a filter must have 1 to {limits.FILTER_COMPARISONS} comparisons, not"
            f" {len(comparisons)}"
        )
    for comparison in comparisons:
        check_property_name(comparison.name)
        check_value(comparison.name, comparison.value)
        if comparison.operator not in _COMPARE:
            raise InvalidValue(f"a filter has no operator {comparison.operator!r}")
        if isinstance(comparison.value, bytes):
            raise InvalidValue(f"{comparison.name}: a filter cannot compare bytes")
        if isinstance(comparison.value, bool) and comparison.operator not in ("eq", "ne"):
            raise InvalidValue(f"{comparison.name}: a filter compares booleans with eq and ne only")
        if isinstance(comparison.value, str) and len(comparison.value) > limits.COMPARABLE_TEXT:
            raise InvalidValue(
                f"{comparison.name}: a filter compares at most {limits.COMPARABLE_TEXT} characters"
            )


def _comparisons(where: Filter) -> Iterator[Comparison]:
    match where:
        case Comparison():
            yield where
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _comparisons(part)
        case _:
            raise InvalidValue(f"not a filter: {where!r}")


def _parts(where: Filter, joined: type[AllOf | AnyOf]) -> tuple[Filter, ...]:
    return where.parts if isinstance(where, joined) else (where,)


__all__ = [
    "AllOf",
    "AnyOf",
    "Comparison",
    "Filter",
    "Operator",
    "check_filter",
    "eq",
    "ge",
    "gt",
    "le",
    "lt",
    "matches",
    "ne",
]
