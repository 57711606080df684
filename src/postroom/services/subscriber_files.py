"""Subscribers in CSV files: how a file is understood, and which of its lines can be used.

A file has a header line with a column `email` (or another of `EMAIL_NAMES`), and perhaps one
`verified` (true/false, yes/no, 1/0; empty says nothing) and one `blocked` (why; empty says
nothing). Case does not count there, and other columns are ignored. The delimiter is a comma, a
semicolon or a tab: the one that finds the column. The file is in UTF-8, or in UTF-16 with its mark,
or in what the caller says.

The whole file is decoded once before its first line is used, so that one in a wrong encoding is
refused before anything was done. Memory stays flat whatever is in the file (`record_lines.py`).
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import BinaryIO, Final

import msgspec

from postroom.domain.addresses import Address, AddressKey, address_key, parse_address
from postroom.domain.errors import Invalid
from postroom.services.record_lines import RecordLines, RecordTooLong

EMAIL, VERIFIED, BLOCKED = "email", "verified", "blocked"

# What spreadsheets, address books and other services call the column, the usual ones first. Only
# letters and digits count: `E-Mail_Address` is `email address`.
EMAIL_NAMES: Final = (
    "email", "e-mail", "mail", "email address", "mail address", "e-mail-adresse", "adresse e-mail",
    "mailadresse", "adresse mail", "adresse email", "courriel", "correo electrónico",
    "e-mail 1 - value", "primary email", "subscriber email", "contact email",
    "이메일", "이메일 주소", "전자우편", "электронная почта", "эл. почта",
    "адрес электронной почты",
)  # fmt: skip
_NAMES_SHOWN = 7
DELIMITERS: Final = ",;\t"
_PIECE = 256 * 1024  # bytes, read at once
_LONGEST_HEADER = 64 * 1024
_LONGEST_SHOWN = 100
_LONGEST_FOUND = 300
_LONGEST_REASON = 1000
_REASON_NOT_SAID = "blocked in the file that was imported"
_REJECTED_AT_ONCE = 1000  # in one chunk: a rejected line may take milliseconds
_MOST_LINES = 100  # of one record: a cell may hold line breaks, but so many are a missing quote

_TRUTH: Final = {
    "true": True, "yes": True, "1": True,
    "false": False, "no": False, "0": False,
    "": None,
}  # fmt: skip

# What people save files in, by Python's names. Not all that Python can decode: some of that takes
# minutes for a megabyte, and some gives text that cannot be written anywhere.
_ENCODINGS: Final = frozenset({
    "ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le",
    "utf-32-be",
    "iso8859-1", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7",
    "iso8859-8", "iso8859-9",
    "iso8859-10", "iso8859-11", "iso8859-13", "iso8859-14", "iso8859-15", "iso8859-16",
    "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258",
    "cp437", "cp720", "cp737", "cp775", "cp850", "cp852", "cp855", "cp856", "cp857", "cp858",
    "cp860", "cp861", "cp862", "cp863", "cp864",
    "cp865", "cp866", "cp869", "cp874", "cp932", "cp949", "cp950", "cp1006", "cp1125",
    "cp037", "cp273", "cp424", "cp500", "cp875", "cp1026", "cp1140",
    "koi8-r", "koi8-t", "koi8-u", "kz1048", "ptcp154", "tis-620", "hp-roman8",
    "mac-croatian", "mac-cyrillic", "mac-greek", "mac-iceland", "mac-latin2", "mac-roman",
    "mac-romanian", "mac-turkish",
    "big5", "big5hkscs", "gb2312", "gbk", "gb18030", "johab", "euc_jp", "euc_jis_2004",
    "euc_jisx0213", "euc_kr",
    "shift_jis", "shift_jis_2004", "shift_jisx0213",
    "iso2022_jp", "iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_3",
    "iso2022_jp_ext", "iso2022_kr",
})  # fmt: skip

# A spreadsheet would take such a cell for a formula, so an export puts an apostrophe before it.
# Spaces before it do not make it less of one.
_FORMULA = re.compile(r"'*(?:\s*[=+\-@]|[\t\r])")
_PROTECTED_FORMULA = re.compile(r"'+(?:\s*[=+\-@]|[\t\r])")


def protected(cell: str) -> str:
    """The cell as a spreadsheet takes it for text."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unprotected(cell: str) -> str:
    """The cell as it was before `protected`. An apostrophe that is the address's own stays."""
    return cell[1:] if _PROTECTED_FORMULA.match(cell) else cell


