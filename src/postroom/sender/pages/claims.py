"""Who has a page in hand: a row beside the page's own, whose ETag is the fence.

Who has lost a page cannot settle it. The end of a claim is part of the batch that records the page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from postroom.domain.messages.pages import WorkItem
from postroom.errors import PostroomError
from postroom.services import entities
from postroom.storage import (
    AlreadyExists,
    Conflict,
    Delete,
    Entity,
    Insert,
    Store,
    Value,
)

ADMINISTRATOR = "administrator-"
"""How owners begin who decide on emails in doubt: they hand nothing over."""

_SOON = timedelta(seconds=1)
_LONG_AGO = 7 * 24 * 3600.0
_AFTER_OUTAGE = timedelta(seconds=15)  # senders look for the store every second


class PageTaken(PostroomError):
    """Another sender has the page in hand, until `free_at` at most."""

    def __init__(self, free_at: datetime) -> None:
        super().__init__(f"until {free_at}")
        self.free_at = free_at


class PageLost(PostroomError):
    """Somebody else has taken the page over; nothing of ours counts any more."""


class Claim(msgspec.Struct, frozen=True):
    """Our right to a page. `taken_over`: from somebody who did not finish. `doubtful`: who may have
    handed emails over, and left no word of it."""

    item: WorkItem
    etag: str
    taken_over: bool
    doubtful: bool = False

    @property
    def end(self) -> Delete:
        """What ends it, in a batch with what was done under it."""
        return Delete(*_key(self.item), self.etag)


class FoundClaim(msgspec.Struct, frozen=True):
    """Who has a page in hand. `doubtful`: it was taken over from a sender that nothing is known of,
    so whatever has no record is in doubt."""

    owner: str
    etag: str
    doubtful: bool


class Claims:
    """The claims of one owner."""

    def __init__(
        self,
        store: Store,
        owner: str,
        is_neighbour: Callable[[str], bool] = lambda _: False,
        has_sent: Callable[[WorkItem], bool] = lambda _: True,
        steady_for: Callable[[], float] = lambda: math.inf,
    ) -> None:
        """`is_neighbour` tells of an owner whether its journal is on this machine, `has_sent` of a
        page whether this owner may have handed over emails of it that nobody has settled.
        `steady_for` tells for how many seconds the store has been usable without a break."""
        self._pages = store.table(entities.PAGES)
        self._owner = owner
        self._is_neighbour = is_neighbour
        self._has_sent = has_sent
        self._steady_for = steady_for

    async def take(self, item: WorkItem, item_id: str, lease: float) -> Claim:
        """Take a page. `PageTaken` if another work item's receiver has it."""
        entity = self._entity(item, item_id, lease)
        try:
            return Claim(item, await self._pages.insert(entity), taken_over=False)
        except AlreadyExists:
            found = await self._pages.get(entity.partition, entity.row)
        if found is None:
            return await self.take(item, item_id, lease)  # it was given up just now
        now = datetime.now(UTC)
        # No claim lasts longer than a lease, unless a clock was set back since.
        until = min(entities.read(found, "Until", datetime), now + timedelta(seconds=lease))
        same_item = entities.read(found, "ItemId", str) == item_id
        if not same_item and until > now:
            raise PageTaken(until)
        # The receiver of this very item has lost its lease, or the other one is overdue.
        other = _found_claim(found)
        if other.owner == self._owner and not self._has_sent(item):
            # Ours, from before the store went away for a while.
            return await self.take_over(item, item_id, lease, other.etag, doubtful=other.doubtful)
        if now < self._free_at(other.owner, until, lease, now):
            raise PageTaken(now + _SOON)
        doubtful = other.doubtful or not other.owner.startswith(ADMINISTRATOR)
        return await self.take_over(item, item_id, lease, other.etag, doubtful=doubtful)

    def _free_at(self, owner: str, until: datetime, lease: float, now: datetime) -> datetime:
        """When an overdue claim may be taken over. Whoever does so without knowing what its owner
        has sent must doubt the whole page, so the owner gets some time.

        After an outage of the store every claim is overdue, and its owner is about to settle it.
        And on this machine an owner may be slow, or dead and soon settled from its journal.
        """
        grace = timedelta(seconds=lease)
        if self._is_neighbour(owner):
            overdue_since = max(until, _ago(now, self._steady_for()))
            return overdue_since + grace
        return max(until, _ago(now, self._steady_for()) + min(grace, _AFTER_OUTAGE))

    async def take_together(self, items: Mapping[WorkItem, str], lease: float) -> list[Claim]:
        """Take neighbouring pages of a message with one step.

        Answers nothing, and has done nothing, if they are no neighbours, if somebody may have been
        at work on one of them, or if one is not free: then each is to be taken by itself.
        """
        numbers = [item.page for item in items]
        neighbours = max(numbers) - min(numbers) + 1 == len(items)
        if not neighbours or any(item.restarted for item in items):
            return []
        entities = [self._entity(item, item_id, lease) for item, item_id in items.items()]
        try:
            etags = await self._pages.apply([Insert(entity) for entity in entities])
        except AlreadyExists:
            return []
        return [
            Claim(item, etag, taken_over=False) for item, etag in zip(items, etags, strict=True)
        ]

    async def take_over(
        self,
        item: WorkItem,
        item_id: str,
        lease: float,
        etag: str,
        owner: str | None = None,
        *,
        doubtful: bool = True,
    ) -> Claim:
        """Take a claim from a sender that did not finish. `PageLost` if another one was quicker.

        `owner` keeps the claim under the dead one's name: who settles from its journal may be
        killed, too, and the next one must still know whose journal tells about the page. If no
        journal does, the page is `doubtful`, and the claim says so for as long as it lasts.
        """
        entity = self._entity(item, item_id, lease, owner, doubtful=doubtful)
        try:
            taken = await self._pages.replace(entity, etag)
        except Conflict as exc:
            raise PageLost from exc
        return Claim(item, taken, taken_over=True, doubtful=doubtful)

    async def find(self, item: WorkItem) -> FoundClaim | None:
        """Who has a page in hand."""
        found = await self._pages.get(*_key(item))
        return None if found is None else _found_claim(found)

    async def renew(self, claim: Claim, item_id: str, lease: float) -> Claim:
        """Extend a claim. `PageLost` if another sender has taken the page over."""
        entity = self._entity(claim.item, item_id, lease, doubtful=claim.doubtful)
        try:
            etag = await self._pages.replace(entity, claim.etag)
        except Conflict as exc:
            # It may have been renewed when an outage began, without an answer.
            found = await self.find(claim.item)
            if found is None or found.owner != self._owner:
                raise PageLost from exc
            try:
                etag = await self._pages.replace(entity, found.etag)
            except Conflict as lost:
                raise PageLost from lost
        return msgspec.structs.replace(claim, etag=etag)

    async def give_up(self, claim: Claim) -> None:
        """End a claim under which nothing was recorded."""
        try:
            await self._pages.apply([claim.end])
        except Conflict as exc:
            raise PageLost from exc

    def _entity(
        self,
        item: WorkItem,
        item_id: str,
        lease: float,
        owner: str | None = None,
        *,
        doubtful: bool = False,
    ) -> Entity:
        partition, row = _key(item)
        until = datetime.now(UTC) + timedelta(seconds=lease)
        values: dict[str, Value] = {
            "Owner": owner or self._owner,
            "ItemId": item_id,
            "Until": until,
        }
        if doubtful:
            values["Doubtful"] = True
        return Entity(partition, row, values)


def _ago(now: datetime, seconds: float) -> datetime:
    return now - timedelta(seconds=min(seconds, _LONG_AGO))


def _key(item: WorkItem) -> tuple[str, str]:
    return entities.pages_partition(item.day, item.ref), entities.claim_row(item.page)


def _found_claim(entity: Entity) -> FoundClaim:
    doubtful = entities.read_optional(entity, "Doubtful", bool) or False
    return FoundClaim(entities.read(entity, "Owner", str), entity.etag, doubtful)
