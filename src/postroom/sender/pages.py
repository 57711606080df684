"""A page in hand: who is on it, what is known of them, and how its outcomes are recorded.

The order of the writes when a page is settled:

1. outcomes into `messagearchive`;
2. emails that are done out of `message`, those to be tried again marked, in one batch;
3. the page's counts, and in the same batch the end of our claim;
4. the work item, last.

All four are handed to the store in one call (`Store.write_in_order`); some engines make one
transaction of it. A crash between them leaves the claim and the work item, so the page is taken
again, and what the archive has is not sent again. The claim's ETag is the fence: who has lost a
page cannot settle it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TypeAlias, cast

import msgspec

from postroom.domain.addresses import Address
from postroom.domain.emails import Counts
from postroom.domain.lists import ListName
from postroom.domain.pages import WorkItem
from postroom.mail.mailing import Recipient
from postroom.sender.policy import Attempt, Verdict
from postroom.sender.settling import recounted, settlement
from postroom.services import records
from postroom.storage import (
    AlreadyExists,
    Batch,
    Conflict,
    Delete,
    Entity,
    Finish,
    Insert,
    InsertMany,
    KeyRange,
    Merge,
    Operation,
    QueueMessage,
    Replace,
    Step,
    Store,
    Value,
)

# When subscribers are read again: with fewer than this, point reads are cheaper than the range
# between first and last, which for the last two deferred emails of a page may be half the list.
_FEW = 25
_AT_ONCE = 1000
_SPARSE = 4  # if a range holds so many times as many rows as are wanted, point reads are, too
_SOON = timedelta(seconds=1)
_NO_ATTEMPT = Attempt()

Emails: TypeAlias = Mapping[Address, records.EmailRow]
"""The emails of a page that are not done. In the table their rows are the addresses."""

ADMINISTRATOR = "administrator-"
"""How owners begin who decide on emails in doubt: they hand nothing over."""


class PageTaken(Exception):
    """Another sender has the page in hand, until `free_at` at most."""

    def __init__(self, free_at: datetime) -> None:
        super().__init__(f"until {free_at}")
        self.free_at = free_at


class PageLost(Exception):
    """Somebody else has taken the page over; nothing of ours counts any more."""


class Claim(msgspec.Struct, frozen=True):
    """Our right to a page. `taken_over`: from somebody who did not finish. `doubtful`: who may have
    handed emails over, and left no word of it."""

    item: WorkItem
    etag: str
    taken_over: bool
    doubtful: bool = False


class FoundClaim(msgspec.Struct, frozen=True):
    """Who has a page in hand. `doubtful`: it was taken over from a sender that nothing is known of,
    so whatever has no record is in doubt."""

    owner: str
    etag: str
    doubtful: bool


class LoadedPage(msgspec.Struct, frozen=True):
    """The emails of a page that are not done, and the counts of those that are."""

    page: Entity
    emails: Emails
    counts: Counts
    leftover: Sequence[Address] = ()
    """Emails that the archive has already: only to be removed."""

    @property
    def is_whole(self) -> bool:
        """Whether the emails that were found are those that are pending."""
        return len(self.emails) == self.counts.pending

    def before(self, address: Address) -> Attempt:
        """What is behind an email."""
        email = self.emails[address]
        if not email.Tries and not email.WasInDoubt:
            return _NO_ATTEMPT  # the common case
        return Attempt(email.Tries, email.FirstTriedAt, email.WasInDoubt)


class TakenPage(msgspec.Struct, frozen=True):
    """A page that was taken together with others. `recipients` are those of all of them."""

    claim: Claim
    page: LoadedPage | None
    recipients: Mapping[Address, Recipient]


class PageStore:
    def __init__(
        self, store: Store, owner: str, is_neighbour: Callable[[str], bool] = lambda _: False
    ) -> None:
        """`is_neighbour` tells of an owner whether its journal is on this machine."""
        self._store = store
        self._is_neighbour = is_neighbour
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
        other = _found_claim(found)
        grace = timedelta(seconds=lease)
        if until + grace > datetime.now(UTC) and self._is_neighbour(other.owner):
            # On a busy machine it may be slow, or dead and soon settled from its journal: whoever
            # takes it over without that would have to doubt the whole page.
            raise PageTaken(datetime.now(UTC) + _SOON)
        doubtful = other.doubtful or not other.owner.startswith(ADMINISTRATOR)
        return await self.take_over(item, item_id, lease, other.etag, doubtful=doubtful)

    async def take_together(
        self, items: Mapping[WorkItem, str], name: ListName, lease: float
    ) -> list[TakenPage]:
        """Claim and read neighbouring pages of a message in a few steps for all of them.

        Answers nothing, and has done nothing, if they are no neighbours, if somebody may have been
        at work on one of them, or if one is not free: then each is to be taken by itself.
        """
        numbers = [item.page for item in items]
        neighbours = max(numbers) - min(numbers) + 1 == len(items)
        if not neighbours or any(item.restarted for item in items):
            return []
        entities = [self._claim_entity(item, item_id, lease) for item, item_id in items.items()]
        try:
            etags = await self._pages.apply([Insert(entity) for entity in entities])
        except AlreadyExists:
            return []
        found, read = await asyncio.gather(
            self._pages.query(
                KeyRange.only(entities[0].partition),
                KeyRange.between(records.page_row(min(numbers)), records.page_row(max(numbers))),
            ),
            self._emails.read_partitions(records.EmailRow, [item.partition for item in items]),
        )
        emails = cast(dict[str, Emails], read)
        rows = {entity.row: entity for entity in found.entities}
        recipients = await self.who_may_receive(name, [*chain.from_iterable(emails.values())])
        taken = []
        for item, etag in zip(items, etags, strict=True):
            row = rows.get(records.page_row(item.page))
            claim = Claim(item, etag, taken_over=False)
            page = None if row is None else _loaded(row, emails[item.partition])
            if page is not None and not page.is_whole:
                page = await self.load(claim)
            taken.append(TakenPage(claim, page, recipients))
        return taken

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
        entity = self._claim_entity(item, item_id, lease, owner, doubtful=doubtful)
        try:
            taken = await self._pages.replace(entity, etag)
        except Conflict as exc:
            raise PageLost from exc
        return Claim(item, taken, taken_over=True, doubtful=doubtful)

    async def find_claim(self, item: WorkItem) -> FoundClaim | None:
        """Who has a page in hand."""
        found = await self._pages.get(*self._claim_key(item))
        return None if found is None else _found_claim(found)

    async def renew(self, claim: Claim, item_id: str, lease: float) -> Claim:
        try:
            etag = await self._pages.replace(
                self._claim_entity(claim.item, item_id, lease, doubtful=claim.doubtful),
                claim.etag,
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
        page = await self._page(item)
        if page is None:
            return None
        emails = await self._read(item)
        loaded = _loaded(page, emails)
        # Fewer or more emails than are pending: somebody who had lost the page came late.
        if not claim.taken_over and not item.restarted and loaded.is_whole:
            return loaded
        return await self._without_archived(item, page, emails)

    async def load_again(self, claim: Claim) -> LoadedPage:
        """What is left of a page that was settled, nobody knows how far. `PageLost` if it is gone,
        and with it the claim."""
        page = await self._page(claim.item)
        if page is None:
            raise PageLost
        return await self._without_archived(claim.item, page, await self._read(claim.item))

    async def _page(self, item: WorkItem) -> Entity | None:
        return await self._pages.get(
            records.pages_partition(item.day, item.ref), records.page_row(item.page)
        )

    async def _read(self, item: WorkItem) -> Emails:
        return cast(Emails, await self._emails.read(records.EmailRow, item.partition))

    async def _without_archived(self, item: WorkItem, page: Entity, emails: Emails) -> LoadedPage:
        """The page, by what the archive has of it."""
        done = (await self._archive.query(KeyRange.only(item.partition))).entities
        archived = {entity.row for entity in done}
        left = {address: email for address, email in emails.items() if address not in archived}
        loaded = _loaded(page, left)
        return msgspec.structs.replace(
            loaded,
            counts=recounted(loaded.counts.planned, done),
            leftover=[address for address in emails if address in archived],
        )

    async def who_may_receive(
        self, name: ListName, addresses: Sequence[Address]
    ) -> dict[Address, Recipient]:
        """Those who are still verified and not blocked, with the GUIDs that they have now."""
        addresses = sorted(addresses)
        rows = [records.EMAIL_PREFIX + address for address in addresses]
        found = await self._subscribers(name, rows)
        recipients = {}
        for address, row in zip(addresses, rows, strict=True):
            subscriber = found.get(row)
            if subscriber is not None and subscriber.may_receive:
                recipients[address] = Recipient(address, subscriber.SubscriberGUID)
        return recipients

    async def _subscribers(
        self, name: ListName, rows: Sequence[str]
    ) -> dict[str, records.SubscriberRow]:
        """These rows of a list, in order, and some of those that lie between.

        Neighbours come with one query. Few rows, or rows with many others between them, are asked
        for one by one.
        """
        found: dict[str, records.SubscriberRow] = {}
        while len(rows) >= _FEW:
            within = KeyRange.between(rows[0], rows[-1])
            more = await self._lists.read(records.SubscriberRow, name, within, limit=_AT_ONCE)
            found |= more
            if len(more) < _AT_ONCE:
                return found
            passed = bisect_right(rows, next(reversed(more)))
            rows = rows[passed:]
            if passed * _SPARSE < len(more):
                break
        single = [self._lists.read(records.SubscriberRow, name, KeyRange.only(row)) for row in rows]
        for one in await asyncio.gather(*single):
            found |= one
        return found

    # -- settling ----------------------------------------------------------------------------

    async def settle(
        self,
        claim: Claim,
        loaded: LoadedPage,
        verdicts: Mapping[Address, Verdict],
        *,
        parked: bool,
        item: QueueMessage | None = None,
        patience: float = 0.0,
    ) -> Counts:
        """Record the verdicts and end the claim, and the work item, too, if nothing is left to do
        for it: if no email is pending, or the page is parked. `PageLost`, `LeaseLost`."""
        partition = claim.item.partition
        planned = settlement(
            partition, verdicts, loaded.emails, loaded.leftover, loaded.counts, datetime.now(UTC)
        )

        def rest(counts: Counts) -> list[Step]:
            steps: list[Step] = []
            if planned.changes:
                steps.append(Batch(records.MESSAGES, planned.changes))
            steps.append(Batch(records.PAGES, self._ended(claim, loaded.page, counts, parked)))
            if item is not None and (counts.pending == 0 or parked):
                steps.append(Finish(item))
            return steps

        counts = planned.counts
        archiving = [Batch(records.ARCHIVE, planned.archive)] if planned.archive else []
        try:
            try:
                await self._store.write_in_order([*archiving, *rest(counts)], patience=patience)
            except AlreadyExists:
                counts = await self._archive_beside(partition, planned.archive, counts.planned)
                await self._store.write_in_order(rest(counts))
        except Conflict as exc:
            # Who took the page over from us has been here.
            raise PageLost from exc
        return counts

    async def _archive_beside(
        self, partition: str, archive: Sequence[InsertMany], planned: int
    ) -> Counts:
        """Somebody who took the page over from us, or from whom we took it, has archived the same.

        Both may have sent it: the record that is there is kept, with the mark that says so.
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

    def _ended(
        self, claim: Claim, page: Entity, counts: Counts, parked: bool
    ) -> Sequence[Operation]:
        partition, row = self._claim_key(claim.item)
        properties = {**page.properties, **records.counts_properties(counts)}
        properties["Parked"] = parked and counts.pending > 0
        properties.pop("Members", None)  # needed only until a sender has been here
        return [
            Replace(Entity(partition, page.row, properties)),
            Delete(partition, row, claim.etag),
        ]

    def _claim_entity(
        self,
        item: WorkItem,
        item_id: str,
        lease: float,
        owner: str | None = None,
        *,
        doubtful: bool = False,
    ) -> Entity:
        partition, row = self._claim_key(item)
        until = datetime.now(UTC) + timedelta(seconds=lease)
        values: dict[str, Value] = {
            "Owner": owner or self._owner,
            "ItemId": item_id,
            "Until": until,
        }
        if doubtful:
            values["Doubtful"] = True
        return Entity(partition, row, values)

    @staticmethod
    def _claim_key(item: WorkItem) -> tuple[str, str]:
        return records.pages_partition(item.day, item.ref), records.claim_row(item.page)


def _found_claim(entity: Entity) -> FoundClaim:
    doubtful = records.read_optional(entity, "Doubtful", bool) or False
    return FoundClaim(records.read(entity, "Owner", str), entity.etag, doubtful)


def _loaded(page: Entity, emails: Emails) -> LoadedPage:
    return LoadedPage(page, emails, records.counts_from(page))
