"""Removing a person from what is kept of imports: reports, sample rows and rejected lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection
from tempfile import TemporaryFile
from typing import IO, BinaryIO, Final, cast

import msgspec

from postroom.domain.audience.addresses import AddressKey, address_key, parse_address
from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import unprotected
from postroom.services.audience.files.import_report import ImportReport

ERASED: Final = "(erased)"


class Mentions:
    """Find out whether a text names one of some addresses."""

    def __init__(self, keys: Collection[AddressKey]) -> None:
        self._keys = frozenset(keys)
        either = "|".join(map(re.escape, sorted(keys)))
        self._pattern = re.compile(rf"(?<![\w.+-])(?:{either})(?![\w-])", re.IGNORECASE)

    def __call__(self, text: str) -> bool:
        if self._pattern.search(text):
            return True
        try:  # the domain may be spelled in another script
            return address_key(parse_address(unprotected(text))) in self._keys
        except Invalid:
            return False


def report_without(report: ImportReport, mentions: Mentions) -> ImportReport:
    """Return a report whose rows about a person are empty, except for the numbers of lines."""
    return msgspec.structs.replace(
        report,
        sample=[[ERASED] * len(row) if any(map(mentions, row)) else row for row in report.sample],
        errors=[
            msgspec.structs.replace(each, email=ERASED, reason=ERASED)
            if mentions(each.email) or mentions(each.reason)
            else each
            for each in report.errors
        ],
    )


def lines_without(source: BinaryIO, mentions: Mentions) -> IO[str] | None:
    """Return a copy of a file of rejected lines without those about a person, which the caller
    closes; None if there are none. It blocks."""
    text = cast(IO[str], TemporaryFile("w+", encoding="utf-8", newline=""))  # noqa: SIM115
    writer, found = csv.writer(text), False
    lines = (line.decode() for line in source)
    for line, *cells in csv.reader(lines):
        is_erased = any(map(mentions, cells))
        found = found or is_erased
        writer.writerow((line, *([ERASED] * len(cells) if is_erased else cells)))
    if found:
        return text
    text.close()
    return None
