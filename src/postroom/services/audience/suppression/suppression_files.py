"""Suppressions as CSV files: email, list, reason, source, created_at, expires_at.

An import needs only the addresses, one per line; with a header line it may also have `list`,
`reason` and `expires_at`. An address that is already suppressed stays as it is, so that importing a
file again finishes an interrupted import.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from postroom.domain.audience.suppressions import SuppressionReason
from postroom.domain.errors import DomainError, Exists, Invalid
from postroom.services.audience.files.cells import protected, shown, unprotected
from postroom.services.audience.files.import_report import RejectedLine
from postroom.services.audience.suppression.suppressions import SuppressionService

HEADER: Final = ("email", "list", "reason", "source", "created_at", "expires_at")
MOST_LINES: Final = 5_000
"""Of a file that is uploaded: it is imported while the browser waits."""
_LINES_PER_PIECE: Final = 1_000
_CONCURRENT: Final = 16


class SuppressionImport(msgspec.Struct):
    """What an import did. `unchanged` addresses were suppressed before."""

    lines: int = 0
    added: int = 0
    unchanged: int = 0
    rejected: list[RejectedLine] = []


class _Line(msgspec.Struct, frozen=True):
    number: int
    email: str
    list_name: str
    reason: str
    expires_at: str


async def import_suppressions(
    suppressions: SuppressionService,
    data: bytes,
    *,
    source: str,
    reason: str = SuppressionReason.REQUEST,
    most: int | None = None,
) -> SuppressionImport:
    """Suppress the addresses of a file; `reason` is for lines without one. `Invalid` file.

    Lines that cannot be used are reported and do not stop the others.
    """
    report = SuppressionImport(rejected=[])
    lines = list(_lines(_decoded(data), str(reason)))
    if most is not None and len(lines) > most:
        raise Invalid(
            "file",
            f"must have at most {most:,} lines, not {len(lines):,}: import longer files with"
            " 'postroom suppression import'",
        )
    work_left = iter(lines)

    async def work() -> None:
        for line in work_left:
            await _import_line(suppressions, line, source, report)

    await asyncio.gather(*(work() for _ in range(_CONCURRENT)))
    report.rejected.sort(key=lambda each: each.line)
    return report


async def _import_line(
    suppressions: SuppressionService, line: _Line, source: str, report: SuppressionImport
) -> None:
    report.lines += 1
    try:
        await suppressions.suppress(
            line.email,
            line.reason,
            source=source,
            list_name=line.list_name or None,
            expires_at=_time(line.expires_at),
        )
        report.added += 1
    except Exists:
        report.unchanged += 1
    except DomainError as exc:
        report.rejected.append(RejectedLine(line.number, shown(line.email), str(exc)))


async def export_suppressions(suppressions: SuppressionService) -> AsyncIterator[str]:
    """Yield all suppressions as a CSV file, in pieces, newest first. Erased ones have no address,
    and are left out."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")  # RFC 4180
    writer.writerow(HEADER)
    count = 0
    async for each in suppressions.all():
        if not each.address:
            continue
        expires = "" if each.expires_at is None else _written(each.expires_at)
        cells = (each.address, each.list_name or "", each.reason, each.source)
        writer.writerow((*map(protected, cells), _written(each.created_at), expires))
        count += 1
        if count % _LINES_PER_PIECE == 0:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise Invalid("file", f"line {line} is not in UTF-8: save the file as UTF-8") from exc


def _lines(text: str, reason: str) -> Iterator[_Line]:
    delimiter = ";" if ";" in text.partition("\n")[0] else ","
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    places: dict[str, int] | None = None
    try:
        for row in reader:
            cells = [unprotected(each.strip()) for each in row]
            if not any(cells):
                continue
            if places is None:
                names = [each.casefold() for each in cells]
                places = {name: names.index(name) for name in HEADER if name in names}
                if "email" in places:
                    continue
                if "@" not in cells[0]:
                    raise Invalid(
                        "file",
                        "must begin with an address or with a header line that has a column email,"
                        f" not with {shown(cells[0])!r}",
                    )
                places = {"email": 0}
            values = {name: cells[place] for name, place in places.items() if place < len(cells)}
            yield _Line(
                reader.line_num,
                values.get("email", ""),
                values.get("list", ""),
                values.get("reason", "") or reason,
                values.get("expires_at", ""),
            )
    except csv.Error as exc:
        raise Invalid("file", f"line {reader.line_num} is not CSV: {exc}") from exc


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise Invalid(
            "expires_at", f"must be a time such as 2027-01-31T09:00:00Z, not {shown(text)!r}"
        ) from exc
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
