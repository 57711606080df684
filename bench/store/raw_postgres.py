"""The same work with psycopg alone: one connection, the statements that one would write."""

from __future__ import annotations

import asyncio

import msgspec
import psycopg
from psycopg_pool import AsyncConnectionPool

from bench.store import mail

_encode = msgspec.json.Encoder().encode


class RawPostgres:
    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        for table in ("message", "archive"):
            self.connection.execute(
                f"CREATE TABLE {table} (partition text NOT NULL, row text NOT NULL,"
                " etag bigint NOT NULL, properties jsonb NOT NULL, PRIMARY KEY (partition, row))"
            )
        self.connection.execute(
            "CREATE TABLE queue (id bigserial PRIMARY KEY,"
            " visible_at timestamptz NOT NULL DEFAULT now(), body text NOT NULL);"
            " CREATE INDEX queue_ready ON queue (visible_at, id)"
        )

    def write_pages(self, pages: range) -> None:
        for page in pages:
            self.connection.execute(
                "INSERT INTO message SELECT %s, row, 1, properties"
                " FROM unnest(%s::text[], %s::jsonb[]) AS new (row, properties)",
                (
                    mail.partition(page),
                    mail.addresses(page),
                    [_encode(mail.PROPERTIES).decode() for _ in range(mail.PAGE)],
                ),
            )

    def put_work_items(self, pages: range) -> None:
        self.connection.execute(
            "INSERT INTO queue (body) SELECT unnest(%s::text[])",
            ([mail.work_item(page) for page in pages],),
        )

    def settle_pages(self) -> int:
        settled = 0
        while items := self._claim(8):
            for identity, body in items:
                self._settle(identity, body.rpartition(",")[0])
                settled += 1
        return settled

    def _claim(self, limit: int) -> list[tuple[int, str]]:
        return self.connection.execute(
            "UPDATE queue SET visible_at = now() + interval '60 s' WHERE id IN"
            " (SELECT id FROM queue WHERE visible_at <= now() ORDER BY visible_at, id"
            "  LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING id, body",
            (limit,),
        ).fetchall()

    def _settle(self, identity: int, partition: str) -> None:
        emails = self.connection.execute(
            "SELECT row, properties::text FROM message WHERE partition = %s ORDER BY row",
            (partition,),
        ).fetchall()
        changed = [
            _encode(
                {**msgspec.json.decode(properties), "Status": "accepted", "EmailSent": True}
            ).decode()
            for _, properties in emails
        ]
        with self.connection.transaction():
            self.connection.execute(
                "INSERT INTO archive SELECT %s, row, 1, properties"
                " FROM unnest(%s::text[], %s::jsonb[]) AS new (row, properties)",
                (partition, [row for row, _ in emails], changed),
            )
            self.connection.execute("DELETE FROM message WHERE partition = %s", (partition,))
            self.connection.execute("DELETE FROM queue WHERE id = %s", (identity,))

    def close(self) -> None:
        self.connection.close()


async def put_from_tasks(url: str, tasks: int, count: int) -> None:
    """`count` puts, one at a time, from each of `tasks` tasks over a pool of eight connections."""
    async with AsyncConnectionPool(
        url, min_size=8, max_size=8, kwargs={"autocommit": True}, open=False
    ) as pool:

        async def put() -> None:
            for _ in range(count):
                async with pool.connection() as connection:
                    await connection.execute("INSERT INTO queue (body) VALUES ('GUID,LISTNAME')")

        await asyncio.gather(*(put() for _ in range(tasks)))
