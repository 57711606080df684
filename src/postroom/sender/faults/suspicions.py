"""Whom one reply has refused at all senders: several of them need not each meet as many refusals as
one alone before they know that it is not about the recipients.

| table   | partition   | row        | holds                                                |
|---------|-------------|------------|------------------------------------------------------|
| `holds` | `suspicion` | the sender | `Refusal`: the reply, without what differs each time |
|         |             |            | `Refused`: whom it refused; `At`: when this was said |

Rows are written only while one reply refuses most recipients of a sender.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from postroom.services.entities import read
from postroom.services.messages.hold_rows import TABLE
from postroom.services.messages.holds import Refusal
from postroom.storage import Entity, KeyRange, NotFound, Store, Value

_PARTITION: Final = "suspicion"
_KEPT: Final = timedelta(minutes=1)
_FRESH: Final = timedelta(seconds=10)
"""Senders that meet the same fault do so at about the same time."""
_LONGEST_KEY: Final = 1000


class Shared(msgspec.Struct, frozen=True):
    """Whom one reply has refused within the last minute, at any sender. `fresh` of them were
    reported within the last seconds."""

    refused: tuple[Refusal, ...]
    fresh: int


class Suspicions:
    def __init__(self, store: Store, owner: str) -> None:
        self._table = store.table(TABLE)
        self._owner = owner

    async def share(self, key: str, refused: tuple[Refusal, ...]) -> None:
        """Tell the other senders whom such a reply has refused here."""
        properties: dict[str, Value] = {
            "At": datetime.now(UTC),
            "Refusal": key[:_LONGEST_KEY],
            "Refused": msgspec.json.encode(refused).decode(),
        }
        await self._table.upsert(Entity(_PARTITION, self._owner, properties))

    async def refused_by(self, key: str) -> Shared:
        """Return whom such a reply has refused at all senders."""
        now, found, fresh = datetime.now(UTC), dict[Refusal, None](), 0
        async for row in self._table.scan(KeyRange.only(_PARTITION)):
            age = now - read(row, "At", datetime)
            if age > _KEPT:
                with suppress(NotFound):
                    await self._table.delete(_PARTITION, row.row)
            elif read(row, "Refusal", str) == key[:_LONGEST_KEY]:
                refused = msgspec.json.decode(read(row, "Refused", str), type=list[Refusal])
                found |= dict.fromkeys(refused)
                fresh += len(refused) if age <= _FRESH else 0
        return Shared(tuple(found), fresh)
