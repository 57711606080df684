"""What sign-ups are compared with: Starlette and one durable insert with apsw, nothing else.

`python -m bench.web.bare FILE PORT` serves it until it is stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path

import apsw
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.services.waiting import LOOPBACK


class Body(msgspec.Struct):
    email_address: str
    list_name: str


class Inserting:
    """Insert the same kind of row as ours into the same kind of table, each in a separate
    transaction."""

    def __init__(self, file: Path) -> None:
        self._connection = apsw.Connection(str(file))
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", "full")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS subscriber (partition TEXT NOT NULL, row TEXT NOT NULL,"
            " etag INTEGER NOT NULL, properties TEXT NOT NULL,"
            " PRIMARY KEY (partition, row)) STRICT, WITHOUT ROWID"
        )

    async def subscribe(self, request: Request) -> Response:
        body = msgspec.json.decode(await request.body(), type=Body)
        properties = msgspec.json.encode({"EmailAddress": body.email_address, "Verified": False})
        self._connection.execute(
            "INSERT INTO subscriber VALUES (?, ?, 1, ?)",
            (body.list_name, f"email:{body.email_address}", properties.decode()),
        )
        return Response(b'{"verified":false}', 202, media_type="application/json")


def main(file: str, port: str) -> None:
    inserting = Inserting(Path(file))
    app = Starlette(routes=[Route("/api/v1/subscribe", inserting.subscribe, methods=["POST"])])
    uvicorn.run(app, host=LOOPBACK, port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
