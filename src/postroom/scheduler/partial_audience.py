"""Reads the recipients of a message that goes to a part of its audience only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from postroom.domain.audience.addresses import AddressKey, address_key
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.pages import PAGE_SIZE
from postroom.domain.messages.waves.buckets import ALL_BUCKETS, Part, bucket_of
from postroom.scheduler.members import Members, MembersReader
from postroom.services.audience.targeting.received_messages import (
    MessageRecipients,
    ReceivedMessages,
)
from postroom.services.messages.sending.page_rows import PageRows

_SUPPRESSED = EmailOutcome.SUPPRESSED
_ENOUGH = 5 * PAGE_SIZE  # pages are full, however small the part is


class PartOfMembers:
    """Those members who belong to a part of the audience."""

    def __init__(
        self, members: MembersReader, part: Part, others: MessageRecipients, guids: set[int]
    ) -> None:
        """`others` are the recipients of the messages that the part is without, and `guids` are the
        hashes of their GUIDs."""
        self._members = members
        self._part = part
        self._others = others
        self._guids = guids
        self._returned: AddressKey | None = None
        self._reached: AddressKey | None = None

    async def after(self, key: AddressKey | None, check: Callable[[], None]) -> Members:
        if key is None or key != self._returned:
            self._reached = key
        found = Members({}, {}, {})
        while len(found.guids) < _ENOUGH:
            more = await self._members.after(self._reached, check)
            if not more.guids:
                break
            self._reached = address_key(next(reversed(more.guids)))
            await self._add(found, more)
        if found.guids:
            self._returned = address_key(next(reversed(found.guids)))
        return found

    async def _add(self, found: Members, more: Members) -> None:
        key, buckets = self._part.key, self._part.buckets
        guids = more.guids
        if buckets != ALL_BUCKETS:
            # By address: someone who comes back with another GUID, or is on several lists, stays.
            guids = {
                a: guid for a, guid in guids.items() if bucket_of(key, address_key(a)) in buckets
            }
        if self._others.is_needed and guids:
            await self._others.look_up(list(guids))
            left_out = set[AddressKey]().union(*self._others.received.values())
            guids = {
                a: guid
                for a, guid in guids.items()
                if address_key(a) not in left_out and hash(guid) not in self._guids
            }
        found.guids.update(guids)
        found.values.update((a, more.values[a]) for a in guids if a in more.values)
        found.numbers.update((a, more.numbers[a]) for a in guids if a in more.numbers)


async def part_of(
    members: MembersReader,
    part: Part,
    received: ReceivedMessages,
    pages: PageRows,
    others: Sequence[Message],
) -> MembersReader:
    """Return a reader of the members of a part, without the recipients of `others`.

    They are recognised by their GUIDs as well: someone may have changed their address since.
    """
    guids: set[int] = set()
    for message in others:
        async for page in pages.whole(message):
            places = range(len(page.emails.addresses))
            sent = (each for each in places if page.emails.outcome(each) is not _SUPPRESSED)
            guids.update(hash(page.emails.guid(each)) for each in sent)
    return PartOfMembers(members, part, await received.planned(part.without), guids)