class RejectedLine(msgspec.Struct, frozen=True):
    """A line that was not used, and why."""

    line: int
    email: str
    reason: str


class Chunk(msgspec.Struct):
    """Some lines of a file: what they want for each address (None: nothing was said).

    `spellings` has the addresses that differ from their keys. `blocked` says why, for those whose
    line does; `watched` has the lines of those that the caller wants to look at. `lines` counts
    lines that are not `empty`; `repeated` lines are about an address that an earlier line of the
    chunk was about. `bytes_read` is how much was read.
    """

    wanted: dict[AddressKey, bool | None]
    rejected: list[RejectedLine]
    spellings: dict[AddressKey, Address] = {}
    blocked: dict[AddressKey, str] = {}
    watched: dict[AddressKey, int] = {}
    lines: int = 0
    empty: int = 0
    repeated: int = 0
    bytes_read: int = 0


class SubscriberFile:
    """A CSV file, understood. `ignored` names the columns that are not ours.

    Made from a binary file that can be read again from its beginning; `Invalid` says in one line
    what is wrong with it and what to do. It blocks: use it in a thread. Setting `stop` in another
    thread ends it soon, as if the file ended there.
    """

    def __init__(
        self, file: BinaryIO, encoding: str | None = None, stop: threading.Event | None = None
    ) -> None:
        stop = stop or threading.Event()
        self._file = file
        self._encoding = _checked_encoding(encoding) if encoding else _marked_encoding(file)
        _check_decodes(file, self._encoding, stop, was_given=encoding is not None)
        file.seek(0)
        self._text = io.TextIOWrapper(file, self._encoding, newline="")
        self._delimiter, columns = _understood_header(self._text.readline(_LONGEST_HEADER))
        names = list(map(str.lower, columns))
        self._email = _email_column(columns)
        self._verified = names.index(VERIFIED) if VERIFIED in names else None
        self._blocked = names.index(BLOCKED) if BLOCKED in names else None
        ours = (self._email, self._verified, self._blocked)
        self.ignored = [
            shown(each) for place, each in enumerate(columns) if each and place not in ours
        ]
        self._lines = RecordLines(self._text, stop, already_read=1)
        self._rows = csv.reader(self._lines, delimiter=self._delimiter)

    def release(self) -> None:
        """Leave the binary file open for whoever opened it."""
        self._text.detach()

    def chunks(
        self, lines: int, watch: Callable[[AddressKey], bool] | None = None
    ) -> Iterator[Chunk]:
        """The file's lines, at most so many at a time. `watch` says of which addresses the lines
        are kept in mind."""
        while chunk := self._chunk(lines, watch):
            yield chunk

    def _chunk(self, lines: int, watch: Callable[[AddressKey], bool] | None) -> Chunk | None:
        chunk = Chunk({}, [])
        email, verified, blocked = self._email, self._verified, self._blocked
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
                        reason = "one cell runs over many lines"
                        _reject_swallowed(chunk, line, source.used, reason)
                        continue
                    try:
                        raw = row[email]
                        address = parse_address(raw if raw[:1] != "'" else unprotected(raw))
                        said = None if verified is None else _TRUTH[row[verified].strip().lower()]
                        why = "" if blocked is None else row[blocked]
                    except (IndexError, KeyError, Invalid):
                        self._look_closer(chunk, line, row, watch)
                        if len(chunk.rejected) >= _REJECTED_AT_ONCE:
                            break
                        continue
                    chunk.lines += 1
                    key = _want(chunk, address, said)
                    if why:
                        _block(chunk, key, why)
                    if watch is not None and watch(key):
                        chunk.watched[key] = line
                chunk.bytes_read = self._file.tell()
                return chunk if read else None
            except csv.Error as exc:
                read += 1
                line, source.used = source.used + 1, source.number
                _reject_unreadable(chunk, line, source.used, exc)
                self._rows = csv.reader(source, delimiter=self._delimiter)

    def _look_closer(
        self,
        chunk: Chunk,
        line: int,
        row: list[str],
        watch: Callable[[AddressKey], bool] | None,
    ) -> None:
        """A row that did not fit at first sight: empty, short, protected, or bad."""
        if not any(map(str.strip, row)):
            chunk.empty += 1
            return
        chunk.lines += 1
        raw = row[self._email] if self._email < len(row) else ""
        try:
            address = parse_address(_checked_cell(raw))
            said = self._said(row)
        except Invalid as exc:
            chunk.rejected.append(RejectedLine(line, shown(raw), exc.problem))
            return
        key = _want(chunk, address, said)
        if self._blocked is not None and self._blocked < len(row):
            _block(chunk, key, row[self._blocked])
        if watch is not None and watch(key):
            chunk.watched[key] = line

    def _said(self, row: list[str]) -> bool | None:
        if self._verified is None or self._verified >= len(row):
            return None
        word = row[self._verified].strip().lower()
        if word not in _TRUTH:
            raise Invalid(VERIFIED, f"'verified' is true or false, not {shown(word)!r}")
        return _TRUTH[word]


