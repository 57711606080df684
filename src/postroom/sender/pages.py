"""A page in hand: who is on it, what is known of them, and how its outcomes are recorded.

The order of the writes when a page is settled:

1. outcomes into `messagearchive`;
2. emails that are done out of `message`, those to be tried again marked, in one batch;
3. the page's counts, and in the same batch the end of our claim;
4. the work item, last.

A crash leaves the claim and the work item, so the page is taken again, and what the archive has is
not sent again. The claim's ETag is the fence: who has lost a page cannot settle it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from postroom.domain.addresses import Address
from postroom.domain.emails import Counts, EmailOutcome
from postroom.domain.lists import ListName, SubscriberGuid
from postroom.domain.pages import WorkItem
from postroom.mail.mailing import Recipient
from postroom.sender.policy import Attempt, Verdict
from postroom.services import records
from postroom.storage import (
    AlreadyExists,
    Conflict,
    Delete,
    Entity,
    Insert,
    KeyRange,
    Merge,
    NotFound,
    Operation,
    Replace,
    Store,
    Value,
)

# With fewer addresses than this, point reads are cheaper than the range between first and last,
# which for the last two deferred emails of a page may be half the list.
_FEW = 25


class PageTaken(Exception):
    """Another sender has the page in hand, until `free_at` at most."""

    def __init__(self, free_at: datetime) -> None:
        super().__init__(f"until {free_at}")
        self.free_at = free_at


class PageLost(Exception):
    """Somebody else has taken the page over; nothing of ours counts any more."""


class Claim(msgspec.Struct, frozen=True):
    """Our right to a page. `taken_over`: from a sender that did not finish."""

    item: WorkItem
    etag: str
    taken_over: bool


class LoadedPage(msgspec.Struct, frozen=True):
    """The emails of a page that are not done, and the counts of those that are."""

    page: Entity
    waiting: dict[Address, Attempt]
    guids: dict[Address, str]
    next_try_at: dict[Address, datetime]
    counts: Counts
    leftover: list[str]
    """Rows that the archive has already: only to be removed."""


class PageStore:
    def __init__(self, store: Store, owner: str) -> None:
        self._lists = store.table(records.LISTS)
        self._emails = store.table(records.MESSAGES)
        self._archive = store.table(records.ARCHIVE)
        self._pages = store.table(records.PAGES)
        self._owner = owner

    # -- claims ------------------------------------------------------------------------------

    async def claim(self, item: WorkItem, item_id: str, lease: float) -> Claim:
        """Take a page. `PageTaken` if another work item's receiver has it."""
        entity = self._claim_entity(item, item_id, lease)
        try:
            return Claim(item, await self._pages.insert(entity), taken_over=False)
        except AlreadyExists:
            found = await self._pages.get(entity.partition, entity.row)
        if found is None:
            return await self.claim(item, item_id, lease)  # it was given up just now
        until = records.read(found, "Until", datetime)
        same_item = records.read(found, "ItemId", str) == item_id
        if not same_item and until > datetime.now(UTC):
            raise PageTaken(until)
        # The receiver of this very item has lost its lease, or the other one is overdue.
        return await self.take_over(item, item_id, lease, found.etag)

    async def take_over(
        self, item: WorkItem, item_id: str, lease: float, etag: str, owner: str | None = None
    ) -> Claim:
        """Take a claim from a sender that did not finish. `PageLost` if another one was quicker.

        `owner` keeps the claim under the dead one's name: who settles from its journal may be
        killed, too, and the next one must still know whose journal tells about the page.
        """
        try:
            taken = await self._pages.replace(self._claim_entity(item, item_id, lease, owner), etag)
        except Conflict as exc:
            raise PageLost from exc
        return Claim(item, taken, taken_over=True)

    async def find_claim(self, item: WorkItem) -> tuple[str, str] | None:
        """Who has a page in hand, and the claim's ETag."""
        found = await self._pages.get(*self._claim_key(item))
        return None if found is None else (records.read(found, "Owner", str), found.etag)

    async def renew(self, claim: Claim, item_id: str, lease: float) -> Claim:
        try:
            etag = await self._pages.replace(
                self._claim_entity(claim.item, item_id, lease), claim.etag
            )
        except Conflict as exc:
            raise PageLost from exc
        return msgspec.structs.replace(claim, etag=etag)

    async def give_up(self, claim: Claim) -> None:
        """End a claim under which nothing was recorded."""
        try:
            await self._pages.delete(*self._claim_key(claim.item), claim.etag)
        except Conflict as exc:
            raise PageLost from exc

    async def park(self, claim: Claim) -> None:
        """The message is paused: the page waits without a work item until it goes on."""
        partition, row = self._claim_key(claim.item)
        try:
            await self._pages.apply(
                [
                    Merge(Entity(partition, records.page_row(claim.item.page), {"Parked": True})),
                    Delete(partition, row, claim.etag),
                ]
            )
        except Conflict as exc:
            raise PageLost from exc

    # -- reading -----------------------------------------------------------------------------

    async def load(self, claim: Claim) -> LoadedPage | None:
        """What is left of a page; None if there is no such page.

        Read after the claim, so that nobody else changes it meanwhile. The archive is consulted
        where an earlier attempt may have got half-way.
        """
        item = claim.item
        page, result = await asyncio.gather(
            self._pages.get(
                records.pages_partition(item.day, item.ref), records.page_row(item.page)
            ),
            self._emails.query(KeyRange.only(item.partition)),
        )
        if page is None:
            return None
        counts = records.counts_from(page)
        archived: set[str] = set()
        if claim.taken_over or item.restarted:
            done = (await self._archive.query(KeyRange.only(item.partition))).entities
            archived = {entity.row for entity in done}
            counts = _recount(counts.planned, done)
        rows = [entity for entity in result.entities if entity.row not in archived]
        return LoadedPage(
            page=page,
            waiting={Address(e.row): _attempt_from(e) for e in rows},
            guids={Address(e.row): str(e.properties["SubscriberGUID"]) for e in rows},
            next_try_at={
                Address(e.row): records.read(e, "NextTryAt", datetime)
                for e in rows
                if "NextTryAt" in e.properties
            },
            counts=counts,
            leftover=[e.row for e in result.entities if e.row in archived],
        )

    async def who_may_receive(
        self, name: ListName, addresses: Sequence[Address]
    ) -> dict[Address, Recipient]:
        """Those who are still verified and not blocked, with the GUIDs that they have now."""
        if len(addresses) < _FEW:
            found = await asyncio.gather(
                *(self._lists.get(name, records.email_row(address)) for address in addresses)
            )
            rows = [entity for entity in found if entity is not None]
        else:
            within = KeyRange.between(
                records.email_row(addresses[0]), records.email_row(addresses[-1])
            )
            rows = await self._all_within(name, within)
        prefix = len(records.EMAIL_PREFIX)
        recipients = {}
        for entity in rows:
            properties = entity.properties
            if properties.get("Verified") is True and not properties.get("Blocked"):
                address = Address(entity.row[prefix:])
                guid = SubscriberGuid(str(properties["SubscriberGUID"]))
                recipients[address] = Recipient(address, guid)
        return recipients

    async def _all_within(self, name: ListName, within: KeyRange) -> list[Entity]:
        rows: list[Entity] = []
        after: str | None = None
        while True:
            result = await self._lists.query(KeyRange.only(name), within, after=after)
            rows += result.entities
            after = result.next
            if after is None:
                return rows

    # -- settling ----------------------------------------------------------------------------

    async def settle(
        self, claim: Claim, loaded: LoadedPage, verdicts: Mapping[Address, Verdict], parked: bool
    ) -> Counts:
        """Record the verdicts and end the claim. `PageLost`."""
        now = datetime.now(UTC)
        partition = claim.item.partition
        archive: list[Insert] = []
        changes: list[Operation] = [Delete(partition, row) for row in loaded.leftover]
        for address, verdict in verdicts.items():
            if verdict.outcome is EmailOutcome.PENDING:
                changes.append(Merge(Entity(partition, address, _pending_properties(verdict))))
            else:
                properties = _archived_properties(verdict, loaded.guids[address], now)
                archive.append(Insert(Entity(partition, address, properties)))
                changes.append(Delete(partition, address))
        counts = _with(loaded.counts, verdicts)
        if archive:
            try:
                await self._archive.apply(archive)
            except AlreadyExists:
                counts = await self._archive_beside(partition, archive, counts.planned)
        if changes:
            await self._remove(changes)
        await self._end(claim, loaded.page, counts, parked)
        return counts

    async def _archive_beside(
        self, partition: str, archive: Sequence[Insert], planned: int
    ) -> Counts:
        """Somebody who took the page over from us, or from whom we took it, has archived the same.

        Both may have sent it: the record that is there is kept, with the mark that says so.
        """
        there = {e.row for e in (await self._archive.query(KeyRange.only(partition))).entities}
        await self._archive.apply(
            [
                Merge(Entity(partition, insert.entity.row, {"WasInDoubt": True}))
                if insert.entity.row in there
                else insert
                for insert in archive
            ]
        )
        return _recount(planned, (await self._archive.query(KeyRange.only(partition))).entities)

    async def _remove(self, changes: list[Operation]) -> None:
        try:
            await self._emails.apply(changes)
        except NotFound as exc:
            # Who took the page over from us has been here.
            raise PageLost from exc

    async def _end(self, claim: Claim, page: Entity, counts: Counts, parked: bool) -> None:
        partition, row = self._claim_key(claim.item)
        properties = {**page.properties, **records.counts_properties(counts)}
        properties["Parked"] = parked and counts.pending > 0
        properties.pop("Members", None)  # needed only until a sender has been here
        try:
            await self._pages.apply(
                [
                    Replace(Entity(partition, page.row, properties)),
                    Delete(partition, row, claim.etag),
                ]
            )
        except Conflict as exc:
            raise PageLost from exc

    def _claim_entity(
        self, item: WorkItem, item_id: str, lease: float, owner: str | None = None
    ) -> Entity:
        partition, row = self._claim_key(item)
        until = datetime.now(UTC) + timedelta(seconds=lease)
        return Entity(
            partition, row, {"Owner": owner or self._owner, "ItemId": item_id, "Until": until}
        )

    @staticmethod
    def _claim_key(item: WorkItem) -> tuple[str, str]:
        return records.pages_partition(item.day, item.ref), records.claim_row(item.page)


