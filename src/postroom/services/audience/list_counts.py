"""The numbers of subscribers of lists, kept up to date while they change.

`list_growth.py` counts lists from time to time and keeps the figures in rows. Changes in between
are added to those rows here: at once where they are rare, and about once per second where they are
many, so that a hundred sign-ups per second cost one more write per second. A process that is killed
loses at most its last second, and an import its last chunk; the next count corrects that.
"""

from __future__ import annotations

import contextlib
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.lists import ListName, Subscriber
from postroom.domain.errors import Overtaken
from postroom.services import entities
from postroom.services.optimistic import retry_on_conflict
from postroom.storage import Entity, Store

TABLE: Final = "growth"
LATEST: Final = "latest"
_SECONDS: Final = 1.0


class Figures(msgspec.Struct, frozen=True):
    """Subscribers, those of them who are verified, and those of these who are not blocked."""

    subscribers: int = 0
    verified: int = 0
    recipients: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.subscribers + other.subscribers,
            self.verified + other.verified,
            self.recipients + other.recipients,
        )

    def __neg__(self) -> Figures:
        return Figures(-self.subscribers, -self.verified, -self.recipients)


def figures_of(subscriber: Subscriber | None) -> Figures:
    """Return the figures of one subscriber, or zeros without one."""
    if subscriber is None:
        return Figures()
    return Figures(1, int(subscriber.verified), int(subscriber.may_receive))


def figures_from(entity: Entity) -> Figures:
    verified = entities.read(entity, "Verified", int)
    recipients = entities.read_optional(entity, "Recipients", int)
    return Figures(
        entities.read(entity, "Subscribers", int),
        verified,
        verified if recipients is None else recipients,
    )


class ListCounts:
    def __init__(self, store: Store) -> None:
        self._rows = store.table(TABLE)
        self._changes: dict[ListName, Figures] = {}
        self._written_at = 0.0

    async def changed(self, name: ListName, old: Subscriber | None, new: Subscriber | None) -> None:
        """Note that a subscriber came, left or changed."""
        await self.add(name, figures_of(new) + -figures_of(old))

    async def add(self, name: ListName, change: Figures) -> None:
        """Add a change of a list's figures; it is written now or together with later ones."""
        if change == Figures():
            return
        self._changes[name] = self._changes.get(name, Figures()) + change
        if clock.monotonic() - self._written_at >= _SECONDS:
            await self.write()

    async def write(self) -> None:
        """Write all changes. Lists that were never counted are left out."""
        self._written_at = clock.monotonic()
        changes, self._changes = self._changes, {}
        for name, change in changes.items():
            await self._write(name, change)

    async def _write(self, name: ListName, change: Figures) -> None:
        async def change_row() -> None:
            found = await self._rows.get(LATEST, name)
            if found is None:
                return
            now = figures_from(found) + change
            figures = {
                "Subscribers": max(0, now.subscribers),
                "Verified": max(0, now.verified),
                "Recipients": max(0, now.recipients),
            }
            await self._rows.merge(Entity(LATEST, name, figures), found.etag)

        with contextlib.suppress(Overtaken):  # counted again within a day
            await retry_on_conflict(change_row, "list", name)
