"""Unsubscribes by the links of a message, which name the message and therefore need no tracking.

| table                | partition | row                       | holds                            |
|----------------------|-----------|---------------------------|----------------------------------|
| `messageunsubscribe` | REF       | a digest of REF and GUID  | LeftAt: when they first did this |

The row is written before the subscriber is removed, so an interrupted request leaves the link
working, and a repeated one writes the same row: everyone counts once. The GUID disappears with the
subscriber, and then the digest points to nobody.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import datetime
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.consent import BY_LINK, ConsentSource
from postroom.domain.audience.lists.lists import Subscriber, SubscriberGuid
from postroom.domain.errors import DomainError
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus
from postroom.domain.messages.refs import MessageRef
from postroom.services import entities
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.sending.outcomes import OutcomeService
from postroom.services.row_ranges import remove_rows
from postroom.storage import Batch, Entity, KeyRange, Store, StoreDamaged, Upsert

log = logging.getLogger(__name__)

TABLE: Final = "messageunsubscribe"
_DIGITS: Final = 32  # of the digest, in hexadecimal: enough to rule out a collision
_ROWS: Final = 1000  # the most that one read of the store returns
_MANY: Final = 500  # a smaller number is always counted: that takes less than a millisecond
_SHARE: Final = 1 / 500  # of a message's age for which a large number is remembered,
_LONGEST: Final = 6 * 3600.0  # but no longer than this
_MOST_REMEMBERED: Final = 1_000
# Someone whose email is in doubt may have received it, and has if they use its link.
_SENT: Final = frozenset({EmailOutcome.ACCEPTED, EmailOutcome.IN_DOUBT, EmailOutcome.PENDING})


class MessageUnsubscribes:
    def __init__(
        self,
        store: Store,
        subscriptions: SubscriptionService,
        messages: MessageService,
        outcomes: OutcomeService,
    ) -> None:
        self._table = store.table(TABLE)
        self._subscriptions = subscriptions
        self._messages = messages
        self._outcomes = outcomes
        self._recent: dict[MessageRef, tuple[float, int]] = {}

    async def unsubscribe(
        self, list_name: str, guid: str, ref: str, source: ConsentSource = BY_LINK
    ) -> Subscriber | None:
        """Remove the owner of an unsubscribe link; return None if they are not on the list.

        It counts for the message `ref` if that message was sent to them. A wrong reference counts
        for nothing, and prevents nothing.
        """
        counting = await self._counting(list_name, guid, ref) if ref else None
        first = [] if counting is None else [counting]
        return await self._subscriptions.unsubscribe(list_name, guid, source, first=first)

    async def count(self, ref: MessageRef, sent_at: datetime | None = None) -> int:
        """Return how many people unsubscribed by the links of a message.

        With the time when it was sent, a large number may be that of some time ago: the older the
        message, the fewer still unsubscribe.
        """
        if sent_at is None:
            return await self._count(ref)
        known = self._recent.get(ref)
        age = (clock.now() - sent_at).total_seconds()
        if known is not None and clock.monotonic() - known[0] < min(age * _SHARE, _LONGEST):
            return known[1]
        began = clock.monotonic()
        count = await self._count(ref)
        if count >= _MANY:
            if len(self._recent) >= _MOST_REMEMBERED:
                self._recent.clear()
            self._recent[ref] = (began, count)
        return count

    async def _count(self, ref: MessageRef) -> int:
        count, rows = 0, KeyRange()
        while True:
            found = await self._table.read(_Nothing, ref, rows, limit=_ROWS)
            count += len(found)
            if len(found) < _ROWS:
                return count
            rows = KeyRange(start=entities.key_after(next(reversed(found))))

    async def forget(self, ref: MessageRef) -> None:
        """Remove the rows of a message that is being removed. Can be repeated."""
        while rows := await self._table.read(_Nothing, ref, limit=_ROWS):
            await remove_rows(self._table, ref, list(rows))

    async def _counting(self, list_name: str, guid: str, ref: str) -> Batch | None:
        """Return the write that counts a subscriber if the message was sent to them."""
        try:
            subscriber = await self._subscriptions.by_guid(list_name, guid)
            if subscriber is None:
                return None
            message = await self._messages.get(ref)
            if list_name not in message.lists or message.status is MessageStatus.DRAFT:
                return None
            emails = await self._outcomes.emails_of(message, subscriber)
        except (DomainError, StoreDamaged) as exc:
            log.info("an unsubscribe counts for no message: %s", exc)
            return None
        if not any(each.outcome in _SENT for each in emails):
            return None
        return Batch(TABLE, [Upsert(unsubscribe_row(message.ref, subscriber.guid, clock.now()))])


class _Nothing(msgspec.Struct, frozen=True, gc=False):
    """Only the key of a row is read."""


def unsubscribe_row(ref: MessageRef, guid: SubscriberGuid, at: datetime) -> Entity:
    row = hashlib.sha256(f"{ref} {guid}".encode()).hexdigest()[:_DIGITS]
    return Entity(ref, row, {"LeftAt": at})
