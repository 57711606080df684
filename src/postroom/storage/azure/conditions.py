"""Key ranges and filters in OData, as Azure Tables evaluates them.

The query may return some entities too many, never one too few: `tables.py` checks each again with
`filters.matches`, which decides. So a comparison is loosened wherever the service and the contract
could disagree:

- Azure compares text by UTF-16 units, the contract by code points. They agree up to the first
  character from U+E000 on.
- A query is a URL of limited length, so long texts are compared by their beginning.
- Azurite compares timestamps only to the millisecond.
- A property whose name is a keyword of OData cannot be used in a filter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Final
from urllib.parse import quote

from postroom.storage import limits
from postroom.storage.azure.encoding import encode_bound, encode_key, written_timestamp
from postroom.storage.contract.tables import KeyRange
from postroom.storage.filters import AllOf, AnyOf, Comparison, Filter, Operator
from postroom.storage.values import Value

# Servers refuse longer request lines; Azurite accepts 16 KiB with all headers.
_LONGEST_QUERY: Final = 12_000
# How much of texts is compared: as much as fits.
_CUTS: Final = (limits.COMPARABLE_TEXT, 100, 10)

_WORDS = re.compile(
    "add|and|asc|binary|cast|datetime|desc|div|eq|false|ge|gt|guid|inf|isof|le|lt|mod|mul|nan|ne|not"
    "|null|or|sub|time|true|x",
    re.IGNORECASE,
)
_HIGH = re.compile(r"[\ue000-\U0010ffff]")


def query_text(key_conditions: Iterable[str], where: Filter | None) -> str:
    """Return the whole `$filter`, with as much of the property filter as fits into a URL."""
    by_key = " and ".join(key_conditions)
    if where is None:
        return by_key
    for cut in _CUTS:
        by_property = _filter_text(where, cut)
        if by_property is None:
            break
        text = f"{by_key} and ({by_property})" if by_key else by_property
        if len(quote(text)) <= _LONGEST_QUERY:
            return text
    return by_key


def range_conditions(name: str, within: KeyRange, after: str | None = None) -> list[str]:
    """Return the conditions of a key range, after the key `after` if one is given."""
    if within.single is not None and after is None:
        kept, possible = encode_bound(within.single)
        if possible:
            return [f"{name} eq {_quoted(kept)}"]
    conditions = []
    if after is not None:
        conditions.append(f"{name} gt {_quoted(encode_key(after))}")
    if within.start is not None and (after is None or within.start > after):
        kept, _ = encode_bound(within.start)
        conditions.append(f"{name} ge {_quoted(kept)}")
    if within.stop is not None:
        kept, possible = encode_bound(within.stop)
        operator = "le" if within.including_stop and possible else "lt"
        conditions.append(f"{name} {operator} {_quoted(kept)}")
    return conditions


def is_within(key: str, within: KeyRange) -> bool:
    """Return whether the key is in the range."""
    if within.start is not None and key < within.start:
        return False
    if within.stop is None:
        return True
    return key < within.stop or (within.including_stop and key == within.stop)


def _filter_text(where: Filter, cut: int) -> str | None:
    """Return the filter in OData; None if it cannot be expressed."""
    match where:
        case Comparison(name, operator, value):
            if _WORDS.fullmatch(name):
                return None
            return _comparison(name, operator, value, cut)
        case AllOf(parts):
            texts = [text for part in parts if (text := _filter_text(part, cut)) is not None]
            return " and ".join(f"({text})" for text in texts) or None
        case AnyOf(parts):
            alternatives = [_filter_text(part, cut) for part in parts]
            if None in alternatives:
                return None
            return " or ".join(f"({text})" for text in alternatives)
        case _:  # `check_filter` has refused everything else
            return None


def _comparison(name: str, operator: Operator, value: Value, cut: int) -> str | None:
    if isinstance(value, str):
        return _text_comparison(name, operator, value, cut)
    if isinstance(value, bool):
        return f"{name} {operator} {str(value).lower()}"
    if isinstance(value, int):
        return f"{name} {operator} {value}L"
    if isinstance(value, float):
        return f"{name} {operator} {_decimal(value)}"
    if isinstance(value, datetime):
        return _timestamp_comparison(name, operator, value)
    return None


def _text_comparison(name: str, operator: Operator, value: str, cut: int) -> str:
    if operator in ("eq", "ne") and len(value) <= cut:
        return f"{name} {operator} {_quoted(value)}"
    high = _HIGH.search(value)
    agreed = value[: min(cut, high.start() if high else len(value))]
    if agreed == value:
        return f"{name} {operator} {_quoted(value)}"
    if operator in ("eq", "gt", "ge"):
        return f"{name} ge {_quoted(agreed)}"
    if operator in ("lt", "le") and agreed and ord(agreed[-1]) < 0xD7FF:
        return f"{name} lt {_quoted(agreed[:-1] + chr(ord(agreed[-1]) + 1))}"
    return f"{name} ge ''"


def _timestamp_comparison(name: str, operator: Operator, value: datetime) -> str:
    if operator == "ne":
        return f"{name} ge datetime'{written_timestamp(limits.EARLIEST)}'"
    loose = {"lt": "le", "gt": "ge"}.get(operator, operator)
    return f"{name} {loose} datetime'{written_timestamp(value)}'"


def _decimal(value: float) -> str:
    """Return a number without an exponent, which Azurite cannot read, and with a decimal point,
    which makes it a float."""
    digits = f"{Decimal(repr(value)):f}"
    return digits if "." in digits else f"{digits}.0"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
