"""Subscribers in CSV files: how a file is read, and which of its lines can be used.

A file has a header line, whose columns `columns.py` explains. The delimiter is a comma, a semicolon
or a tab: the one with which there is a column of addresses. The encoding is UTF-8, UTF-16 with a
byte-order mark, or what the caller names.

The whole file is decoded once before its first line is used, so that a file in a wrong encoding is
refused before anything is written. Memory use does not depend on the content (`record_lines.py`).
"""

from __future__ import annotations

import codecs
import csv
import io
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, BinaryIO, Final

import msgspec

from postroom.domain.audience.addresses import AddressKey, parse_address
from postroom.domain.audience.field_types import FieldType
from postroom.domain.audience.fields import Field
from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import shown, unprotected
from postroom.services.audience.files.columns.attribute_keys import attribute_keys
from postroom.services.audience.files.columns.choice_values import distinct_values
from postroom.services.audience.files.columns.columns import (
    EMAIL,
    LONGEST_HEADER,
    VERIFIED,
    ColumnPlan,
    FileColumn,
    FileColumns,
    unread_columns,
)
from postroom.services.audience.files.columns.guessed_types import ROWS, guessed_type
from postroom.services.audience.files.columns.meanings import Standing
from postroom.services.audience.files.columns.status_words import TRUTH
from postroom.services.audience.files.encodings import (
    check_decodes,
    checked_encoding,
    marked_encoding,
)
from postroom.services.audience.files.import_report import RejectedLine
from postroom.services.audience.files.line_chunks import Chunk
from postroom.services.audience.files.record_lines import RecordLines
from postroom.services.audience.signup.foreign_ids import parse_foreign_id

_MOST_REJECTED = 1000  # in one chunk: a rejected line may take milliseconds
_SAMPLE = 5  # rows that a preview shows
_NO_STANDING: Final = None, ""
_MOST_LINES = 100  # of one record: a cell may have line breaks, but more mean a missing quote


