"""Tables that can be sorted by a column: `?sort=column`, or `?sort=-column` for descending.

The store has keys and no secondary indexes. In key order, any number of rows can be paged through.
By another column, all rows are read and sorted in memory, so there is a limit: a longer table stays
in key order and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from postroom.domain.errors import Invalid
from postroom.web.requests.visit import Visit

Row = TypeVar("Row")

MOST: Final = 10_000
"""Rows that are sorted in memory: reading this many subscribers takes a tenth of the 100 ms that a
page may take on SQLite, and ten requests on Azure."""

ROWS_SHOWN: Final = 50
"""Rows that are shown at a time."""

_LONGEST_SHOWN: Final = 40  # characters of an unknown column
_DIGITS: Final = 6
_BACK: Final = "back"  # where the previous screens in key order started, latest last
_MOST_BACK: Final = 20


class SortColumn(msgspec.Struct, Generic[Row], frozen=True):
    """A column: its label, and its value in a row (text, number, time or None).

    The first click sorts numbers, and columns with `largest_first`, in descending order.
    """

    label: str
    of: Callable[[Row], Any]
    is_number: bool = False
    largest_first: bool = False

    @property
    def first_sign(self) -> str:
        return "-" if self.is_number or self.largest_first else ""


class Sortable(msgspec.Struct, Generic[Row], frozen=True):
    """A sortable table: its columns, and which of them is in key order, written like `sort`.

    `order_label` describes the key order; `advice` says how to get fewer than `max_rows`. By the
    columns `at_any_size`, the page itself can sort any number of rows.
    """

    columns: Mapping[str, SortColumn[Row]]
    key_order: str
    order_label: str
    advice: str = ""
    max_rows: int = MOST
    at_any_size: frozenset[str] = frozenset()


class ColumnHead(msgspec.Struct, frozen=True):
    """A column header: the value of `aria-sort`, and the URL that sorts by it; both may be ""."""

    label: str
    is_number: bool
    direction: str
    url: str


class Sorting(Generic[Row]):
    """How a table is sorted for one request, and the links of its headers and its pager.

    `path` is the table's URL, by default the current one; `filters` are its other parameters, which
    all links keep. `Invalid` for an unknown column.
    """

    def __init__(
        self,
        visit: Visit,
        index: Sortable[Row],
        filters: Mapping[str, str] | None = None,
        *,
        path: str = "",
        rows_shown: int = ROWS_SHOWN,
    ) -> None:
        requested = visit.parameter("sort")
        if requested and requested.removeprefix("-") not in index.columns:
            columns = ", ".join(index.columns)
            raise Invalid("sort", f"must be one of {columns}, not {requested[:_LONGEST_SHOWN]!r}")
        self.requested = "" if requested == index.key_order else requested
        self.next_url = ""
        self.first_url = ""
        self.previous_url = ""
        self.position = ""
        self._is_too_long = False
        self._visit = visit
        self._index = index
        self._path = path or visit.path
        self._filters = filters or {}
        self._rows_shown = rows_shown

    @property
    def is_key_order(self) -> bool:
        """Whether rows are requested in key order."""
        return not self.requested

    @property
    def is_at_any_size(self) -> bool:
        """Whether the page itself can sort as requested, whatever the number of rows."""
        return self.requested.removeprefix("-") in self._index.at_any_size

    @property
    def max_rows(self) -> int:
        return self._index.max_rows

    def expect(self, count: int) -> None:
        """Hide the sort links if this number of rows is too large to sort."""
        self._is_too_long = self.is_key_order and count > self.max_rows

    def sort(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows, which are in key order, in the requested order."""
        if self.is_key_order:
            return list(rows)
        value = self._index.columns[self.requested.removeprefix("-")].of
        is_backwards = self.requested.startswith("-")
        return sorted(rows, key=lambda row: _comparable(value(row)), reverse=is_backwards)

    def select(self, rows: Sequence[Row] | None) -> list[Row] | None:
        """Return the requested part of all rows; None if there were too many to read."""
        self._is_too_long = rows is None
        if rows is None:
            return None
        in_order = self.sort(rows)
        last = max(len(in_order) - 1, 0) // self._rows_shown
        page = min(self._requested_page(), last)
        begin, end = page * self._rows_shown, (page + 1) * self._rows_shown
        if last:
            self.position = f"{begin + 1:,} to {min(end, len(in_order)):,} of {len(in_order):,}"
        self.first_url = self._url(sort=self.requested) if page else ""
        before = "" if page == 1 else str(page)
        self.previous_url = self._url(sort=self.requested, page=before) if page else ""
        self.next_url = self._url(sort=self.requested, page=str(page + 2)) if page < last else ""
        return in_order[begin:end]

    def continue_after(self, following: str | None, field: str = "after") -> None:
        """Set the pager for key order: the next rows start after `following`, in this parameter."""
        sort = self.requested if self.is_at_any_size else ""
        here = self._visit.parameter(field)
        passed = self._visit.request.query_params.getlist(_BACK)[-_MOST_BACK:]
        self.next_url = self.first_url = self.previous_url = ""
        if following:
            back = [*passed, here][-_MOST_BACK:] if here else passed
            self.next_url = self._url(sort=sort, **{field: following, _BACK: back})
        if here:
            self.first_url = self._url(sort=sort)
            before = {field: passed[-1], _BACK: passed[:-1]} if passed else {}
            self.previous_url = self._url(sort=sort, **before)

    # — For templates —

    def head(self, name: str) -> ColumnHead:
        column = self._index.columns[name]
        is_key_order = self.is_key_order or (self._is_too_long and not self.is_at_any_size)
        current = self._index.key_order if is_key_order else self.requested
        is_current = current.removeprefix("-") == name
        sign = column.first_sign
        if is_current:
            sign = "" if current.startswith("-") else "-"
        wanted = f"{sign}{name}"
        direction = ""
        if is_current:
            direction = "descending" if current.startswith("-") else "ascending"
        url = self._url(sort="" if wanted == self._index.key_order else wanted)
        possible = not self._is_too_long or wanted == self._index.key_order
        possible = possible or name in self._index.at_any_size
        return ColumnHead(column.label, column.is_number, direction, url if possible else "")

    @property
    def heads(self) -> list[ColumnHead]:
        """All columns, for the menu on a phone."""
        return [self.head(name) for name in self._index.columns]

    @property
    def url(self) -> str:
        """The URL of this table, for a part of the page that polls."""
        return self._url(sort=self.requested)

    @property
    def note(self) -> str:
        """Why the table cannot be sorted as requested, and what to do; "" if it can."""
        if not self._is_too_long or self.is_at_any_size:
            return ""
        if self._index.at_any_size and self.is_key_order:
            return ""
        why = f"more than {self.max_rows:,} rows can only be shown in this order."
        return f"{self._index.order_label}: {why} {self._index.advice}".rstrip()

    def _requested_page(self) -> int:
        """Return the requested page, counted from 0."""
        text = self._visit.parameter("page", "1")
        if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text)):
            raise Invalid("page", f"must be a number of at least 1, not {text[:_LONGEST_SHOWN]!r}")
        return int(text) - 1

    def continue_url(self, **fields: str | Sequence[str]) -> str:
        """Return the URL at which a search continues."""
        return self._url(sort=self.requested, **fields)

    def _url(self, **more: str | Sequence[str]) -> str:
        given = {name: value for name, value in {**self._filters, **more}.items() if value}
        return f"{self._path}?{urlencode(given, doseq=True)}" if given else self._path


def _comparable(value: Any) -> tuple[bool, Any]:
    """Return a sort key: None first, and case-insensitive."""
    return value is not None, value.casefold() if isinstance(value, str) else value
