"""Live hosts, the state of their applications, and how to wake them.

| table        | partition | row     | holds                                          |
|--------------|-----------|---------|------------------------------------------------|
| `hoststatus` | `host`    | host id | Machine, Heartbeat, State: what `live` returns |

A killed host leaves its row, which is ignored once its heartbeat is old.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.queues.queue_names import BELLS, bell_queue
from postroom.services import entities
from postroom.storage import Entity, KeyRange, NotFound, Store, Value

TABLE = "hoststatus"
PARTITION = "host"

FRESH = timedelta(seconds=30)
"""A host whose last heartbeat is older is not live and gets no bells."""

HEARTBEAT = timedelta(seconds=2)
"""How often a host reports."""

CURRENT = 3 * HEARTBEAT
"""An older report is not shown: the host may have died with its processes."""

_FORGOTTEN = timedelta(minutes=10)
_STATE = "State"
_PIECE = 60_000  # bytes of the state in one property


class ProcessStatus(msgspec.Struct, frozen=True):
    """One process of an application; `memory` in bytes."""

    pid: int
    state: str
    started_at: datetime
    in_progress: int = 0
    handled: int = 0
    memory: int = 0


class AppStatus(msgspec.Struct, frozen=True):
    """The state of an application on one host.

    `trouble` says why the whole application does not run, `queues` the same for single queues:
    "needs the right receive on shop/orders". `reason` is both.
    """

    path: str
    state: str
    reason: str = ""
    processes: tuple[ProcessStatus, ...] = ()
    starts: int = 0
    crashes: int = 0
    trouble: str = ""
    queues: dict[str, str] = {}

    @property
    def whole_trouble(self) -> str:
        """Return `trouble`; hosts of an earlier version only set `reason`."""
        return self.trouble or ("" if self.queues else self.reason)


class HostReport(msgspec.Struct, frozen=True):
    """The latest report of a host."""

    id: str
    machine: str
    heartbeat: datetime
    apps: tuple[AppStatus, ...] = ()


class HostStatusService:
    def __init__(self, store: Store, now: Callable[[], datetime] = clock.now):
        self._store = store
        self._table = store.table(TABLE)
        self._now = now

    async def report(self, host: str, machine: str, apps: Sequence[AppStatus]) -> None:
        """Record the heartbeat of a host, with the state of its applications."""
        state = msgspec.json.encode(apps)
        properties: dict[str, Value] = {"Machine": machine, "Heartbeat": self._now()}
        for number, start in enumerate(range(0, len(state), _PIECE)):
            properties[f"{_STATE}{number}"] = state[start : start + _PIECE]
        await self._table.upsert(Entity(PARTITION, host, properties))

    async def live(self) -> list[HostReport]:
        """Return hosts whose heartbeat is fresh."""
        oldest = self._now() - FRESH
        return [report for report in await self._all() if report.heartbeat >= oldest]

    async def current(self) -> list[HostReport]:
        """Return hosts that reported within the last seconds: their reports are still true."""
        oldest = self._now() - CURRENT
        return [report for report in await self._all() if report.heartbeat >= oldest]

    async def forget(self, host: str) -> None:
        """Remove the bell and the row of a host that has ended."""
        await self._store.queue(bell_queue(host)).drop()
        with contextlib.suppress(NotFound):
            await self._table.delete(PARTITION, host)

    async def forget_killed_hosts(self) -> None:
        """Remove what hosts that were killed some time ago have left behind."""
        oldest = self._now() - _FORGOTTEN
        known = await self._all()
        for report in known:
            if report.heartbeat < oldest:
                await self.forget(report.id)
        bells = {bell_queue(report.id) for report in known}
        for queue in await self._store.queues():
            if queue.name.startswith(f"{BELLS}/") and queue.name not in bells:
                await self._store.queue(queue.name).drop()

    async def ring_bells(self, reason: str) -> None:
        """Wake every live host because something has changed; `reason` is for its log."""
        for report in await self.live():
            await self._store.queue(bell_queue(report.id)).put(reason)

    async def _all(self) -> list[HostReport]:
        return [_report_from(row) async for row in self._table.scan(KeyRange.only(PARTITION))]


def _report_from(entity: Entity) -> HostReport:
    state = b""
    while (piece := entity.properties.get(f"{_STATE}{len(state) // _PIECE}")) is not None:
        state += piece if isinstance(piece, bytes) else b""
        if len(state) % _PIECE:
            break
    return HostReport(
        id=entity.row,
        machine=entities.read(entity, "Machine", str),
        heartbeat=entities.read(entity, "Heartbeat", datetime),
        apps=msgspec.json.decode(state or b"[]", type=tuple[AppStatus, ...]),
    )
