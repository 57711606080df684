"""Changes of someone's consent to tracking.

| table       | partition          | row    | holds                                              |
|-------------|--------------------|--------|----------------------------------------------------|
| `listindex` | `tracking consent` | a GUID | ListName, Guids, ChangedAt: what was recorded      |
|             |                    |        | before may have to be removed                      |

The row is written before the change, and removed by `results/withdrawn_consents.py`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.consent import ConsentAction
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid
from postroom.services import entities
from postroom.services.entities import read
from postroom.storage import Entity, Store, Value

_LONGEST_CHANGE: Final = timedelta(hours=1)


class ConsentChange(msgspec.Struct, frozen=True):
    """A change of consent to tracking that may not have happened yet."""

    list_name: ListName
    guids: tuple[SubscriberGuid, ...]
    at: datetime

    def has_failed(self, now: datetime) -> bool:
        """Return whether it is certain that the change will no longer happen."""
        return now > self.at + _LONGEST_CHANGE


class ConsentChanges:
    def __init__(self, store: Store) -> None:
        self._index = store.table(entities.LIST_INDEX)

    async def note(self, old: Subscriber, new: Subscriber) -> None:
        """Note that someone is about to agree to tracking, or to withdraw that."""
        if old.tracking == new.tracking:
            return
        properties: dict[str, Value] = {
            "ListName": new.list_name,
            "Guids": ",".join(new.guids),
            "ChangedAt": clock.now(),
        }
        await self._index.upsert(Entity(entities.CONSENT_CHANGED, new.guid, properties))


def consent_change_from(entity: Entity) -> ConsentChange:
    guids = tuple(map(SubscriberGuid, read(entity, "Guids", str).split(",")))
    at = read(entity, "ChangedAt", datetime)
    return ConsentChange(ListName(read(entity, "ListName", str)), guids, at)


def with_consent_date(old: Subscriber, new: Subscriber) -> Subscriber:
    """Return a subscriber with the time of their consent to tracking; without consent, the days of
    their opens and clicks are removed."""
    if not new.tracking:
        return msgspec.structs.replace(new, tracking_since=None, opened_at=None, clicked_at=None)
    return new if old.tracking else msgspec.structs.replace(new, tracking_since=clock.now())


def about_tracking(change: tuple[ConsentAction, list[str]]) -> list[str]:
    """Return what a change says about consent to tracking, which an entry about another act names,
    too."""
    said = {change[0].value, *change[1]}
    return sorted(said & {ConsentAction.TRACKING_ALLOWED, ConsentAction.TRACKING_WITHDRAWN})
