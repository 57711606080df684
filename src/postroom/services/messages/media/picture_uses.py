"""Which pictures messages, templates and lists use, so that none of them is deleted.

| table   | partition | row            | holds                                              |
|---------|-----------|----------------|----------------------------------------------------|
| `media` | `use`     | HASH,KIND,NAME | when it was saved: `message`, `template` or `list` |

A row is written before the content that it stands for, and an edit that no longer needs it leaves
it behind: a row says where to look. `PictureService.uses` looks there, and removes rows that are
no longer true. A message is named by its reference; it uses what any of its versions shows. A
list uses what its confirmation and welcome emails show.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.errors import Invalid
from postroom.domain.messages.pictures import PictureHash
from postroom.services import entities
from postroom.storage import Entity, KeyRange, NotFound, StaleETag, Store, Upsert

MESSAGE: Final = "message"
TEMPLATE: Final = "template"
LIST: Final = "list"
MOST_PICTURES: Final = 1000
"""In one message: far more than any has, and few enough to be written at once."""
_PARTITION: Final = "use"
_BATCH: Final = 100  # the operations of one batch of the store
_SETTLING: Final = timedelta(seconds=15)
"""A use is recorded before the message is saved: within this time that happens, or never."""


class PictureUse(msgspec.Struct, frozen=True):
    """Where a picture may be used."""

    picture: PictureHash
    kind: str
    name: str
    saved_at: datetime
    etag: str = ""

    @property
    def is_settling(self) -> bool:
        """Whether the content may not have been saved yet."""
        return clock.now() - self.saved_at < _SETTLING


class PictureUses:
    def __init__(self, store: Store) -> None:
        self._table = store.table(entities.MEDIA)

    async def record(self, kind: str, name: str, pictures: Iterable[PictureHash]) -> None:
        """Record that something is about to use these pictures. `Invalid` if they are too many.

        Call it before the content is saved.
        """
        now = clock.now()
        rows = [Entity(_PARTITION, _row(each, kind, name), {"SavedAt": now}) for each in pictures]
        if len(rows) > MOST_PICTURES:
            raise Invalid(
                "body", f"must have at most {MOST_PICTURES:,} pictures, not {len(rows):,}"
            )
        for start in range(0, len(rows), _BATCH):
            await self._table.apply([Upsert(each) for each in rows[start : start + _BATCH]])

    async def find(self, picture: PictureHash) -> AsyncIterator[PictureUse]:
        """Yield where a picture may be used, the newest messages last."""
        async for each in self._table.scan(
            KeyRange.only(_PARTITION), KeyRange.prefix(f"{picture},")
        ):
            _, kind, name = each.row.split(",", 2)
            yield PictureUse(
                picture, kind, name, entities.read(each, "SavedAt", datetime), each.etag
            )

    async def forget(self, use: PictureUse) -> None:
        """Remove a row that is no longer true, unless the use has been recorded again."""
        with contextlib.suppress(NotFound, StaleETag):
            await self._table.delete(_PARTITION, _row(use.picture, use.kind, use.name), use.etag)


def _row(picture: PictureHash, kind: str, name: str) -> str:
    return f"{picture},{kind},{name}"
