"""The audit log: who did what, on what, when and from where. Never a secret.

| table   | partition             | row                                 | holds              |
|---------|-----------------------|-------------------------------------|--------------------|
| `audit` | `all`                 | moment, counted down (newest first) | one action         |
| `audit` | `who:` + actor's hash | the same                            | the same, by actor |

Both rows are written for each action, so that each question that the page asks is a key query.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from datetime import UTC, date, datetime, timedelta

import msgspec

from postroom.domain.plain_text import printable
from postroom.services.entities import read
from postroom.services.newest_first import moment_of, new_row, rows_before, rows_of_day
from postroom.services.row_ranges import read_whole
from postroom.storage import EVERY_KEY, Entity, KeyRange, NotFound, Store, StoreError, Value

log = logging.getLogger(__name__)

AUDIT = "audit"
# Long enough to answer 'who changed this last year?'.
KEPT = timedelta(days=400)
_ALL = "all"
_LONGEST = 300


class Action(msgspec.Struct, frozen=True):
    """Something that somebody did. `who` is a user's address, `key:ID` or `command line: NAME`."""

    at: datetime
    who: str
    what: str
    on: str
    place: str


class ActionPage(msgspec.Struct, frozen=True):
    """Some actions, newest first; `next` goes on."""

    actions: list[Action]
    next: str | None


class AuditService:
    def __init__(self, store: Store) -> None:
        self._log = store.table(AUDIT)

    async def record(self, who: str, what: str, on: str = "", *, place: str = "") -> None:
        """Keep that `who` did this. Called after it was done; does not fail if it cannot be kept,
        because what was done is done: it is then in the program's own log."""
        values = {"Who": who, "What": what, "On": on, "Place": place}
        cleaned: dict[str, Value] = {
            name: printable(text, longest=_LONGEST) for name, text in values.items()
        }
        row = new_row(datetime.now(UTC))
        try:
            await self._log.insert(Entity(_ALL, row, cleaned))
            await self._log.insert(Entity(_by(str(cleaned["Who"])), row, cleaned))
        except StoreError as exc:
            log.warning("the audit log could not be written (%s): %s", exc, cleaned)

    async def page(
        self,
        *,
        who: str = "",
        day: date | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> ActionPage:
        """Newest first: of everybody or of one actor, ever or on one day (UTC)."""
        found = await self._log.query(
            KeyRange.only(_partition(who)), _rows(day), limit=limit, after=after
        )
        return ActionPage([_action(entity) for entity in found.entities], found.next)

    async def whole(
        self, *, who: str = "", day: date | None = None, most: int
    ) -> list[Action] | None:
        """All of them at once, newest first; None if there are more than `most`."""
        found = await read_whole(self._log, _Row, _partition(who), _rows(day), most=most)
        if found is None:
            return None
        return [
            Action(moment_of(key), row.Who, row.What, row.On, row.Place)
            for key, row in found.items()
        ]

    async def forget_old(self, kept: timedelta = KEPT) -> int:
        """Remove what is older; answers how much. What an interruption leaves, the next removes:
        an actor's row goes before the one that tells of it."""
        removed = 0
        before = rows_before(datetime.now(UTC) - kept)
        async for entity in self._log.scan(KeyRange.only(_ALL), before):
            for partition in (_by(read(entity, "Who", str)), _ALL):
                with contextlib.suppress(NotFound):
                    await self._log.delete(partition, entity.row)
            removed += 1
        return removed


class _Row(msgspec.Struct, frozen=True, gc=False):
    """What is read of an action."""

    Who: str
    What: str
    On: str
    Place: str


def _partition(who: str) -> str:
    return _by(printable(who, longest=_LONGEST)) if who else _ALL


def _rows(day: date | None) -> KeyRange:
    return EVERY_KEY if day is None else rows_of_day(day)


def _by(who: str) -> str:
    """Hashed: an actor's name may have characters that a key cannot have."""
    return f"who:{hashlib.sha256(who.encode(errors='replace')).hexdigest()[:32]}"


def _action(entity: Entity) -> Action:
    return Action(
        moment_of(entity.row),
        read(entity, "Who", str),
        read(entity, "What", str),
        read(entity, "On", str),
        read(entity, "Place", str),
    )
