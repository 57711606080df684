"""Key ranges and filters as SQL conditions with their values."""

from __future__ import annotations

from datetime import datetime

from postroom.storage import codec, limits
from postroom.storage.contract.tables import KeyRange
from postroom.storage.errors import InvalidValue
from postroom.storage.filters import AllOf, AnyOf, Comparison, Filter
from postroom.storage.values import Value

_OPERATORS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

# If a property is missing or has another type, the guard is NULL or false: no match, and no cast.
# CASE keeps the server from evaluating the comparison first.
_TEXT = """CASE WHEN jsonb_typeof(properties -> {name}) = 'string'
    AND properties -> '@' ->> {name} IS NULL
    AND char_length(properties ->> {name}) <= {most}
    THEN (properties ->> {name}) COLLATE "C" {operator} {value} ELSE false END"""
_BOOLEAN = """CASE WHEN jsonb_typeof(properties -> {name}) = 'boolean'
    THEN (properties -> {name})::boolean {operator} {value}::boolean ELSE false END"""
_INTEGER = """CASE WHEN jsonb_typeof(properties -> {name}) = 'number'
    AND properties -> '@' ->> {name} IS NULL
    THEN (properties -> {name})::numeric {operator} {value}::numeric ELSE false END"""
# As decimals: the shortest ones that represent floats have the same order.
_FLOAT = """CASE WHEN properties -> '@' ->> {name} = 'f'
    THEN (properties -> {name})::numeric {operator} {value}::numeric ELSE false END"""
_TAGGED_TEXT = """CASE WHEN properties -> '@' ->> {name} = '{tag}'
    THEN (properties ->> {name}) COLLATE "C" {operator} {value} ELSE false END"""


class Conditions:
    """Conditions that must all hold, and their values."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.values: dict[str, object] = {}

    @property
    def sql(self) -> str:
        return " AND ".join(self._parts) or "true"

    def keys(self, column: str, keys: KeyRange) -> None:
        """Require that the column is in the range."""
        if keys.single is not None:
            self._parts.append(f"{column} = {self._value(keys.single)}")
            return
        if keys.start is not None:
            self._parts.append(f"{column} >= {self._value(keys.start)}")
        if keys.stop is not None:
            operator = "<=" if keys.including_stop else "<"
            self._parts.append(f"{column} {operator} {self._value(keys.stop)}")

    def beyond(self, column: str, key: str) -> None:
        """Require that the column is larger than this key."""
        self._parts.append(f"{column} > {self._value(key)}")

    def after(self, partition: str, row: str) -> None:
        """Require that the key of both columns is larger than this one."""
        self._parts.append(f"(partition, row) > ({self._value(partition)}, {self._value(row)})")

    def matching(self, where: Filter) -> None:
        self._parts.append(self._filter(where))

    def _filter(self, where: Filter) -> str:
        match where:
            case AllOf(parts):
                return f"({' AND '.join(self._filter(part) for part in parts) or 'true'})"
            case AnyOf(parts):
                return f"({' OR '.join(self._filter(part) for part in parts) or 'false'})"
            case Comparison():
                return self._comparison(where)
            case _:
                raise InvalidValue(f"not a filter: {where!r}")

    def _comparison(self, comparison: Comparison) -> str:
        value = comparison.value
        form, tag = _TEXT, ""
        if isinstance(value, bool):
            form = _BOOLEAN
        elif isinstance(value, int):
            form = _INTEGER
        elif isinstance(value, float):
            form = _FLOAT
        elif isinstance(value, datetime):
            form, tag = _TAGGED_TEXT, codec.TIMESTAMP
        return form.format(
            name=f"{self._value(comparison.name)}::text",
            operator=_OPERATORS[comparison.operator],
            value=self._value(_written(value)),
            most=limits.COMPARABLE_TEXT,
            tag=tag,
        )

    def _value(self, value: object) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f"%({name})s"


def of_query(
    partitions: KeyRange, rows: KeyRange, where: Filter | None, last: list[str] | None
) -> Conditions:
    """Return the conditions of a query that continues after the key `last`.

    The index is entered at the lower bound of its first column, so there must be only one: with
    `partition = …` the continuation is a bound of the row, otherwise it replaces the start of the
    range.
    """
    conditions = Conditions()
    if last is None:
        conditions.keys("partition", partitions)
    elif partitions.single == last[0]:
        conditions.keys("partition", partitions)
        conditions.beyond("row", last[1])
    else:
        begun = partitions.start is None or partitions.start <= last[0]
        start = None if begun else partitions.start
        conditions.keys("partition", KeyRange(start, partitions.stop, partitions.including_stop))
        conditions.after(*last)
    conditions.keys("row", rows)
    if where is not None:
        conditions.matching(where)
    return conditions


def _written(value: Value) -> str | bool:
    """Return the value as a parameter whose type does not depend on its size."""
    written = codec.written_as(value)
    return written if isinstance(written, str | bool) else repr(written)
