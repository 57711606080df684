"""Key ranges and filters as SQL conditions with their values."""

from __future__ import annotations

from datetime import datetime

from postroom.storage import codec, limits
from postroom.storage.contract.tables import KeyRange
from postroom.storage.errors import InvalidValue
from postroom.storage.filters import AllOf, AnyOf, Comparison, Filter
from postroom.storage.values import Value

Condition = tuple[str, list[object]]

_OPERATORS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def of_query(
    partitions: KeyRange, rows: KeyRange, where: Filter | None, last: list[str] | None
) -> Condition:
    """Return the conditions of a query that continues after the key `last`.

    SQLite enters the index at one lower bound of a column, and may choose the earlier one and scan
    everything before `last`. So a bound that `last` replaces is left out.
    """
    if last is None:
        parts = [of_range("partition", partitions), of_range("row", rows)]
    elif partitions.single == last[0]:
        parts = [of_range("partition", partitions), ("row > ?", [last[1]])]
        parts.append(of_range("row", _open_at(rows, last[1])))
    else:
        parts = [("(partition, row) > (?, ?)", list(last))]
        parts.append(of_range("partition", _open_at(partitions, last[0])))
        parts.append(of_range("row", rows))
    if where is not None:
        parts.append(_of_filter(where))
    return _joined(" AND ", parts)


def _open_at(keys: KeyRange, begun: str) -> KeyRange:
    """Return the range without its start, unless that is after the key where it continues."""
    if keys.start is None or keys.start > begun:
        return keys
    return KeyRange(None, keys.stop, keys.including_stop)


def of_range(column: str, keys: KeyRange) -> Condition:
    if keys.single is not None:
        return f"{column} = ?", [keys.single]
    parts: list[Condition] = []
    if keys.start is not None:
        parts.append((f"{column} >= ?", [keys.start]))
    if keys.stop is not None:
        parts.append((f"{column} {'<=' if keys.including_stop else '<'} ?", [keys.stop]))
    return _joined(" AND ", parts) if parts else ("TRUE", [])


def _of_filter(where: Filter) -> Condition:
    match where:
        case AllOf(parts):
            return _joined(" AND ", [_of_filter(part) for part in parts])
        case AnyOf(parts):
            return _joined(" OR ", [_of_filter(part) for part in parts])
        case Comparison(name, operator, value):
            # Names are letters, digits and _ (checked before), so they can be part of the path.
            kind, tag = _stored_as(value)
            condition = (
                f"json_type(properties, '$.{name}') {kind}"
                f" AND json_extract(properties, '$.\"{codec.TYPES}\".{name}') IS {tag}"
                f" AND json_extract(properties, '$.{name}') {_OPERATORS[operator]} ?"
            )
            if isinstance(value, str):
                condition += (
                    f" AND length(json_extract(properties, '$.{name}')) <= {limits.COMPARABLE_TEXT}"
                )
            return f"({condition})", [codec.written_as(value)]
        case _:
            raise InvalidValue(f"not a filter: {where!r}")


def _stored_as(value: Value) -> tuple[str, str]:
    """Return how the type of a value appears in JSON: a condition on the JSON type, and the tag."""
    if isinstance(value, bool):
        return "IN ('true', 'false')", "NULL"
    if isinstance(value, int):
        return "= 'integer'", "NULL"
    if isinstance(value, float):
        return "IN ('real', 'integer')", f"'{codec.FLOAT}'"
    if isinstance(value, datetime):
        return "= 'text'", f"'{codec.TIMESTAMP}'"
    return "= 'text'", "NULL"


def _joined(separator: str, parts: list[Condition]) -> Condition:
    return f"({separator.join(sql for sql, _ in parts)})", [v for _, vs in parts for v in vs]