def _reject_unreadable(chunk: Chunk, first: int, last: int, exc: csv.Error) -> None:
    if isinstance(exc, RecordTooLong) and first == last:
        chunk.lines += 1
        chunk.rejected.append(RejectedLine(first, "", f"the line is {exc}"))
    else:
        _reject_swallowed(chunk, first, last, str(exc))


def _reject_swallowed(chunk: Chunk, first: int, last: int, why: str) -> None:
    """A quote that is not closed takes the lines after it into its cell: they are lost."""
    chunk.lines += 1
    reason = f"{why}: is a quote missing? Lines {first} to {last} were not used"
    chunk.rejected.append(RejectedLine(first, "", reason))


def _want(chunk: Chunk, address: Address, said: bool | None) -> AddressKey:
    """Note what a line wants; return the key of its address.

    The first line about an address says how it is spelled, the last one what is wanted.
    """
    wanted, key = chunk.wanted, address_key(address)
    if key in wanted:
        chunk.repeated += 1
        if said is None:
            return key
    elif key != address:
        chunk.spellings[key] = address
    wanted[key] = said
    return key


def _block(chunk: Chunk, address: AddressKey, cell: str) -> None:
    """A cell says why, or just that it is so."""
    meaning = _TRUTH.get(cell.strip().lower(), True)
    if meaning:
        is_reason = cell.strip().lower() not in _TRUTH
        reason = " ".join(unprotected(cell).split()) if is_reason else _REASON_NOT_SAID
        chunk.blocked[address] = shown(reason, longest=_LONGEST_REASON)


def shown(text: str, *, longest: int = _LONGEST_SHOWN) -> str:
    """What stood in the file, fit for one line of a report."""
    plain = "".join(
        each if each.isprintable() else " " if each == "\t" else "�" for each in text[:longest]
    )
    return plain if len(text) <= longest else f"{plain}…"


def _checked_cell(raw: str) -> str:
    if not raw.strip():
        raise Invalid(EMAIL, "the line has no address")
    if "\n" in raw or "\r" in raw.strip("\r"):
        raise Invalid(EMAIL, "the address runs over several lines: is a quote missing?")
    return unprotected(raw)


# -- encoding -------------------------------------------------------------------------------------


def _checked_encoding(name: str) -> str:
    try:
        found = codecs.lookup(name).name
    except (LookupError, UnicodeError, ValueError) as exc:
        raise Invalid("encoding", f"there is no encoding {shown(name)!r}") from exc
    if found not in _ENCODINGS:
        raise Invalid(
            "encoding",
            f"there is no encoding {shown(name)!r} for such files: save the file as UTF-8",
        )
    return "utf-8-sig" if found == "utf-8" else found


