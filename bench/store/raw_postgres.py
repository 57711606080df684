"""The same work with psycopg alone: one connection, and the obvious statements."""

from __future__ import annotations

import asyncio

import msgspec
import psycopg
from psycopg_pool import AsyncConnectionPool

from bench.store import mail

_WINDOW = 10  # pages in one transaction of fan-out
_CLAIM = 8

_encode = msgspec.json.Encoder().encode


class RawPostgres:
    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(
            "CREATE TABLE entity (partition text NOT NULL, row text NOT NULL,"
            "  etag bigint NOT NULL, properties jsonb NOT NULL, PRIMARY KEY (partition, row));"
            " CREATE TABLE page (number bigint PRIMARY KEY, owner text NOT NULL,"
            "  etag bigint NOT NULL, packed bytea NOT NULL) WITH (fillfactor = 50);"
            " CREATE TABLE queue (id bigserial PRIMARY KEY,"
            "  visible_at timestamptz NOT NULL DEFAULT now(), body text NOT NULL);"
            " CREATE INDEX queue_ready ON queue (visible_at, id)"
        )

    def write_entities(self, partitions: range) -> None:
        for number in partitions:
            self.connection.execute(
                "INSERT INTO entity SELECT %s, row, 1, properties"
                " FROM unnest(%s::text[], %s::jsonb[]) AS new (row, properties)",
                (
                    mail.partition(number),
                    mail.addresses(number),
                    [_encode(mail.PROPERTIES).decode() for _ in range(mail.PAGE)],
                ),
            )

    def plan_pages(self, count: int) -> None:
        """Insert pages and their work items, ten in one transaction."""
        packed = mail.packed_page()
        for first in range(0, count, _WINDOW):
            numbers = list(range(first, min(first + _WINDOW, count)))
            with self.connection.transaction():
                self.connection.execute(
                    "INSERT INTO page SELECT number, '', 1, %s FROM unnest(%s::bigint[]) AS number",
                    (packed, numbers),
                )
                self.connection.execute(
                    "INSERT INTO queue (body) SELECT number::text"
                    " FROM unnest(%s::bigint[]) AS number",
                    (numbers,),
                )

    def settle_pages(self) -> int:
        """Claim, read and record all pages, eight at a time."""
        settled = 0
        while items := self._receive():
            claimed = self.connection.execute(
                "UPDATE page SET owner = 'bench', etag = etag + 1"
                " WHERE number = ANY(%s) AND owner = '' RETURNING number, packed",
                ([int(body) for _, body in items],),
            ).fetchall()
            with self.connection.transaction():
                self.connection.execute(
                    "UPDATE page SET owner = '', etag = etag + 1, packed = new.packed"
                    " FROM unnest(%s::bigint[], %s::bytea[]) AS new (number, packed)"
                    " WHERE page.number = new.number",
                    ([number for number, _ in claimed], [packed for _, packed in claimed]),
                )
                self.connection.execute(
                    "DELETE FROM queue WHERE id = ANY(%s)", ([identity for identity, _ in items],)
                )
            settled += len(claimed)
        return settled

    def _receive(self) -> list[tuple[int, str]]:
        return self.connection.execute(
            "UPDATE queue SET visible_at = now() + interval '60 s' WHERE id IN"
            " (SELECT id FROM queue WHERE visible_at <= now() ORDER BY visible_at, id"
            "  LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING id, body",
            (_CLAIM,),
        ).fetchall()

    def close(self) -> None:
        self.connection.close()


async def put_from_tasks(url: str, tasks: int, count: int) -> None:
    """Put `count` messages, one at a time, from each of `tasks` tasks over a pool of eight
    connections."""
    async with AsyncConnectionPool(
        url, min_size=8, max_size=8, kwargs={"autocommit": True}, open=False
    ) as pool:

        async def put() -> None:
            for _ in range(count):
                async with pool.connection() as connection:
                    await connection.execute("INSERT INTO queue (body) VALUES ('GUID,LISTNAME')")

        await asyncio.gather(*(put() for _ in range(tasks)))
