"""Claims on pages: a page's row names the sender that works on it, and its ETag is the fence.

An owner that has lost a page cannot settle it: the write that records the page also ends the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.messages.pages import WorkItem
from postroom.errors import PostroomError
from postroom.services import entities
from postroom.services.messages.sending.page_rows import (
    DONE,
    DOUBTFUL,
    FAN_OUT,
    FREE,
    OWNER,
    UNTIL,
    Page,
    PageClaim,
    PageRows,
    page_from,
    page_row,
)
from postroom.storage import Conflict, Entity, eq

_SOON: Final = timedelta(seconds=1)
_LONG_AGO: Final = 7 * 24 * 3600.0
_AFTER_OUTAGE: Final = timedelta(seconds=15)  # senders look for the store every second
_MOST_ROUNDS: Final = 10
"""Attempts to claim a page that others claim and free at the same moment."""


class PageTaken(PostroomError):
    """Another sender has claimed the page, until `free_at` at most."""

    def __init__(self, free_at: datetime) -> None:
        super().__init__(f"until {free_at}")
        self.free_at = free_at


class PageLost(PostroomError):
    """Another sender has taken the page over; our results no longer count."""


class Claims:
    """The claims of one sender."""

    def __init__(
        self,
        pages: PageRows,
        owner: str,
        lease: float,
        is_neighbour: Callable[[str], bool] = lambda _: False,
        has_sent: Callable[[WorkItem], bool] = lambda _: True,
        steady_for: Callable[[], float] = lambda: math.inf,
    ) -> None:
        """`is_neighbour` returns whether an owner's journal is on this machine, `has_sent` whether
        this owner may have handed over emails of a page that are not settled, `steady_for` for how
        many seconds the store has been usable without a break."""
        self._pages = pages
        self._owner = owner
        self._lease = lease
        self._is_neighbour = is_neighbour
        self._has_sent = has_sent
        self._steady_for = steady_for

    async def take(self, items: Sequence[WorkItem]) -> dict[WorkItem, Page | PageTaken | None]:
        """Claim pages of one message: free ones with one write, which also reads them.

        Return each page; `PageTaken` if another sender has claimed it; or None if nothing is left
        to do for it, because it is done or its message was deleted.
        """
        rows = {page_row(item.page): item for item in items}
        changed = await self._pages.table.merge_where(
            entities.pages_partition(items[0].day, items[0].ref),
            rows,
            self._claim().properties,
            eq(OWNER, "") & eq(DONE, False),
        )
        taken: dict[WorkItem, Page | PageTaken | None] = {
            rows[row]: page_from(entity) for row, entity in changed.items()
        }
        return {
            item: taken[item] if item in taken else await self._take_claimed(item) for item in items
        }

    async def renew(self, pages: Sequence[Page]) -> dict[int, Page]:
        """Extend the claims on pages of one message; return those that are still ours, by number.

        The owner decides, not the ETag: an earlier renewal may have been done without a reply.
        """
        changed = await self._pages.table.merge_where(
            entities.pages_partition(pages[0].day, pages[0].ref),
            [page_row(page.number) for page in pages],
            {UNTIL: self._until()},
            eq(OWNER, self._owner),
        )
        return {int(row): page_from(entity) for row, entity in changed.items()}

    async def give_up(self, items: Sequence[WorkItem]) -> None:
        """End claims on pages of one message that we may have, because an outage hid whether an
        earlier call claimed them; not on pages of which emails may have been sent."""
        rows = [page_row(item.page) for item in items if not self._has_sent(item)]
        if rows:
            await self._pages.table.merge_where(
                entities.pages_partition(items[0].day, items[0].ref),
                rows,
                FREE.properties,
                eq(OWNER, self._owner) & eq(DOUBTFUL, False),
            )

    async def take_over(self, page: Page, *, doubtful: bool) -> Page:
        """Take over a page from a sender that did not finish; raise `PageLost` if another sender
        was faster."""
        claim = PageClaim(self._owner, self._until(), doubtful)
        partition = entities.pages_partition(page.day, page.ref)
        entity = Entity(partition, page_row(page.number), claim.properties)
        try:
            etag = await self._pages.table.merge(entity, page.etag)
        except Conflict as exc:
            raise PageLost from exc
        return msgspec.structs.replace(page, claim=claim, etag=etag)

    async def _take_claimed(self, item: WorkItem) -> Page | PageTaken | None:
        """Claim a page that is claimed already, or that does not exist."""
        for _ in range(_MOST_ROUNDS):
            page = await self._pages.get(item.day, item.ref, item.page)
            if page is None or (page.claim == FREE and not page.counts.pending):
                return None
            now = clock.now()
            # No claim lasts longer than a lease, unless a clock was set back since.
            until = min(page.claim.until, now + timedelta(seconds=self._lease))
            doubtful = page.claim.doubtful
            if page.claim != FREE:
                ours = page.claim.owner == self._owner and not self._has_sent(item)
                if not ours:
                    if now < until:
                        return PageTaken(until)
                    if page.claim.owner != FAN_OUT:
                        if now < self._free_at(page.claim.owner, until, now):
                            return PageTaken(now + _SOON)
                        doubtful = True
            try:
                return await self.take_over(page, doubtful=doubtful)
            except PageLost:
                continue  # changed since we looked
        return PageTaken(clock.now() + _SOON)

    def _free_at(self, owner: str, until: datetime, now: datetime) -> datetime:
        """Return when an overdue claim may be taken over. Every email that its owner has not
        recorded is then in doubt, so the owner gets some time.

        After a store outage every claim is overdue, and its owner is about to settle it. An owner
        on this machine may be slow, or dead and soon settled from its journal.
        """
        grace = timedelta(seconds=self._lease)
        if self._is_neighbour(owner):
            return max(until, _ago(now, self._steady_for())) + grace
        return max(until, _ago(now, self._steady_for()) + min(grace, _AFTER_OUTAGE))

    def _claim(self) -> PageClaim:
        return PageClaim(self._owner, self._until())

    def _until(self) -> datetime:
        return clock.now() + timedelta(seconds=self._lease)


def _ago(now: datetime, seconds: float) -> datetime:
    return now - timedelta(seconds=min(seconds, _LONG_AGO))
