"""Named leases: a row each, changed only if the lease is free or still the caller's."""

from __future__ import annotations

import secrets

import apsw

from postroom.storage.contract.store import Lease
from postroom.storage.errors import LeaseLost
from postroom.storage.sqlite.store_clock import StoreClock
from postroom.storage.sqlite.writer import Writer

_ACQUIRE = """
INSERT INTO lease (name, fencing, token, expires_at) VALUES (:name, 1, :token, :until)
ON CONFLICT DO UPDATE SET fencing = fencing + 1, token = :token, expires_at = :until
WHERE expires_at <= :now
RETURNING fencing
"""
_RENEW = "UPDATE lease SET expires_at = ? WHERE name = ? AND token = ?"
# The row stays: the next fencing number must be larger.
_RELEASE = "UPDATE lease SET expires_at = 0, token = '' WHERE name = ? AND token = ?"


async def acquire(writer: Writer, clock: StoreClock, name: str, seconds: float) -> Lease | None:
    token = secrets.token_hex(16)

    def write(connection: apsw.Connection) -> int | None:
        now = clock.now()
        fencing: int | None = connection.execute(
            _ACQUIRE,
            {"name": name, "token": token, "until": now + round(seconds * 1e6), "now": now},
        ).get
        return fencing

    fencing = await writer.run(write)
    return None if fencing is None else Lease(name, fencing, seconds, token)


async def renew(writer: Writer, clock: StoreClock, lease: Lease) -> None:
    await _change(writer, lease, _RENEW, clock.after(lease.seconds))


async def release(writer: Writer, lease: Lease) -> None:
    await _change(writer, lease, _RELEASE)


async def _change(writer: Writer, lease: Lease, sql: str, *values: int) -> None:
    def write(connection: apsw.Connection) -> None:
        connection.execute(sql, (*values, lease.name, lease.token))
        if connection.changes() == 0:
            raise LeaseLost(f"the lease {lease.name!r} has another holder by now")

    await writer.run(write)
