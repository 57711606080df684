"""The rows of subscribers: two in the partition of the list, `email:KEY` and `guid:GUID`.

They are written and removed in one batch, so that there is never one without the other.

The key is the address without differences of case, so all spellings of an address are one
subscriber; mail goes to the spelling that was given first.

Every change is written together with its entry in the consent ledger (`consent/ledger_rows.py`).
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.consent import (
    BY_SUPPRESSION,
    BY_TEAM,
    ConsentAction,
    ConsentSource,
    LedgerHead,
    act_between,
    parse_head,
)
from postroom.domain.audience.former_addresses import moved_to
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid, new_guid
from postroom.domain.errors import Exists, NoSuch, Overtaken
from postroom.services import entities
from postroom.services.audience.consent.ledger_rows import LedgerRows, entry_row, first_rows
from postroom.services.audience.consent.tracking_consent import (
    ConsentChanges,
    about_tracking,
    with_consent_date,
)
from postroom.services.audience.former_rows import FormerRows, formerly_rows
from postroom.services.audience.growth.list_growth import ListCounts, figures_of
from postroom.services.audience.lists import ListService
from postroom.services.audience.signup.unsubscribes import Unsubscribes
from postroom.services.audience.suppression.suppression_rows import SuppressionRows, blocked_by
from postroom.services.concurrency import retry_on_conflict
from postroom.storage import (
    AlreadyExists,
    Batch,
    Conflict,
    Delete,
    Entity,
    Insert,
    NotFound,
    Operation,
    Replace,
    StaleETag,
    Step,
    Store,
    Value,
)


class SubscriberRows:
    """Reads and writes single subscribers, and keeps the counts of their lists up to date."""

    def __init__(
        self,
        store: Store,
        lists: ListService,
        counts: ListCounts,
        unsubscribes: Unsubscribes,
        suppressions: SuppressionRows,
    ) -> None:
        self.table = store.table(entities.LISTS)
        self.ledger = LedgerRows(self.table)
        self.former = FormerRows(self.table)
        self._store = store
        self._lists = lists
        self._counts = counts
        self._unsubscribes = unsubscribes
        self._suppressions = suppressions
        self._consents = ConsentChanges(store)

    async def find(self, name: ListName, address: Address) -> Subscriber | None:
        found = await self.table.get(name, entities.email_row(address))
        return None if found is None else entities.subscriber_from(found)

    async def owner(
        self, name: ListName, guid: SubscriberGuid
    ) -> tuple[Subscriber | None, LedgerHead | None]:
        """Return the owner of a link, with two point reads, and the last entry of the ledger about
        them if the link's look-up row names it."""
        found = await self.table.get(name, entities.guid_row(guid))
        if found is None:
            return None, None
        subscriber = await self.find(name, Address(entities.read(found, "EmailAddress", str)))
        if subscriber is None:
            return None, None
        if not any(hmac.compare_digest(each, guid) for each in subscriber.guids):
            return None, None
        head = entities.read_optional(found, entities.LEDGER, str)
        return subscriber, parse_head(head) if head else None

    async def with_suppression(self, new: Subscriber) -> Subscriber:
        """Return a subscriber as suppressions of their address leave them."""
        return blocked_by(new, await self._suppressions.of_address(new.address), clock.now())

    async def suppressed(self) -> AsyncIterator[Subscriber]:
        """Yield the subscribers of all lists who are blocked by a suppression. Reads every row."""
        async for entity in self.table.scan(where=entities.SUPPRESSED_ROWS):
            yield entities.subscriber_from(entity)

    async def block_suppressed(self, list_name: ListName, address: Address) -> Subscriber | None:
        """Block or unblock a subscriber as suppressions of the address say now; None if they are
        not on the list, or nothing changed. Can be repeated."""

        async def attempt() -> Subscriber | None:
            # The subscriber first: a suppression that is written later is also applied later.
            old = await self.find(list_name, address)
            new = None if old is None else await self.with_suppression(old)
            if old is None or new is None or new == old:
                return None
            return await self.save(old, new, old.etag, BY_SUPPRESSION)

        return await retry_on_conflict(attempt, "subscriber", address)

    async def sign_up(
        self, new: Subscriber, known: Subscriber | None, source: ConsentSource
    ) -> Subscriber:
        """Return the known subscriber, the new one, or one that was added at the same moment. The
        new attributes of a known one wait for the confirmation."""
        name, address = new.list_name, new.address
        if known is not None and known.guid == new.guid:
            # This sign-up has written them already, and then met a limit.
            await self._counts.add(name, figures_of(known))
            return known
        if known is not None:
            return await self._with_pending(known, new, source)
        try:
            etags = await self.table.apply(first_rows(new, ConsentAction.SIGNED_UP, source))
        except AlreadyExists as exc:
            found = await self.find(name, address)
            if found is None:
                raise Overtaken("subscriber", address) from exc
            return await self._with_pending(found, new, source)
        await self._counts.add(name, figures_of(new))
        return msgspec.structs.replace(new, etag=etags[0])

    async def _with_pending(
        self, known: Subscriber, again: Subscriber, source: ConsentSource
    ) -> Subscriber:
        """Remember what someone who has not confirmed gave at a later sign-up."""
        attributes = again.attributes
        current: Subscriber | None = known

        async def attempt() -> Subscriber:
            nonlocal current
            found, current = current or await self.find(known.list_name, known.address), None
            if found is None or found.verified:
                return found or known
            new = found
            is_other = again.consent or again.tracking != found.tracking
            if is_other or _after(found, attributes) != _after(found):
                new = msgspec.structs.replace(
                    found,
                    pending_attributes=attributes,
                    consent=again.consent or found.consent,
                    tracking=again.tracking,
                )
            return await self.save(found, new, found.etag, source, ConsentAction.SIGNED_UP)

        return await retry_on_conflict(attempt, "subscriber", known.address)

    async def insert(
        self, new: Subscriber, act: ConsentAction, source: ConsentSource = BY_TEAM
    ) -> Subscriber:
        """Insert both rows of a subscriber, blocked if the address is suppressed. `AlreadyExists`;
        `NoSuch` if the list is deleted."""
        new = await self.with_suppression(new)
        before: LedgerHead | None = None
        if act is ConsentAction.MOVED_IN:  # with the same GUID, perhaps not for the first time
            entries = await self.ledger.entries(new.list_name, new.guid)
            before = entries[-1].head if entries else None
        etag = (await self.table.apply(first_rows(new, act, source, before)))[0]
        await self.keep(new)
        await self._counts.add(new.list_name, figures_of(new))
        return msgspec.structs.replace(new, etag=etag)

    async def keep(self, new: Subscriber) -> None:
        """Check the list again. `NoSuch` if it is being deleted: then our rows are removed, too.

        The deletion may have missed them, and they would reappear with a new list of that name.
        """
        try:
            await self._lists.check_exists(new.list_name)
        except NoSuch:
            await self._remove_traces(new)
            raise

    async def _remove_traces(self, new: Subscriber) -> None:
        name = new.list_name
        entries = await self.ledger.entries(name, new.guid)
        traces = [Delete(name, entry_row(each.guid, each.number)) for each in entries]
        with contextlib.suppress(NotFound):  # the deletion did not miss them
            await self.table.apply([*entities.subscriber_removal(new), *traces])
            await self._counts.add(name, -figures_of(new))

    async def save(
        self,
        old: Subscriber,
        new: Subscriber,
        etag: str,
        source: ConsentSource = BY_TEAM,
        act: ConsentAction | None = None,
        head: LedgerHead | None = None,
    ) -> Subscriber:
        """Replace a subscriber, with an entry in the ledger unless only the note was changed.
        `Overtaken`. The entry names what was changed, unless `act` is given; it follows `head` if
        that is known."""
        await self._consents.note(old, new)
        new = with_consent_date(old, new)
        change = act_between(old, new)
        if act is not None:
            change = act, [] if change is None else about_tracking(change)
        operations: list[Operation] = [Replace(entities.subscriber_entity(new), etag)]
        if change is not None:
            operations += await self.ledger.added(new, change[0], source, change[1], head)
        try:
            saved = (await self.table.apply(operations))[0]
        except Conflict as exc:
            self.ledger.note_conflict(new.guid)
            raise Overtaken("subscriber", new.address) from exc
        await self._counts.add(new.list_name, figures_of(new) - figures_of(old))
        return msgspec.structs.replace(new, etag=saved)

    async def note_engagement(
        self, subscriber: Subscriber, opened_at: datetime | None, clicked_at: datetime | None
    ) -> None:
        """Note the last day on which a subscriber opened or clicked anything, if it is a new one.
        Can be repeated."""
        current: Subscriber | None = subscriber

        async def attempt() -> None:
            nonlocal current
            found, current = current, None
            found = found or await self.find(subscriber.list_name, subscriber.address)
            if found is None or found.guid != subscriber.guid or not found.tracking:
                return
            days = (
                (entities.LAST_OPENED, opened_at, found.opened_at),
                (entities.LAST_CLICKED, clicked_at, found.clicked_at),
            )
            changes: dict[str, Value] = {
                name: at
                for name, at, known in days
                if at is not None and (known is None or at.date() > known.date())
            }
            if changes:
                row = entities.email_row(found.address)
                await self.table.merge(Entity(found.list_name, row, changes), found.etag)

        await retry_on_conflict(attempt, "subscriber", subscriber.address)

    async def change_address(
        self, old: Subscriber, address: Address, source: ConsentSource = BY_TEAM
    ) -> Subscriber:
        """Replace the rows of `old` by those of `new`, blocked if the new address is suppressed;
        the old one becomes a former one. `Exists`, `Overtaken`, `NotNow`."""
        new = await self.with_suppression(moved_to(old, address))
        entity = entities.subscriber_entity(new)
        changes: list[Operation] = [Replace(each) for each in entities.lookup_entities(new)[1:]]
        changes += formerly_rows(new)
        changes += await self.ledger.added(new, ConsentAction.ADDRESS_CHANGED, source)
        if new.key == old.key:
            changes.insert(0, Replace(entity, old.etag))
        else:
            row = entities.email_row(old.address)
            changes[:0] = [Insert(entity), Delete(old.list_name, row, old.etag)]
        try:
            etags = await self.table.apply(changes)
        except AlreadyExists as exc:
            self.ledger.note_conflict(new.guid)
            if exc.operation:  # not the address: another change added its entry first
                raise Overtaken("subscriber", old.address) from exc
            raise Exists("subscriber", new.address) from exc
        except (StaleETag, NotFound) as exc:
            raise Overtaken("subscriber", old.address) from exc
        await self._counts.add(new.list_name, figures_of(new) - figures_of(old))
        return msgspec.structs.replace(new, etag=etags[0])

    async def leave(
        self,
        subscriber: Subscriber,
        source: ConsentSource,
        head: LedgerHead | None = None,
        first: Sequence[Step] = (),
    ) -> bool:
        """Take the steps of `first`, record the unsubscribe, then remove; return False if another
        process was faster."""
        name, address = subscriber.list_name, subscriber.address
        last = await self.ledger.ended(subscriber, ConsentAction.UNSUBSCRIBED, source, head)
        steps: list[Step] = [
            *first,
            self._unsubscribes.noting(name, address, clock.now()),
            Batch(entities.LISTS, [*entities.subscriber_removal(subscriber), *last]),
        ]
        try:
            await self._store.write_in_order(steps)
        except AlreadyExists as exc:
            self.ledger.note_conflict(subscriber.guid)
            raise Overtaken("subscriber", address) from exc
        except NotFound:
            try:
                await self._lists.get(name)
            except NoSuch:
                # Deleted in the meantime: the deletion may have missed the row that we wrote.
                await self._unsubscribes.forget(name, address)
            return False
        await self._counts.add(name, -figures_of(subscriber))
        return True

    async def remove(
        self,
        subscriber: Subscriber,
        etag: str | None = None,
        *,
        act: ConsentAction = ConsentAction.REMOVED,
        source: ConsentSource | None = BY_TEAM,
    ) -> bool:
        """Remove both rows; return False if another process was faster. `StaleETag`."""

        async def attempt() -> bool:
            last = await self.ledger.ended(subscriber, act, source)
            try:
                await self.table.apply([*entities.subscriber_removal(subscriber, etag), *last])
            except NotFound:
                return False
            except AlreadyExists:  # another change added its entry first
                self.ledger.note_conflict(subscriber.guid)
                raise
            return True

        is_removed = await retry_on_conflict(
            attempt, "subscriber", subscriber.address, final=StaleETag
        )
        if is_removed:
            await self._counts.add(subscriber.list_name, -figures_of(subscriber))
        return is_removed


def _after(known: Subscriber, pending: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the attributes after a confirmation."""
    return {**known.attributes, **(known.pending_attributes if pending is None else pending)}


def new_subscriber(
    name: ListName,
    address: Address,
    *,
    verified: bool,
    attributes: Mapping[str, Any] = {},
    consent: str = "",
    tracking: bool = False,
    source: str = "",
) -> Subscriber:
    now = clock.now()
    return Subscriber(
        list_name=name,
        address=address,
        guid=SubscriberGuid(new_guid()),
        verified=verified,
        created_at=now,
        verified_at=now if verified else None,
        attributes=attributes,
        consent=consent,
        tracking=tracking,
        source=source,
        tracking_since=now if tracking else None,
    )