def _attempt_from(email: Entity) -> Attempt:
    if len(email.properties) == 1:
        return _FIRST_ATTEMPT  # the common case: nothing but its GUID
    return Attempt(
        tries=records.read_optional(email, "Tries", int) or 0,
        first_tried_at=records.read_optional(email, "FirstTriedAt", datetime),
        was_in_doubt=records.read_optional(email, "WasInDoubt", bool) or False,
    )


_FIRST_ATTEMPT = Attempt()


def _pending_properties(verdict: Verdict) -> dict[str, Value]:
    attempt = verdict.attempt
    properties: dict[str, Value] = {"Tries": attempt.tries, "Reply": verdict.reply[:1000]}
    if attempt.first_tried_at is not None:
        properties["FirstTriedAt"] = attempt.first_tried_at
    if attempt.was_in_doubt:
        properties["WasInDoubt"] = True
    if verdict.next_try_at is not None:
        properties["NextTryAt"] = verdict.next_try_at
    return properties


def _archived_properties(verdict: Verdict, guid: str, now: datetime) -> dict[str, Value]:
    properties: dict[str, Value] = {
        "SubscriberGUID": guid,
        "Outcome": verdict.outcome.value,
        "EmailSent": verdict.outcome is EmailOutcome.ACCEPTED,
        "Reply": verdict.reply[:1000],
        "Tries": verdict.attempt.tries,
        "At": now,
    }
    if verdict.attempt.was_in_doubt:
        properties["WasInDoubt"] = True
    return properties


