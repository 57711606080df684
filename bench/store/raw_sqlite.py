"""The same work with apsw alone: one connection, one thread, `synchronous=FULL`."""

from __future__ import annotations

import time
from pathlib import Path

import apsw
import msgspec

from bench.store import mail

_WINDOW = 10  # pages in one transaction of fan-out
_CLAIM = 8

_encode = msgspec.json.Encoder().encode


class RawSqlite:
    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path))
        self.connection.pragma("journal_mode", "wal")
        self.connection.pragma("synchronous", "full")
        self.connection.execute(
            "CREATE TABLE entity (partition TEXT NOT NULL, row TEXT NOT NULL,"
            "  etag INTEGER NOT NULL, properties TEXT NOT NULL,"
            "  PRIMARY KEY (partition, row)) STRICT, WITHOUT ROWID;"
            "CREATE TABLE page (number INTEGER PRIMARY KEY, owner TEXT NOT NULL,"
            "  etag INTEGER NOT NULL, packed BLOB NOT NULL) STRICT;"
            "CREATE TABLE queue (id INTEGER PRIMARY KEY, visible_at INTEGER NOT NULL,"
            "  body TEXT NOT NULL) STRICT;"
            "CREATE INDEX queue_ready ON queue (visible_at, id)"
        )

    def write_entities(self, partitions: range) -> None:
        for number in partitions:
            with self.connection:
                self.connection.executemany(
                    "INSERT INTO entity VALUES (?, ?, ?, ?)",
                    [
                        (mail.partition(number), row, 1, _encode(mail.PROPERTIES).decode())
                        for row in mail.addresses(number)
                    ],
                )

    def plan_pages(self, count: int) -> None:
        """Insert pages and their work items, ten in one transaction."""
        packed = mail.packed_page()
        for first in range(0, count, _WINDOW):
            numbers = range(first, min(first + _WINDOW, count))
            with self.connection:
                self.connection.executemany(
                    "INSERT INTO page VALUES (?, '', 1, ?)", [(each, packed) for each in numbers]
                )
                self.connection.executemany(
                    "INSERT INTO queue (visible_at, body) VALUES (0, ?)",
                    [(str(each),) for each in numbers],
                )

    def settle_pages(self) -> int:
        """Claim, read and record all pages, eight at a time."""
        settled = 0
        while items := self._receive():
            numbers = [(int(body),) for _, body in items]
            with self.connection:
                claimed = list(
                    self.connection.executemany(
                        "UPDATE page SET owner = 'bench', etag = etag + 1"
                        " WHERE number = ? AND owner = '' RETURNING packed, number",
                        numbers,
                    )
                )
            with self.connection:
                self.connection.executemany(
                    "UPDATE page SET owner = '', etag = etag + 1, packed = ? WHERE number = ?",
                    claimed,
                )
                self.connection.executemany(
                    "DELETE FROM queue WHERE id = ?", [(identity,) for identity, _ in items]
                )
            settled += len(claimed)
        return settled

    def _receive(self) -> list[tuple[int, str]]:
        now = time.time_ns() // 1000
        with self.connection:
            found = list(
                self.connection.execute(
                    "SELECT id, body FROM queue WHERE visible_at <= ? ORDER BY visible_at, id"
                    " LIMIT ?",
                    (now, _CLAIM),
                )
            )
            self.connection.executemany(
                "UPDATE queue SET visible_at = ? WHERE id = ?",
                [(now + 60_000_000, identity) for identity, _ in found],
            )
        return found

    def close(self) -> None:
        self.connection.close()
