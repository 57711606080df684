"""Several writes in one round trip and one transaction, unless one of them fails.

Statements in a pipeline without an explicit transaction form one: if one of them fails, none takes
effect. Then they are done one after the other, up to the one that fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec
import psycopg
from psycopg.errors import PipelineAborted, UndefinedTable

from postroom.storage.postgres.batches import is_misfit
from postroom.storage.postgres.connection import Connection, Database

_SUPPORTED = psycopg.Pipeline.is_supported()  # by the system's libpq, where that is the one in use

Statement: TypeAlias = tuple[bytes, dict[str, object]]


class Writing(msgspec.Struct, frozen=True):
    """One of several writes.

    `write(connection, again)` does it alone (see `Database.run`); `is_done(connection)` returns
    whether it has been done. `statements` do the same or fail; None if that is impossible.
    """

    write: Callable[[Connection, bool], Awaitable[None]]
    is_done: Callable[[Connection], Awaitable[bool]]
    statements: Sequence[Statement] | None


async def write_together(database: Database, writings: Sequence[Writing]) -> None:
    """Do all writes, in this order."""
    statements = [each for writing in writings for each in writing.statements or ()]
    possible = _SUPPORTED and all(writing.statements is not None for writing in writings)

    async def work(connection: Connection, again: bool) -> None:
        left = writings
        if again:
            left = await _left(connection, writings)
        elif possible and await _together(connection, statements):
            return
        for writing in left:
            await writing.write(connection, again)

    await database.run(work)


async def _left(connection: Connection, writings: Sequence[Writing]) -> Sequence[Writing]:
    """Return the writes after the last one that an earlier attempt has done. Those before it may
    not be recognised, because it may have changed the same rows."""
    for number in range(len(writings), 0, -1):
        if await writings[number - 1].is_done(connection):
            return writings[number:]
    return writings


async def _together(connection: Connection, statements: Sequence[Statement]) -> bool:
    """Do all statements; return False, with nothing done, if the data does not fit one of them."""
    try:
        async with connection.pipeline():
            for sql, values in statements:
                await connection.execute(sql, values, prepare=True)
    except (UndefinedTable, PipelineAborted):
        return False
    except psycopg.DatabaseError as exc:
        if not is_misfit(exc):
            raise
        return False
    return True