class SubscriberFile:
    """A CSV file. `sample` has its first rows, `columns` says what each column is used for, and
    `new_fields` are those that have to be declared, or get more choices, before its rows are used.

    The binary file must be seekable. `Invalid` says in one line what is wrong with it and what to
    do. It blocks, so use it in a thread. Setting `stop` in another thread ends it soon, as if the
    file ended there.
    """

    def __init__(
        self,
        file: BinaryIO,
        encoding: str | None = None,
        stop: threading.Event | None = None,
        *,
        plan: ColumnPlan | None = None,
    ) -> None:
        stop = stop or threading.Event()
        self._file = file
        self._plan = plan
        self._encoding = checked_encoding(encoding) if encoding else marked_encoding(file)
        check_decodes(file, self._encoding, stop, was_given=encoding is not None)
        self._columns = self._open()
        if plan is not None and plan.create_fields:
            self._look_through(plan, stop)
        if places := self._columns.fields.open_places:
            self._reopen(values=distinct_values(self._all_lines(stop), self._columns, places))
        first = self._first_rows(_SAMPLE, stop)
        width = len(self._columns.names)
        self.sample = [[shown(cell) for cell in row[:width]] for row in first]
        self.release()
        self._open()
        self._lines = self._all_lines(stop)
        self._rows = csv.reader(self._lines, delimiter=self._columns.delimiter)

    def _look_through(self, plan: ColumnPlan, stop: threading.Event) -> None:
        """Find out of which types the fields are that are to be created."""
        columns = self._columns
        if plan.guess_types:
            rows = self._first_rows(ROWS, stop)
            guesses: dict[int, FieldType] = {}
            for place, name in enumerate(columns.names):
                cells = [row[place] for row in rows if place < len(row)]
                if (kind := guessed_type(name, cells, plan.date_order)) is not None:
                    guesses[place] = kind
            self._reopen(guesses=guesses)
        if columns.attributes is not None:
            lines = self._all_lines(stop)
            self._reopen(keys=attribute_keys(lines, columns.delimiter, columns.attributes))

    def _all_lines(self, stop: threading.Event) -> RecordLines:
        return RecordLines(self._text, stop, already_read=1)

    def _reopen(self, **known: Any) -> None:
        """Start again, with what is known about the columns now."""
        self.release()
        self._plan = msgspec.structs.replace(self._plan or ColumnPlan(), **known)
        self._columns = self._open()

    def _first_rows(self, count: int, stop: threading.Event) -> list[list[str]]:
        lines, rows = self._all_lines(stop), list[list[str]]()
        try:
            for row in csv.reader(lines, delimiter=self._columns.delimiter):
                lines.used = lines.number
                if row:
                    rows.append(row)
                if len(rows) == count:
                    break
        except csv.Error:
            return rows  # reported with its line when the file is read
        return rows

    @property
    def columns(self) -> list[FileColumn]:
        return self._columns.all

    @property
    def tool(self) -> str:
        """The name of the tool whose export this is, or nothing."""
        return self._columns.tool.name if self._columns.tool else ""

    @property
    def warning(self) -> str:
        """What to consider before the file is imported, or nothing."""
        return self._columns.warning

    @property
    def new_fields(self) -> list[Field]:
        fields = self._columns.fields
        return [*fields.new.values(), *fields.extended.values()]

    @property
    def filled_fields(self) -> frozenset[str]:
        """The names of the fields that the file can fill."""
        return self._columns.fields.filled

    def _open(self) -> FileColumns:
        """Start reading after the header line, which is returned."""
        self._file.seek(0)
        self._text = io.TextIOWrapper(self._file, self._encoding, newline="")
        try:
            return FileColumns(self._text.readline(LONGEST_HEADER), self._plan)
        except Invalid:
            self.release()
            raise

    @classmethod
    def unread_columns(cls, file: BinaryIO, encoding: str | None) -> list[FileColumn]:
        """Return the columns of a file that cannot be used as it is; none if it is unreadable."""
        try:
            name = checked_encoding(encoding) if encoding else marked_encoding(file)
            file.seek(0)
            header = codecs.getincrementaldecoder(name)("replace").decode(file.read(LONGEST_HEADER))
            return unread_columns(header.partition("\n")[0])
        except (Invalid, UnicodeError, csv.Error):
            return []

    def release(self) -> None:
        """Detach from the binary file, which its owner closes."""
        self._text.detach()

    def chunks(
        self, lines: int, watch: Callable[[AddressKey], bool] | None = None
    ) -> Iterator[Chunk]:
        """Yield the file in chunks of at most `lines` lines, with the line numbers of the addresses
        that `watch` accepts."""
        while chunk := self._chunk(lines, watch):
            yield chunk

    def _chunk(self, lines: int, watch: Callable[[AddressKey], bool] | None) -> Chunk | None:
        chunk = Chunk({}, [])
        columns = self._columns
        email, verified, blocked = columns.email, columns.verified, columns.blocked
        standing_of = columns.standing if columns.has_statuses else None
        attributes_of = columns.fields.attributes if columns.fields.is_needed else None
        is_simple = not (columns.has_statuses or columns.has_details or columns.fields.has_required)
        is_described = attributes_of is not None or columns.has_details
        foreign_id = columns.foreign_id
        source = self._lines
        read = 0
        while True:
            try:
                for row in islice(self._rows, lines - read):
                    read += 1
                    line, source.used = source.used + 1, source.number
                    if not row:
                        chunk.empty += 1
                        continue
                    if source.used - line > _MOST_LINES:
                        reason = "one cell spans many lines"
                        chunk.reject_swallowed(line, source.used, reason)
                        continue
                    try:
                        raw = row[email]
                        address = parse_address(raw if raw[:1] != "'" else unprotected(raw))
                        said = None if verified is None else TRUTH[row[verified].strip().lower()]
                        why = "" if blocked is None else row[blocked]
                        standing = standing_of(row) if standing_of else _NO_STANDING
                        attributes = attributes_of(row) if attributes_of else ""
                        if foreign_id is not None and row[foreign_id]:
                            parse_foreign_id(row[foreign_id])
                    except (IndexError, KeyError, Invalid):
                        self._read_unusual(chunk, line, row, watch)
                        if len(chunk.rejected) >= _MOST_REJECTED:
                            break
                        continue
                    chunk.lines += 1
                    key = chunk.want(address, said, standing)
                    if standing[0] is Standing.UNSUBSCRIBED and key in chunk.unsubscribed:
                        self._note_unsubscribe(chunk, key, row)
                    if why:
                        chunk.block(key, why)
                    if is_simple and key not in chunk.attributes:
                        if attributes:
                            chunk.attributes[key] = attributes
                            chunk.numbers[key] = line
                    elif is_described:
                        self._describe(chunk, key, line, row, attributes)
                    if watch is not None and key in chunk.wanted and watch(key):
                        chunk.watched[key] = line
                chunk.bytes_read = self._file.tell()
                return chunk if read else None
            except csv.Error as exc:
                read += 1
                line, source.used = source.used + 1, source.number
                chunk.reject_unreadable(line, source.used, exc)
                self._rows = csv.reader(source, delimiter=columns.delimiter)

    def _read_unusual(
        self,
        chunk: Chunk,
        line: int,
        row: list[str],
        watch: Callable[[AddressKey], bool] | None,
    ) -> None:
        """Handle a row that is not a plain one: empty, short, protected, or invalid."""
        if not any(map(str.strip, row)):
            chunk.empty += 1
            return
        chunk.lines += 1
        columns = self._columns
        raw = row[columns.email] if columns.email < len(row) else ""
        try:
            address = parse_address(_checked_cell(raw))
            said = self._said(row)
            standing = columns.standing(row)
            attributes = self._attributes(row, standing[0])
        except Invalid as exc:
            chunk.rejected.append(RejectedLine(line, shown(raw), exc.problem))
            return
        key = chunk.want(address, said, standing)
        if key in chunk.unsubscribed:
            self._note_unsubscribe(chunk, key, row)
        if columns.blocked is not None and columns.blocked < len(row):
            chunk.block(key, row[columns.blocked])
        self._describe(chunk, key, line, row, attributes)
        if watch is not None and key in chunk.wanted and watch(key):
            chunk.watched[key] = line

    def _note_unsubscribe(self, chunk: Chunk, key: AddressKey, row: list[str]) -> None:
        if left_at := self._columns.left_at(row):
            chunk.left_at.setdefault(key, left_at)

    def _attributes(self, row: list[str], standing: Standing | None) -> str:
        """Return the values of fields as JSON. A wrong value, or a wrong id in old links, does not
        keep an address from being unsubscribed or blocked."""
        try:
            place = self._columns.foreign_id
            if place is not None and place < len(row) and row[place].strip():
                parse_foreign_id(row[place])
            return self._columns.fields.attributes(self._columns.fields.padded(row))
        except Invalid:
            if standing in (Standing.UNSUBSCRIBED, Standing.BLOCKED):
                return ""
            raise

    def _describe(
        self, chunk: Chunk, key: AddressKey, line: int, row: list[str], attributes: str
    ) -> None:
        """Add the values of fields to the chunk; the last line about an address counts."""
        if key not in chunk.wanted:
            return
        if attributes:
            earlier = chunk.attributes.get(key)
            chunk.attributes[key] = _merged(earlier, attributes) if earlier else attributes
            chunk.numbers[key] = line
        if details := self._columns.details(row):
            chunk.details.setdefault(key, details)
        if missing := self._columns.fields.missing(row):
            chunk.incomplete[key] = missing
            chunk.numbers[key] = line

    def _said(self, row: list[str]) -> bool | None:
        place = self._columns.verified
        if place is None or place >= len(row):
            return None
        word = row[place].strip().lower()
        if word not in TRUTH:
            raise Invalid(VERIFIED, f"'verified' must be true or false, not {shown(word)!r}")
        return TRUTH[word]


def _merged(earlier: str, later: str) -> str:
    """Return the attributes of two lines about the same address, as JSON."""
    both = {**msgspec.json.decode(earlier), **msgspec.json.decode(later)}
    return msgspec.json.encode(both).decode()


def _checked_cell(raw: str) -> str:
    if not raw.strip():
        raise Invalid(EMAIL, "the line has no address")
    if "\n" in raw or "\r" in raw.strip("\r"):
        raise Invalid(EMAIL, "the address spans several lines: is a quote missing?")
    return unprotected(raw)