def _marked_encoding(file: BinaryIO) -> str:
    """By the mark at the beginning; without one it can only be UTF-8."""
    file.seek(0)
    head = file.read(4)
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if 0 in head[:2]:
        order = "le" if head[1:2] == b"\0" else "be"
        raise Invalid(
            "file",
            f"looks like UTF-16 without its mark: name its encoding, utf-16-{order}, or save it"
            " as UTF-8",
        )
    return "utf-8-sig"


def _check_decodes(
    file: BinaryIO, encoding: str, stop: threading.Event, *, was_given: bool
) -> None:
    file.seek(0)
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    while not stop.is_set():
        piece = file.read(_PIECE)
        try:
            decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as exc:
            line += exc.object[: exc.start].count(b"\n")
            raise Invalid("file", _not_decoded(line, encoding, was_given)) from exc
        except UnicodeError as exc:  # a decoder of UTF-16 or UTF-32 that finds no byte-order mark
            raise Invalid(
                "file",
                f"has no byte-order mark, which {encoding} needs: name {encoding}-le or"
                f" {encoding}-be, or save it as UTF-8",
            ) from exc
        if not piece:
            return
        line += piece.count(b"\n")


def _not_decoded(line: int, encoding: str, was_given: bool) -> str:
    if was_given:
        return f"line {line} is not in {encoding}: name another encoding, or save it as UTF-8"
    name = encoding.removesuffix("-sig").upper()
    return (
        f"line {line} is not in {name}: save the file as UTF-8, or name the encoding that it is in"
        " (such as windows-1252)"
    )


# -- header ---------------------------------------------------------------------------------------


def _understood_header(line: str) -> tuple[str, list[str]]:
    """The delimiter and the names of the columns."""
    if len(line) == _LONGEST_HEADER and line[-1] not in "\r\n":
        problem = f"the first line must name the columns; it is longer than {_LONGEST_HEADER:,}"
        raise Invalid("file", f"{problem} characters")
    header = line.removeprefix("\ufeff").rstrip("\r\n")
    if not header.strip():
        raise Invalid("file", "has no header line: the first line must name a column 'email'")
    # Most columns first; a comma where nothing is divided.
    for delimiter in sorted(DELIMITERS, key=header.count, reverse=True):
        columns = [cell.strip() for cell in next(csv.reader([header], delimiter=delimiter))]
        if any(_squeezed(each) in _SQUEEZED_NAMES for each in columns):
            _check_named_once(columns)
            return delimiter, columns
    if "@" in header:
        raise Invalid("file", "the first line holds an address: a header line must come before it")
    most_used = max(DELIMITERS, key=header.count)
    found = ", ".join(repr(shown(each.strip())) for each in header.split(most_used))
    raise Invalid(
        "file",
        f"has no column 'email': it has {shown(found, longest=_LONGEST_FOUND)}; understood are"
        f" {', '.join(EMAIL_NAMES[:_NAMES_SHOWN])} and the like",
    )


def _squeezed(name: str) -> str:
    """Letters and digits alone: how a column is written does not count."""
    return "".join(filter(str.isalnum, name.casefold()))


_SQUEEZED_NAMES: Final = frozenset(map(_squeezed, EMAIL_NAMES))


def _email_column(columns: list[str]) -> int:
    """The column `email`; without it, the only one that is called something like it."""
    names = list(map(str.lower, columns))
    if EMAIL in names:
        return names.index(EMAIL)
    fitting = [at for at, name in enumerate(names) if _squeezed(name) in _SQUEEZED_NAMES]
    if len(fitting) > 1:
        found = " and ".join(repr(shown(columns[at])) for at in fitting)
        raise Invalid("file", f"has addresses in the columns {found}: name one of them 'email'")
    return fitting[0]


def _check_named_once(columns: list[str]) -> None:
    for name in (EMAIL, VERIFIED, BLOCKED):
        if list(map(str.lower, columns)).count(name) > 1:
            raise Invalid("file", f"has the column {name!r} twice")
