"""The same work with apsw alone: one connection, one thread, `synchronous=FULL`."""

from __future__ import annotations

import random
import time
from pathlib import Path

import apsw
import msgspec

from bench.store import mail

_encode = msgspec.json.Encoder().encode


class RawSqlite:
    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path))
        self.connection.pragma("journal_mode", "wal")
        self.connection.pragma("synchronous", "full")
        for table in ("message", "archive"):
            self.connection.execute(
                f"CREATE TABLE {table} (partition TEXT NOT NULL, row TEXT NOT NULL,"
                " etag INTEGER NOT NULL, properties TEXT NOT NULL,"
                " PRIMARY KEY (partition, row)) STRICT, WITHOUT ROWID"
            )
        self.connection.execute(
            "CREATE TABLE queue (id INTEGER PRIMARY KEY, visible_at INTEGER NOT NULL,"
            " receipt INTEGER, body TEXT NOT NULL) STRICT;"
            "CREATE INDEX queue_ready ON queue (visible_at, id)"
        )

    def write_pages(self, pages: range) -> None:
        for page in pages:
            with self.connection:
                self.connection.executemany(
                    "INSERT INTO message VALUES (?, ?, ?, ?)",
                    [
                        (mail.partition(page), row, 1, _encode(mail.PROPERTIES).decode())
                        for row in mail.addresses(page)
                    ],
                )

    def put_work_items(self, pages: range) -> None:
        with self.connection:
            self.connection.executemany(
                "INSERT INTO queue (visible_at, body) VALUES (0, ?)",
                [(mail.work_item(page),) for page in pages],
            )

    def settle_pages(self) -> int:
        settled = 0
        while items := self._claim(8):
            for identity, body in items:
                self._settle(identity, body.rpartition(",")[0])
                settled += 1
        return settled

    def _claim(self, limit: int) -> list[tuple[int, str]]:
        with self.connection:
            found = list(
                self.connection.execute(
                    "SELECT id, body FROM queue WHERE visible_at <= ? ORDER BY visible_at, id"
                    " LIMIT ?",
                    (time.time_ns() // 1000, limit),
                )
            )
            until, receipt = time.time_ns() // 1000 + 60_000_000, random.getrandbits(62)
            self.connection.executemany(
                "UPDATE queue SET visible_at = ?, receipt = ? WHERE id = ?",
                [(until, receipt, identity) for identity, _ in found],
            )
        return found

    def _settle(self, identity: int, partition: str) -> None:
        emails = [
            (row, msgspec.json.decode(properties))
            for row, properties in self.connection.execute(
                "SELECT row, properties FROM message WHERE partition = ? ORDER BY row", (partition,)
            )
        ]
        with self.connection:
            self.connection.executemany(
                "INSERT INTO archive VALUES (?, ?, ?, ?)",
                [
                    (
                        partition,
                        row,
                        1,
                        _encode({**properties, "Status": "accepted", "EmailSent": True}).decode(),
                    )
                    for row, properties in emails
                ],
            )
            self.connection.execute("DELETE FROM message WHERE partition = ?", (partition,))
            self.connection.execute("DELETE FROM queue WHERE id = ?", (identity,))

    def close(self) -> None:
        self.connection.close()
