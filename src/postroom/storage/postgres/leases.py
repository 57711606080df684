"""Named leases: a row each, changed only if the lease is free or still the caller's."""

from __future__ import annotations

import secrets

from postroom.storage.contract.store import Lease
from postroom.storage.errors import LeaseLost
from postroom.storage.postgres.connection import Connection, Database, changed_by

# The clock is read when the row is locked (`clock_timestamp`), not when the statement began
# (`now`): it may have waited for another candidate in between. A caller that finds its own token
# acquired the lease in an attempt whose reply was lost.
_ACQUIRE = b"""
INSERT INTO postroom.lease AS lease (name, fencing, token, expires_at)
VALUES (%(name)s, 1, %(token)s, clock_timestamp() + %(seconds)s::float8 * interval '1 second')
ON CONFLICT (name) DO UPDATE
SET fencing = lease.fencing + CASE WHEN lease.token = excluded.token THEN 0 ELSE 1 END,
    token = excluded.token,
    expires_at = clock_timestamp() + %(seconds)s::float8 * interval '1 second'
WHERE lease.token IS NULL OR lease.token = excluded.token
   OR lease.expires_at <= clock_timestamp()
RETURNING fencing
"""
_RENEW = b"""
UPDATE postroom.lease
SET expires_at = clock_timestamp() + %(seconds)s::float8 * interval '1 second'
WHERE name = %(name)s AND token = %(token)s
"""
_RELEASE = b"UPDATE postroom.lease SET token = NULL WHERE name = %(name)s AND token = %(token)s"


async def acquire(database: Database, name: str, seconds: float) -> Lease | None:
    token = secrets.token_hex(16)
    values = {"name": name, "token": token, "seconds": float(seconds)}
    rows = await database.fetch(_ACQUIRE, values)
    return Lease(name, rows[0][0], seconds, token) if rows else None


async def renew(database: Database, lease: Lease) -> None:
    await _change(database, _RENEW, lease)


async def release(database: Database, lease: Lease) -> None:
    await _change(database, _RELEASE, lease, may_be_done=True)


async def _change(
    database: Database, sql: bytes, lease: Lease, *, may_be_done: bool = False
) -> None:
    values = {"name": lease.name, "token": lease.token, "seconds": float(lease.seconds)}

    async def work(connection: Connection, again: bool) -> None:
        changed = await changed_by(connection, sql, values)
        # After a lost reply, it may have been us who released it.
        if not changed and not (again and may_be_done):
            raise LeaseLost(f"the lease {lease.name!r} has another holder by now")

    await database.run(work)
