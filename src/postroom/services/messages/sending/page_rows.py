"""Pages in the store: one row of `messagepage` holds a page with its emails, its part of the sum,
and its claim.

A `PageSummary` has only the counts and what a page waits for: the emails, which are most of the
row, are not read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import Message
from postroom.domain.messages.page_emails import ERASED, PageEmails
from postroom.domain.messages.pages import WorkItem
from postroom.domain.messages.refs import MessageRef
from postroom.domain.messages.waves.waves import PageRun
from postroom.services import entities
from postroom.services.entities import read, read_optional
from postroom.services.messages.sending.holds import WaitingReasons, waiting_of, with_waiting
from postroom.storage import (
    Conflict,
    Entity,
    Filter,
    KeyRange,
    Merge,
    Store,
    StoreDamaged,
    Value,
)

OWNER: Final = "Owner"
"""The sender that has claimed a page, or empty."""
UNTIL: Final = "ClaimedUntil"
DOUBTFUL: Final = "Doubtful"
DONE: Final = "Done"
"""Whether no email of a page is pending."""
PARKED: Final = "Parked"

_PIECE_BYTES: Final = 60_000  # of what a property can hold
_PIECES: Final = frozenset({"Emails", *(f"Emails{number}" for number in range(2, 20))})
_AT_ONCE: Final = 1000
_MOST_MARKED: Final = 100  # what one batch of the store holds
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PageClaim(msgspec.Struct, frozen=True):
    """The sender that works on a page, and until when no other one may.

    `doubtful`: it was taken over from a sender that may have sent emails without a record.
    """

    owner: str
    until: datetime
    doubtful: bool = False

    @property
    def properties(self) -> dict[str, Value]:
        return {OWNER: self.owner, UNTIL: self.until, DOUBTFUL: self.doubtful}


FREE: Final = PageClaim("", _NEVER)
FAN_OUT: Final = "fan-out"
"""The owner of pages that wait a moment before a sender may take them; see `LostHistory`."""


class Page(msgspec.Struct, frozen=True):
    """A page as it is stored. `parked`: it waits without a work item while its message pauses.
    `agreed` of its accepted emails have personal links."""

    day: str
    ref: MessageRef
    number: int
    emails: PageEmails
    waiting: WaitingReasons = WaitingReasons()
    parked: bool = False
    claim: PageClaim = FREE
    etag: str = ""
    agreed: int = 0

    @property
    def counts(self) -> Counts:
        return self.emails.counts(self.waiting.deferred)

    def item(self, *, restarted: bool = False) -> WorkItem:
        return WorkItem(self.day, self.ref, self.number, restarted)


class PageSummary(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """A page without its emails."""

    planned: int
    accepted: int = 0
    refused: int = 0
    suppressed: int = 0
    in_doubt: int = 0
    possible_duplicates: int = 0
    deferred: int = 0
    waits_until: datetime | None = None
    waits_because: str = ""
    held: bool = False
    held_by: str = ""
    parked: bool = False
    owner: str = ""
    first_address: str = ""
    last_address: str = ""
    agreed: int = 0

    @property
    def counts(self) -> Counts:
        return Counts(
            self.planned,
            self.accepted,
            self.refused,
            self.suppressed,
            self.in_doubt,
            self.possible_duplicates,
            self.deferred,
        )

    @property
    def waiting(self) -> WaitingReasons:
        keys = tuple(self.held_by.split())
        return WaitingReasons(self.deferred, self.waits_until, self.waits_because, keys, self.held)


def page_entity(page: Page) -> Entity:
    """Return the row of a page."""
    packed = page.emails.packed()
    counts = page.counts
    pieces = range(0, len(packed), _PIECE_BYTES)
    properties: dict[str, Value] = {
        **{
            _piece(number): packed[start : start + _PIECE_BYTES]
            for number, start in enumerate(pieces)
        },
        **entities.counts_properties(counts),
        **page.claim.properties,
        PARKED: page.parked and counts.pending > 0,
        "FirstAddress": _first_known(page.emails.addresses),
        "LastAddress": _first_known(reversed(page.emails.addresses)),
    }
    if page.agreed:
        properties["Agreed"] = page.agreed
    with_waiting(properties, page.waiting)
    return Entity(entities.pages_partition(page.day, page.ref), page_row(page.number), properties)


def page_from(entity: Entity) -> Page:
    """Return the page of a row."""
    day, _, ref = entity.partition.partition(",")
    pieces: list[bytes] = []
    for number in count():
        piece = entity.properties.get(_piece(number))
        if not isinstance(piece, bytes):
            break
        pieces.append(piece)
    try:
        emails = PageEmails.unpacked(b"".join(pieces))
    except msgspec.DecodeError as exc:
        raise StoreDamaged(f"({entity.partition!r}, {entity.row!r}): {exc}") from exc
    return Page(
        day=day,
        ref=MessageRef(ref),
        number=int(entity.row),
        emails=emails,
        waiting=waiting_of(entity),
        parked=read_optional(entity, PARKED, bool) or False,
        claim=PageClaim(
            read(entity, OWNER, str),
            read(entity, UNTIL, datetime),
            read_optional(entity, DOUBTFUL, bool) or False,
        ),
        etag=entity.etag,
        agreed=read_optional(entity, "Agreed", int) or 0,
    )


def page_as_rows(entity: Entity) -> list[Entity]:
    """Return the row of a page as people read it: without the packed value, and then a row for each
    email. `StoreDamaged` if it is not a page."""
    page = page_from(entity)
    rows = [
        Entity(
            entity.partition,
            entity.row,
            {name: value for name, value in entity.properties.items() if name not in _PIECES},
            entity.etag,
        )
    ]
    values_of = page.emails.values()
    for place, (address, state) in enumerate(page.emails):
        values = {
            "EmailAddress": address,
            "SubscriberGUID": page.emails.guid(place),
            "Outcome": state.outcome.value,
            "Tries": state.tries,
            "Doubts": state.unanswered,
            "Reply": state.reply,
            "At": state.at,
            "NextTryAt": state.next_try_at,
            "FirstTriedAt": state.first_tried_at,
            "Values": ", ".join(filter(None, values_of[place] if values_of else ())),
            "ListNumber": page.emails.list_number(place),
        }
        known = {name: value for name, value in values.items() if value not in (None, "", 0)}
        rows.append(Entity(entity.partition, f"{entity.row},{place:03}", known))
    return rows


def _first_known(addresses: Iterable[Address]) -> str:
    """Return the key of the first address that was not erased; empty if all were."""
    return next((address_key(each) for each in addresses if each != ERASED), "")


def page_row(number: int) -> str:
    return f"{number:06}"


def _piece(number: int) -> str:
    """Return the name of a property: most pages need only the first."""
    return f"Emails{number + 1}" if number else "Emails"


class PageRows:
    """Reads the pages of messages. Only the owner of a page's claim writes it."""

    def __init__(self, store: Store) -> None:
        self.table = store.table(entities.PAGES)

    async def get(self, day: str, ref: MessageRef, number: int) -> Page | None:
        found = await self.table.get(entities.pages_partition(day, ref), page_row(number))
        return None if found is None else page_from(found)

    async def summaries(
        self, message: Message, first: int = 0, end: int | None = None
    ) -> AsyncIterator[tuple[int, PageSummary]]:
        """Yield the pages of a message by their numbers, in order, without their emails: from one
        on, up to another one, if `end` is given."""
        partition = entities.pages_partition(message.day, message.ref)
        start, stop = page_row(first), None if end is None else page_row(end)
        while True:
            found = await self.table.read(
                PageSummary, partition, KeyRange(start, stop), limit=_AT_ONCE
            )
            for row, summary in found.items():
                yield int(row), summary
            if len(found) < _AT_ONCE:
                return
            start = entities.key_after(next(reversed(found)))

    async def whole(self, message: Message) -> AsyncIterator[Page]:
        """Yield the pages of a message with their emails."""
        partition = entities.pages_partition(message.day, message.ref)
        async for entity in self.table.scan(KeyRange.only(partition)):
            yield page_from(entity)

    async def some(self, message: Message, first: int, limit: int) -> list[Page]:
        """Return up to `limit` pages with their emails, from one on."""
        partition = KeyRange.only(entities.pages_partition(message.day, message.ref))
        within = KeyRange.between(page_row(first), page_row(first + limit - 1))
        return [page_from(each) for each in (await self.table.query(partition, within)).entities]

    async def marked(
        self, message: Message, where: Filter, first: int = 0, limit: int = _MOST_MARKED
    ) -> list[Entity]:
        """Return the rows of some pages, from one on, that match `where`."""
        partition = KeyRange.only(entities.pages_partition(message.day, message.ref))
        start = KeyRange(start=page_row(first))
        return (await self.table.query(partition, start, where=where, limit=limit)).entities

    async def unmark(self, rows: Sequence[Entity], mark: str) -> None:
        """Remove a mark from pages, except from those that someone has changed since they were
        read: a sender may have set it again."""
        changes = [
            Merge(Entity(each.partition, each.row, {mark: False}), each.etag) for each in rows
        ]
        while changes:
            try:
                await self.table.apply(changes)
            except Conflict as exc:
                del changes[exc.operation]
            else:
                return

    async def holding(self, message: Message, key: AddressKey) -> Page | None:
        """Return the page on which the email to an address is, if there is one."""
        for run in message.page_runs:
            number = await self.first_until(message, key, run)
            page = await self.get(message.day, message.ref, number)
            if page is not None and page.emails.places_of(key):
                return page
        return None

    async def first_until(self, message: Message, key: str, run: PageRun) -> int:
        """Return the number of the first page of a run that does not end before this key, by
        halving; the number after the last page if all do."""
        low, high = run.first, await self._count(message) if run.end is None else run.end
        while low < high:
            middle = (low + high) // 2
            number, last = await self.last_address(message, middle, low)
            if last >= key:
                high = number
            else:
                low = middle + 1
        return low

    async def last_address(
        self, message: Message, number: int, first: int = 0
    ) -> tuple[int, AddressKey]:
        """Return the last address up to a page, and the number of its page: not this one if all of
        its addresses were erased. Empty if that holds for all pages from `first` on."""
        while True:
            summary = await self._summary(message, number)
            last = "" if summary is None else summary.last_address
            if last or number <= first:
                return number, AddressKey(Address(last))
            number -= 1

    async def _summary(self, message: Message, number: int) -> PageSummary | None:
        row = page_row(number)
        partition = entities.pages_partition(message.day, message.ref)
        found = await self.table.read(PageSummary, partition, KeyRange.only(row))
        return found.get(row)

    async def _count(self, message: Message) -> int:
        """Return the number of pages: the queued ones, and perhaps a few more, without gaps."""
        number = message.queued_pages
        async for last, _ in self.summaries(message, message.queued_pages):
            number = last + 1
        return number