def _with(counts: Counts, verdicts: Mapping[Address, Verdict]) -> Counts:
    tally = dict.fromkeys(EmailOutcome, 0)
    duplicates = 0
    for verdict in verdicts.values():
        tally[verdict.outcome] += 1
        if verdict.outcome is EmailOutcome.ACCEPTED and verdict.attempt.was_in_doubt:
            duplicates += 1
    return counts + _tallied(tally, duplicates)


def _recount(planned: int, archived: Sequence[Entity]) -> Counts:
    tally = dict.fromkeys(EmailOutcome, 0)
    duplicates = 0
    for entity in archived:
        outcome = EmailOutcome(records.read(entity, "Outcome", str))
        tally[outcome] += 1
        if outcome is EmailOutcome.ACCEPTED and entity.properties.get("WasInDoubt") is True:
            duplicates += 1
    return Counts(planned=planned) + _tallied(tally, duplicates)


def _tallied(tally: Mapping[EmailOutcome, int], duplicates: int) -> Counts:
    return Counts(
        accepted=tally[EmailOutcome.ACCEPTED],
        refused=tally[EmailOutcome.REFUSED],
        suppressed=tally[EmailOutcome.SUPPRESSED],
        in_doubt=tally[EmailOutcome.IN_DOUBT],
        possible_duplicates=duplicates,
    )
