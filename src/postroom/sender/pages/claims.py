"""Claims on pages: a row beside the page's own, whose ETag is the fence.

An owner that has lost a page cannot settle it: the end of a claim is part of the batch that records
the page.
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
"""The prefix of owners that decide on emails in doubt: they hand nothing over."""

_SOON = timedelta(seconds=1)
_LONG_AGO = 7 * 24 * 3600.0
_AFTER_OUTAGE = timedelta(seconds=15)  # senders look for the store every second


class PageTaken(PostroomError):
    """Another sender has claimed the page, until `free_at` at most."""

    def __init__(self, free_at: datetime) -> None:
        super().__init__(f"until {free_at}")
        self.free_at = free_at


class PageLost(PostroomError):
    """Another sender has taken the page over; our results no longer count."""


class Claim(msgspec.Struct, frozen=True):
    """Our claim on a page. `taken_over`: from an owner that did not finish. `doubtful`: that owner
    may have handed over emails, and its journal is unavailable."""

    item: WorkItem
    etag: str
    taken_over: bool
    doubtful: bool = False

    @property
    def end(self) -> Delete:
        """The operation that ends it, for the batch with the results."""
        return Delete(*_key(self.item), self.etag)


class FoundClaim(msgspec.Struct, frozen=True):
    """The claim on a page. `doubtful`: it was taken over from a sender whose journal is
    unavailable, so every email without a record is in doubt."""

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
        """`is_neighbour` returns whether an owner's journal is on this machine, `has_sent` whether
        this owner may have handed over emails of a page that are not settled, `steady_for` for how
        many seconds the store has been usable without a break."""
        self._pages = store.table(entities.PAGES)
        self._owner = owner
        self._is_neighbour = is_neighbour
        self._has_sent = has_sent
        self._steady_for = steady_for

    async def take(self, item: WorkItem, item_id: str, lease: float) -> Claim:
        """Claim a page; raise `PageTaken` if the receiver of another work item has it."""
        entity = self._entity(item, item_id, lease)
        try:
            return Claim(item, await self._pages.insert(entity), taken_over=False)
        except AlreadyExists:
            found = await self._pages.get(entity.partition, entity.row)
        if found is None:
            return await self.take(item, item_id, lease)  # it has just been given up
        now = datetime.now(UTC)
        # No claim lasts longer than a lease, unless a clock was set back since.
        until = min(entities.read(found, "Until", datetime), now + timedelta(seconds=lease))
        same_item = entities.read(found, "ItemId", str) == item_id
        if not same_item and until > now:
            raise PageTaken(until)
        # The previous receiver of this item has lost its lease, or the other claim is overdue.
        other = _found_claim(found)
        if other.owner == self._owner and not self._has_sent(item):
            # Ours, from before a store outage.
            return await self.take_over(item, item_id, lease, other.etag, doubtful=other.doubtful)
        if now < self._free_at(other.owner, until, lease, now):
            raise PageTaken(now + _SOON)
        doubtful = other.doubtful or not other.owner.startswith(ADMINISTRATOR)
        return await self.take_over(item, item_id, lease, other.etag, doubtful=doubtful)

    def _free_at(self, owner: str, until: datetime, lease: float, now: datetime) -> datetime:
        """Return when an overdue claim may be taken over. Without the owner's journal the whole
        page would be in doubt, so the owner gets some time.

        After a store outage every claim is overdue, and its owner is about to settle it. An owner
        on this machine may be slow, or dead and soon settled from its journal.
        """
        grace = timedelta(seconds=lease)
        if self._is_neighbour(owner):
            overdue_since = max(until, _ago(now, self._steady_for()))
            return overdue_since + grace
        return max(until, _ago(now, self._steady_for()) + min(grace, _AFTER_OUTAGE))

    async def take_together(self, items: Mapping[WorkItem, str], lease: float) -> list[Claim]:
        """Claim consecutive pages of a message in one step.

        Return an empty list and change nothing if they are not consecutive, if one is not free, or
        if a sender may have worked on one: then each must be claimed alone.
        """
        numbers = [item.page for item in items]
        are_consecutive = max(numbers) - min(numbers) + 1 == len(items)
        if not are_consecutive or any(item.restarted for item in items):
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
        """Take over the claim of a sender that did not finish; raise `PageLost` if another sender
        was faster.

        `owner` keeps the claim in the dead sender's name: if we are killed, too, the next sender
        must still know which journal to read. Without a journal the page is `doubtful` for as long
        as the claim lasts.
        """
        entity = self._entity(item, item_id, lease, owner, doubtful=doubtful)
        try:
            taken = await self._pages.replace(entity, etag)
        except Conflict as exc:
            raise PageLost from exc
        return Claim(item, taken, taken_over=True, doubtful=doubtful)

    async def find(self, item: WorkItem) -> FoundClaim | None:
        """Return the claim on a page, if there is one."""
        found = await self._pages.get(*_key(item))
        return None if found is None else _found_claim(found)

    async def renew(self, claim: Claim, item_id: str, lease: float) -> Claim:
        """Extend a claim; raise `PageLost` if another sender has taken the page over."""
        entity = self._entity(claim.item, item_id, lease, doubtful=claim.doubtful)
        try:
            etag = await self._pages.replace(entity, claim.etag)
        except Conflict as exc:
            # An outage may have hidden the success of an earlier renewal.
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
