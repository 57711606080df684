"""Decides whether a message is sent in waves, and who has an email in an earlier one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, partial
from typing import Final

from postroom import clock
from postroom.domain.audience.addresses import Address, address_key
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.audience.time_zones import local_moment
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.page_emails import ERASED
from postroom.domain.messages.waves.buckets import BUCKETS, bucket_of
from postroom.domain.messages.waves.canaries import OFF, CanaryRules, chosen_canary
from postroom.domain.messages.waves.waves import Waves
from postroom.scheduler.members import Belongs, MembersReader
from postroom.scheduler.services import SchedulerServices

_PAGES_AT_ONCE: Final = 20
_CERTAINLY_LESS: Final = 0.9
"""A list whose last known size is below this part of a number is not counted again."""


class WavePlans:
    def __init__(self, services: SchedulerServices, canary: CanaryRules) -> None:
        self._sizes = services.sizes
        self._pages = services.pages
        self._canary = canary

    async def divide(
        self, message: Message, members: MembersReader, check: Callable[[], None]
    ) -> Waves | None:
        """Return how the recipients of a message are divided; None for a single wave. They are
        counted only if the decision depends on their number."""
        if message.retry_of is not None:
            return None
        if message.part is not None and not message.part.without:
            return None  # a variant of an A/B test goes to a small share anyway
        if message.local_time:
            return await _by_local_time(message, members, check)
        canary, recipients = chosen_canary(message.canary, self._canary), 0
        if canary is None:
            above = self._canary.above
            if message.canary == OFF or above is None or not await self._may_exceed(message, above):
                return None
            if await _count(members, check, most=above) <= above:
                return None
            canary = self._canary.canary
        elif canary.count:
            recipients = await _count(members, check)
        buckets = canary.buckets(recipients)
        return Waves(buckets, canary.wait) if buckets.end < BUCKETS else None

    async def belongs(self, message: Message, check: Callable[[], None]) -> Belongs:
        """Return the test for belonging to the current wave of a message. Everyone who has no email
        in an earlier wave belongs to the last one."""
        waves = message.waves
        if waves is None:
            return lambda *_: True
        earlier = await self._earlier(message, waves.first_page, check)

        def is_new(who: Address, guid: SubscriberGuid, zone: str) -> bool:
            return earlier.isdisjoint((hash(address_key(who)), hash(guid)))

        if waves.is_last:
            return is_new
        if waves.canary is not None:
            buckets, ref = waves.canary, message.ref
            return lambda who, guid, zone: bucket_of(ref, guid) in buckets
        now, moment_in = waves.times[waves.current], _moments(message)
        return lambda who, guid, zone: moment_in(zone) <= now and is_new(who, guid, zone)

    async def _earlier(self, message: Message, end: int, check: Callable[[], None]) -> set[int]:
        """Return the hashes of the addresses and GUIDs on the pages before one. Two of 64 bits are
        never equal by chance; a million strings would take three times the memory.

        By GUID as well: a subscriber may change their address between two waves. If they did so
        before their email was sent, it was suppressed, and they get one at the new address.
        """
        found: set[int] = set()
        for first in range(0, end, _PAGES_AT_ONCE):
            many = min(_PAGES_AT_ONCE, end - first)
            for page in await self._pages.some(message, first, many):
                for place, address in enumerate(page.emails.addresses):
                    if address != ERASED:
                        found.add(hash(address_key(address)))
                    if page.emails.outcome(place) is not EmailOutcome.SUPPRESSED:
                        found.add(hash(page.emails.guid(place)))
            check()
        return found

    async def _may_exceed(self, message: Message, count: int) -> bool:
        """Return whether more than this many may be on the lists of a message. Most lists are
        smaller by far, and their sizes, which are kept up to date, are known without reading
        them."""
        sizes = await self._sizes.counted()
        known = [sizes[each].recipients for each in message.lists if each in sizes]
        return len(known) < len(message.lists) or sum(known) > count * _CERTAINLY_LESS


def _moments(message: Message) -> Callable[[str], datetime]:
    """Return a function that tells when a message is due in a time zone."""
    return lru_cache(1000)(partial(local_moment, message.due_at, message.list_zone))


async def _by_local_time(
    message: Message, members: MembersReader, check: Callable[[], None]
) -> Waves:
    """Return a wave for each moment at which it is due in some zones; those whose time has passed
    are the first one, which is empty if there are none."""
    now, moment_in = message.queued_at or clock.now(), _moments(message)
    found: Counter[datetime] = Counter({now: 0})
    last = None
    while (some := await members.after(last, check)).guids:
        last = address_key(next(reversed(some.guids)))
        found.update(max(now, moment_in(some.zones.get(who, ""))) for who in some.guids)
    times = sorted(found)
    return Waves(times=tuple(times), expected=tuple(found[each] for each in times))


async def _count(members: MembersReader, check: Callable[[], None], most: int | None = None) -> int:
    """Count recipients; once there are more than `most`, the others are not counted."""
    count, last = 0, None
    while found := (await members.after(last, check)).guids:
        count += len(found)
        last = address_key(next(reversed(found)))
        if most is not None and count > most:
            break
    return count
