"""Loads the emails of a page and records their outcomes.

The order of the writes when a page is settled:

1. outcomes into `messagearchive`;
2. finished emails out of `message`, those to be retried marked, in one batch;
3. the page's counts, and in the same batch the end of our claim;
4. the work item, last.

All four are one call of the store (`Store.write_in_order`), and one transaction in some engines. A
crash between them leaves the claim and the work item, so the page is taken again, and archived
emails are not sent again. The claim's ETag is the fence: an owner that has lost a page cannot
settle it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import TypeAlias, cast

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.emails import Counts, EmailOutcome, check_outcome
from postroom.domain.messages.pages import WorkItem
from postroom.sender.pages.claims import Claim, PageLost
from postroom.sender.pages.settling import recounted, settlement
from postroom.sender.policy import Attempt, EmailVerdict
from postroom.services import entities
from postroom.services.messages.waiting_reasons import WaitingReasons, with_waiting
from postroom.storage import (
    AlreadyExists,
    Batch,
    Conflict,
    Entity,
    Finish,
    InsertMany,
    KeyRange,
    LeaseLost,
    Merge,
    Operation,
    QueueMessage,
    Replace,
    Step,
    Store,
    Value,
)

_NO_ATTEMPT = Attempt()
_NO_WAIT = WaitingReasons()
_spelling = attrgetter("EmailAddress")

Emails: TypeAlias = Mapping[Address, entities.EmailRow]
"""The pending emails of a page, by the address as it was entered."""


class LoadedPage(msgspec.Struct, frozen=True):
    """The pending emails of a page, and the counts of the finished ones."""

    page: Entity
    emails: Emails
    counts: Counts
    leftover: Sequence[str] = ()
    """Rows of emails that are archived already and only have to be removed."""

    @property
    def is_whole(self) -> bool:
        """Whether the number of emails found is the number of pending ones."""
        return len(self.emails) == self.counts.pending

    def before(self, address: Address) -> Attempt:
        """Return the past attempts of an email."""
        email = self.emails[address]
        if not email.Tries and not email.WasInDoubt:
            return _NO_ATTEMPT  # the common case
        return Attempt(email.Tries, email.FirstTriedAt, max(email.Doubts, email.WasInDoubt))


class PageStore:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._emails = store.table(entities.MESSAGES)
        self._archive = store.table(entities.ARCHIVE)
        self._pages = store.table(entities.PAGES)

    async def load_together(self, claims: Sequence[Claim]) -> list[LoadedPage | None]:
        """Like `load`, for consecutive pages of a message, with two queries in all."""
        items = [claim.item for claim in claims]
        numbers = [item.page for item in items]
        found, read = await asyncio.gather(
            self._pages.query(
                KeyRange.only(entities.pages_partition(items[0].day, items[0].ref)),
                KeyRange.between(entities.page_row(min(numbers)), entities.page_row(max(numbers))),
            ),
            self._emails.read_partitions(entities.EmailRow, [item.partition for item in items]),
        )
        rows = {entity.row: entity for entity in found.entities}
        pages: list[LoadedPage | None] = []
        for claim in claims:
            row = rows.get(entities.page_row(claim.item.page))
            page = None if row is None else _loaded(row, _spelled(read[claim.item.partition]))
            if page is not None and not page.is_whole:
                page = await self.load(claim)
            pages.append(page)
        return pages

    async def load(self, claim: Claim) -> LoadedPage | None:
        """Return what is left of a page; None if it does not exist.

        It must be claimed, so that no other process changes it. The archive is read if an earlier
        attempt may have been interrupted.
        """
        item = claim.item
        page = await self._page(item)
        if page is None:
            return None
        emails = await self._read(item)
        loaded = _loaded(page, emails)
        # If the number of emails is wrong, an owner that had lost the page has written late.
        if not claim.taken_over and not item.restarted and loaded.is_whole:
            return loaded
        return await self._without_archived(item, page, emails)

    async def load_again(self, claim: Claim) -> LoadedPage:
        """Return what is left of a page that may be settled in part; raise `PageLost` if it is
        gone."""
        page = await self._page(claim.item)
        if page is None:
            raise PageLost
        return await self._without_archived(claim.item, page, await self._read(claim.item))

    async def counts(self, item: WorkItem) -> Counts | None:
        """Return the counts of a page; None if there is no such page."""
        page = await self._page(item)
        return None if page is None else entities.counts_from(page)

    async def _page(self, item: WorkItem) -> Entity | None:
        return await self._pages.get(*_key(item))

    async def _read(self, item: WorkItem) -> Emails:
        return _spelled(await self._emails.read(entities.EmailRow, item.partition))

    async def _without_archived(self, item: WorkItem, page: Entity, emails: Emails) -> LoadedPage:
        """Return the page without the emails that are archived already."""
        done = (await self._archive.query(KeyRange.only(item.partition))).entities
        archived = {entities.read_spelling(entity) for entity in done}
        left = {address: email for address, email in emails.items() if address not in archived}
        loaded = _loaded(page, left)
        return msgspec.structs.replace(
            loaded,
            counts=recounted(loaded.counts.planned, done),
            leftover=[each.row_of(a) for a, each in emails.items() if a in archived],
        )

    # -- settling ----------------------------------------------------------------------------

    async def settle(
        self,
        claim: Claim,
        loaded: LoadedPage,
        verdicts: Mapping[Address, EmailVerdict],
        *,
        parked: bool,
        item: QueueMessage | None = None,
        patience: float = 0.0,
        wait: WaitingReasons = _NO_WAIT,
    ) -> Counts:
        """Record the verdicts and end the claim, and the work item, too, if nothing is left to do
        for it: if no email is pending, the page is parked, or its emails wait for a hold. Raise
        `PageLost`."""
        partition = claim.item.partition
        planned = settlement(
            partition, verdicts, loaded.emails, loaded.leftover, loaded.counts, datetime.now(UTC)
        )

        def rest(counts: Counts) -> list[Step]:
            steps: list[Step] = []
            if planned.changes:
                steps.append(Batch(entities.MESSAGES, planned.changes))
            ended = _ended(claim, loaded.page, counts, wait, parked=parked)
            steps.append(Batch(entities.PAGES, ended))
            if item is not None and (counts.pending == 0 or parked or wait.is_held):
                steps.append(Finish(item))
            return steps

        counts = planned.counts
        archiving = [Batch(entities.ARCHIVE, planned.archive)] if planned.archive else []
        try:
            try:
                await self._store.write_in_order([*archiving, *rest(counts)], patience=patience)
            except AlreadyExists:
                counts = await self._archive_beside(partition, planned.archive, counts.planned)
                await self._store.write_in_order(rest(counts))
        except Conflict as exc:
            # Another sender has taken the page over.
            raise PageLost from exc
        except LeaseLost:
            # Only of the work item, which comes last. Its receiver finds the page finished.
            return counts
        return counts

    async def _archive_beside(
        self, partition: str, archive: Sequence[InsertMany], planned: int
    ) -> Counts:
        """Archive emails of which some are archived already, by a sender that took the page over
        from us or from which we took it. Both may have sent them: keep the existing records and
        mark them as possible duplicates.
        """
        there = {e.row for e in (await self._archive.query(KeyRange.only(partition))).entities}
        operations: list[Operation] = []
        for many in archive:
            twice = [row for row in many.rows if row in there]
            operations += [Merge(Entity(partition, row, {"WasInDoubt": True})) for row in twice]
            rows = {row: own for row, own in many.rows.items() if row not in there}
            if rows:
                operations.append(InsertMany(partition, rows, many.shared))
        await self._archive.apply(operations)
        return recounted(planned, (await self._archive.query(KeyRange.only(partition))).entities)

    async def reopen(self, archived: Entity, marks: Mapping[str, Value]) -> None:
        """Make a finished email pending again; raise `NotNow` if its outcome is final. The caller
        has claimed its page, and must load it from the archive and settle it afterwards: until then
        the page counts the old outcome."""
        outcome = EmailOutcome(entities.read(archived, "Outcome", str))
        check_outcome(outcome, EmailOutcome.PENDING)
        kept = {
            name: archived.properties[name]
            for name in ("SubscriberGUID", "EmailAddress", "Tries")
            if name in archived.properties
        }
        await self._emails.upsert(Entity(archived.partition, archived.row, {**kept, **marks}))
        await self._archive.delete(archived.partition, archived.row, archived.etag)

    async def park(self, claim: Claim) -> None:
        """Let a page of a paused message wait, without a work item, until it is resumed."""
        page = Entity(*_key(claim.item), {"Parked": True})
        try:
            await self._pages.apply([Merge(page), claim.end])
        except Conflict as exc:
            raise PageLost from exc


def _key(item: WorkItem) -> tuple[str, str]:
    return entities.pages_partition(item.day, item.ref), entities.page_row(item.page)


def _spelled(rows: dict[str, entities.EmailRow]) -> Emails:
    """Return emails by address; their rows are the keys of the addresses."""
    if any(map(_spelling, rows.values())):
        return {Address(email.EmailAddress or row): email for row, email in rows.items()}
    return cast(Emails, rows)  # most addresses equal their keys


def _loaded(page: Entity, emails: Emails) -> LoadedPage:
    return LoadedPage(page, emails, entities.counts_from(page))


def _ended(
    claim: Claim, page: Entity, counts: Counts, wait: WaitingReasons, *, parked: bool
) -> list[Operation]:
    """Return the operations that record the settled page and end our claim."""
    properties = {**page.properties, **entities.counts_properties(counts)}
    properties["Parked"] = parked and counts.pending > 0
    with_waiting(properties, wait)
    properties.pop("Members", None)  # needed only until a sender has been here
    return [Replace(Entity(page.partition, page.row, properties)), claim.end]
