"""The audit log: who did what to what, when and from where. It contains no secrets.

| table   | partition             | row                                 | holds              |
|---------|-----------------------|-------------------------------------|--------------------|
| `audit` | `all`                 | time, descending (newest first)     | one action         |
| `audit` | `who:` + actor's hash | the same                            | the same, by actor |

Both rows are written for each action, so that every query of the page is a key range.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from datetime import date, datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.plain_text import printable
from postroom.services.entities import read
from postroom.services.row_ranges import moment_of, new_row, read_whole, rows_before, rows_of_day
from postroom.storage import EVERY_KEY, Entity, KeyRange, NotFound, Store, StoreError, Value

log = logging.getLogger(__name__)

AUDIT = "audit"
# Long enough to find out who changed something last year.
KEPT = timedelta(days=400)
_ALL = "all"
_LONGEST = 300


class AuditEntry(msgspec.Struct, frozen=True):
    """One action. `who` is a user's email address, `key:ID` or `command line: NAME`; `place` is an
    IP address, or the host name for the command line."""

    at: datetime
    who: str
    what: str
    on: str
    place: str


class AuditBatch(msgspec.Struct, frozen=True):
    """Some entries, newest first; `next` continues."""

    entries: list[AuditEntry]
    next: str | None


class AuditService:
    def __init__(self, store: Store) -> None:
        self._log = store.table(AUDIT)

    async def record(self, who: str, what: str, on: str = "", *, place: str = "") -> None:
        """Record an action after it was done. If the store fails, it is logged instead: an error
        would not undo the action."""
        values = {"Who": who, "What": what, "On": on, "Place": place}
        cleaned: dict[str, Value] = {
            name: printable(text, longest=_LONGEST) for name, text in values.items()
        }
        row = new_row(clock.now())
        try:
            await self._log.insert(Entity(_ALL, row, cleaned))
            await self._log.insert(Entity(_by(str(cleaned["Who"])), row, cleaned))
        except StoreError as exc:
            log.warning("the audit log could not be written (%s): %s", exc, cleaned)

    async def newest(
        self,
        *,
        who: str = "",
        day: date | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> AuditBatch:
        """Return entries of everyone or of one actor, at any time or on one day (UTC)."""
        found = await self._log.query(
            KeyRange.only(_partition(who)), _rows(day), limit=limit, after=after
        )
        return AuditBatch([_entry(entity) for entity in found.entities], found.next)

    async def whole(
        self, *, who: str = "", day: date | None = None, most: int
    ) -> list[AuditEntry] | None:
        """Return all entries, newest first; None if there are more than `most`."""
        found = await read_whole(self._log, _Row, _partition(who), _rows(day), most=most)
        if found is None:
            return None
        return [
            AuditEntry(moment_of(key), row.Who, row.What, row.On, row.Place)
            for key, row in found.items()
        ]

    async def forget_old(self, kept: timedelta = KEPT) -> int:
        """Remove older entries and return their number. The actor's row is removed first, so that
        the next call finds what an interruption left."""
        removed = 0
        before = rows_before(clock.now() - kept)
        async for entity in self._log.scan(KeyRange.only(_ALL), before):
            for partition in (_by(read(entity, "Who", str)), _ALL):
                with contextlib.suppress(NotFound):
                    await self._log.delete(partition, entity.row)
            removed += 1
        return removed


class _Row(msgspec.Struct, frozen=True, gc=False):
    """The columns of an entry."""

    Who: str
    What: str
    On: str
    Place: str


def _partition(who: str) -> str:
    return _by(printable(who, longest=_LONGEST)) if who else _ALL


def _rows(day: date | None) -> KeyRange:
    return EVERY_KEY if day is None else rows_of_day(day)


def _by(who: str) -> str:
    """Return the partition of an actor, hashed because a name may contain invalid characters."""
    return f"who:{hashlib.sha256(who.encode(errors='replace')).hexdigest()[:32]}"


def _entry(entity: Entity) -> AuditEntry:
    return AuditEntry(
        moment_of(entity.row),
        read(entity, "Who", str),
        read(entity, "What", str),
        read(entity, "On", str),
        read(entity, "Place", str),
    )
