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
"""Rows of one index that are sorted: reading so many subscribers takes a tenth of the 100 ms that
a page may take on SQLite, and ten requests on Azure."""

ROWS_SHOWN: Final = 50
"""Rows of an index that are shown at once."""

_LONGEST_SHOWN: Final = 40  # of a column's name that is none
_DIGITS: Final = 6
_BACK: Final = "back"  # where earlier pages of an index in key order began, the last one last
_MOST_BACK: Final = 20


class Column(msgspec.Struct, Generic[Row], frozen=True):
    """A column of an index: its head, and the value of a row there (text, number, moment, None).

    Numbers, and what else is to have its `largest_first`, begin with the largest.
    """

    label: str
    of: Callable[[Row], Any]
    is_number: bool = False
    largest_first: bool = False

    @property
    def first_sign(self) -> str:
        return "-" if self.is_number or self.largest_first else ""


class Sortable(msgspec.Struct, Generic[Row], frozen=True):
    """An index: its columns, and by which of them its keys are in order, written like `sort`.

    `in_words` is that order for people; `advice` says how to get fewer than `most`, if one can. By
    the columns `at_any_size` the page itself can sort more.
    """

    columns: Mapping[str, Column[Row]]
    natural: str
    in_words: str
    advice: str = ""
    most: int = MOST
    at_any_size: frozenset[str] = frozenset()


class Head(msgspec.Struct, frozen=True):
    """A column's head: `direction` as `aria-sort` says it, `url` sorts by it; either may be ''."""

    label: str
    is_number: bool
    direction: str
    url: str


class Sorting(Generic[Row]):
    """How one answer of an index is sorted, and where its heads and its pager lead.

    The index is at `path`, or where the visitor is; `filters` are the other fields of its address,
    which stay whatever is chosen. `Invalid` for a column that is none.
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
        asked = visit.parameter("sort")
        if asked and asked.removeprefix("-") not in index.columns:
            shown = asked if len(asked) <= _LONGEST_SHOWN else f"{asked[:_LONGEST_SHOWN]}…"
            choice = ", ".join(index.columns)
            raise Invalid("sort", f"{shown!r} is no column of this page: choose one of {choice}")
        self.asked = "" if asked == index.natural else asked
        self.next_url = ""
        self.first_url = ""
        self.previous_url = ""
        self.place = ""
        self._is_too_long = False
        self._visit = visit
        self._index = index
        self._path = path or visit.path
        self._filters = filters or {}
        self._rows_shown = rows_shown

    @property
    def is_natural(self) -> bool:
        """Nothing but the order of the keys is asked for."""
        return not self.asked

    @property
    def is_at_any_size(self) -> bool:
        """Whether the page itself can sort as it is asked to, however long the index is."""
        return self.asked.removeprefix("-") in self._index.at_any_size

    @property
    def most(self) -> int:
        return self._index.most

    def expect(self, count: int) -> None:
        """So many rows are known to be there: if they are too many, no head offers to sort them."""
        self._is_too_long = self.is_natural and count > self.most

    def all_of(self, rows: Sequence[Row]) -> list[Row]:
        """These rows, which came in the order of their keys, in the order that is asked for."""
        if self.is_natural:
            return list(rows)
        value = self._index.columns[self.asked.removeprefix("-")].of
        is_backwards = self.asked.startswith("-")
        return sorted(rows, key=lambda row: _comparable(value(row)), reverse=is_backwards)

    def page_of(self, rows: Sequence[Row] | None) -> list[Row] | None:
        """The page that is asked for, of all these rows; None where they were too many to read."""
        self._is_too_long = rows is None
        if rows is None:
            return None
        in_order = self.all_of(rows)
        last = max(len(in_order) - 1, 0) // self._rows_shown
        page = min(self._asked_page(), last)
        begin, end = page * self._rows_shown, (page + 1) * self._rows_shown
        if last:
            self.place = f"{begin + 1:,} to {min(end, len(in_order)):,} of {len(in_order):,}"
        self.first_url = self._address(sort=self.asked) if page else ""
        before = "" if page == 1 else str(page)
        self.previous_url = self._address(sort=self.asked, page=before) if page else ""
        self.next_url = self._address(sort=self.asked, page=str(page + 2)) if page < last else ""
        return in_order[begin:end]

    def in_key_order(self, following: str | None, field: str = "after") -> None:
        """The index goes on behind this place, under this field of its address."""
        sort = self.asked if self.is_at_any_size else ""
        here = self._visit.parameter(field)
        passed = self._visit.request.query_params.getlist(_BACK)[-_MOST_BACK:]
        self.next_url = self.first_url = self.previous_url = ""
        if following:
            back = [*passed, here][-_MOST_BACK:] if here else passed
            self.next_url = self._address(sort=sort, **{field: following, _BACK: back})
        if here:
            self.first_url = self._address(sort=sort)
            before = {field: passed[-1], _BACK: passed[:-1]} if passed else {}
            self.previous_url = self._address(sort=sort, **before)

    # — What templates ask —

    def head(self, name: str) -> Head:
        column = self._index.columns[name]
        is_natural = self.is_natural or (self._is_too_long and not self.is_at_any_size)
        current = self._index.natural if is_natural else self.asked
        is_current = current.removeprefix("-") == name
        sign = column.first_sign
        if is_current:
            sign = "" if current.startswith("-") else "-"
        wanted = f"{sign}{name}"
        direction = ""
        if is_current:
            direction = "descending" if current.startswith("-") else "ascending"
        url = self._address(sort="" if wanted == self._index.natural else wanted)
        possible = not self._is_too_long or wanted == self._index.natural
        possible = possible or name in self._index.at_any_size
        return Head(column.label, column.is_number, direction, url if possible else "")

    @property
    def here(self) -> str:
        """This answer's own address, for the part of a page that asks again."""
        return self._address(sort=self.asked)

    @property
    def note(self) -> str:
        """Why the index cannot be sorted, and what to do; '' if it can."""
        if not self._is_too_long or self.is_at_any_size:
            return ""
        if self._index.at_any_size and self.is_natural:
            return ""
        why = f"more than {self.most:,} rows can only be shown in this order."
        return f"{self._index.in_words}: {why} {self._index.advice}".rstrip()

    def _asked_page(self) -> int:
        """Counted from 0."""
        text = self._visit.parameter("page", "1")
        if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text)):
            raise Invalid("page", "is a number, as in page=2")
        return int(text) - 1

    def continued(self, **fields: str | Sequence[str]) -> str:
        """Return the address at which a look through the index continues."""
        return self._address(sort=self.asked, **fields)

    def _address(self, **more: str | Sequence[str]) -> str:
        given = {name: value for name, value in {**self._filters, **more}.items() if value}
        return f"{self._path}?{urlencode(given, doseq=True)}" if given else self._path


def _comparable(value: Any) -> tuple[bool, Any]:
    """Nothing comes before something; capital letters do not count."""
    return value is not None, value.casefold() if isinstance(value, str) else value
