"""Limits by provider: the rates that senders learn from throttling replies.

While no provider is limited, all of this costs one read per second. Slots for the emails of a page
that go to limited providers are reserved in the store with one write (`stored_limits.py`), so all
senders together keep to a rate. Emails without a slot within a second come back later.

Emails are sent at their slots and not as one burst, because providers count within short times.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.messages.delivery.adaptive_rates import CLEAN_SECONDS, cleaned
from postroom.domain.messages.delivery.providers import Provider
from postroom.mail.mailing import Recipient
from postroom.sender.limits.connection_share import count_senders
from postroom.sender.limits.domain_limits import PATIENCE_SECONDS, comes_back
from postroom.sender.limits.email_rates import EmailRate, RateAdmission, admit
from postroom.sender.limits.paced_sending import PacedPart, PageSlots
from postroom.sender.limits.stored_limits import Found, Moments, StoredLimits
from postroom.services.messages.sending.provider_directory import ProviderDirectory
from postroom.services.messages.sending.provider_rates import (
    MOST_PER_SECOND,
    ProviderRate,
    ProviderRateService,
)
from postroom.storage import Store, StoreError
from postroom.transport.contract import Result, ResultKind

log = logging.getLogger(__name__)

SLOTS: Final = "providerslots"
"""The partition of `throttle` with the slots of each provider."""
_FRESH_SECONDS: Final = 1.0
_MEASURED_SECONDS: Final = 1.0
_BURST_SECONDS: Final = 0.05
"""After a pause. More would exceed a limit that the rate has nearly reached, and halve it."""
_PART_SECONDS: Final = 0.1
"""Emails of one provider whose slots are so close are sent together."""
_KEPT_PAGES: Final = 64


class _SentPage(msgspec.Struct, frozen=True):
    ended_at: float
    results: Mapping[Address, Result | None]


class _Limited(msgspec.Struct, frozen=True):
    """The recipients of a page at a limited provider."""

    rate: EmailRate
    most: int | None
    per_connection: int | None
    recipients: list[Recipient] = msgspec.field(default_factory=list)


class ProviderLimits:
    def __init__(
        self,
        store: Store,
        rates: ProviderRateService,
        directory: ProviderDirectory,
        *,
        minute: float = CLEAN_SECONDS,
    ) -> None:
        """A test may shorten the `minute` after which a rate is raised."""
        self._store = store
        self._rates = rates
        self._directory = directory
        self._minute = minute
        self._slots = StoredLimits(store, SLOTS)
        self._known: dict[Provider, ProviderRate] = {}
        self._read_at = -math.inf
        self._reading = asyncio.Lock()
        self._senders = 1
        self._throttled: dict[Address, Result] = {}
        """Throttling replies that are not in the store yet."""
        self._sent: deque[_SentPage] = deque(maxlen=_KEPT_PAGES)

    # -- before sending ------------------------------------------------------------------------

    async def admit(
        self, recipients: Sequence[Recipient], exempt: Collection[Address] = ()
    ) -> PageSlots:
        """Return when each recipient may be sent to: immediately for those in `exempt`."""
        await self._refresh()
        now = clock.timestamp()
        if not any(each.is_limited(now) for each in self._known.values()):
            return PageSlots.at_once(recipients)
        limited = await self._limited([e for e in recipients if e.address not in exempt])
        if not limited:
            return PageSlots.at_once(recipients)
        now = clock.timestamp()
        admissions = await self._slots.change(
            list(limited), lambda found: _decide(limited, found, now)
        )
        return _slots_of_page(recipients, limited, admissions, now)

    async def _limited(self, recipients: Sequence[Recipient]) -> dict[str, _Limited]:
        await self._look_up([each.address for each in recipients])
        now = clock.timestamp()
        limited: dict[str, _Limited] = {}
        for recipient in recipients:
            provider = self._directory.provider(recipient.address)
            known = self._known.get(provider)
            if known is None or not known.is_limited(now):
                continue
            if provider not in limited:
                # Limits on connections alone do not limit the rate.
                rate = EmailRate(known.per_second(now) or MOST_PER_SECOND, _BURST_SECONDS)
                connections = known.connections(now)
                most = None if connections is None else max(1, connections // self._senders)
                limited[provider] = _Limited(rate, most, known.emails_per_connection(now))
            limited[provider].recipients.append(recipient)
        return limited

    async def _refresh(self) -> None:
        """Read the rates, at most once per second. During a store outage, the known ones count."""
        if clock.monotonic() - self._read_at < _FRESH_SECONDS:
            return
        async with self._reading:
            if clock.monotonic() - self._read_at < _FRESH_SECONDS:
                return
            try:
                self._known = await self._rates.all()
                if self._known:
                    self._senders = await count_senders(self._store)
            except StoreError as exc:
                log.warning("the rates of providers cannot be read: %s", exc)
            self._read_at = clock.monotonic()

    async def _look_up(self, addresses: Sequence[Address]) -> None:
        try:
            await self._directory.look_up(addresses)
        except StoreError as exc:
            log.warning("the providers of a page cannot be read: %s", exc)

    # -- while sending -------------------------------------------------------------------------

    def throttled(self, address: Address, result: Result) -> None:
        """Note a throttling reply."""
        self._throttled[address] = result

    def rest_after(self, address: Address, result: Result) -> timedelta:
        """Return how long the provider of an address gets nothing after a throttling reply."""
        provider = self._directory.provider(address)
        known = self._known.get(provider) or ProviderRate(provider)
        return known.rest_after(result.reply)

    # -- after sending -------------------------------------------------------------------------

    async def conclude(self, results: Mapping[Address, Result | None]) -> None:
        """Learn from the results of a page. During a store outage, this is left to the next
        page."""
        self._sent.append(_SentPage(clock.monotonic(), results))
        if not self._throttled and not self._known:
            return
        try:
            throttled = await self._lower()
            await self._raise(results, throttled)
        except StoreError as exc:
            log.warning("the rates of providers cannot be changed: %s", exc)

    async def _lower(self) -> set[Provider]:
        """Lower the rates of the providers that have throttled us; return these."""
        replies, self._throttled = self._throttled, {}
        if not replies:
            return set()
        try:
            await self._look_up(list(replies))
            by_provider = {self._directory.provider(each): r for each, r in replies.items()}
            senders = await count_senders(self._store)
            for provider, result in by_provider.items():
                measured = self._accepted_lately(provider) * senders / _MEASURED_SECONDS
                await self._rates.throttled(provider, measured, result.reply)
        except StoreError:
            self._throttled = replies | self._throttled
            raise
        self._read_at = -math.inf
        return set(by_provider)

    def _accepted_lately(self, provider: Provider) -> int:
        since = clock.monotonic() - _MEASURED_SECONDS
        return sum(
            result is not None
            and result.kind is ResultKind.ACCEPTED
            and self._directory.provider(address) == provider
            for page in self._sent
            if page.ended_at >= since
            for address, result in page.results.items()
        )

    async def _raise(
        self, results: Mapping[Address, Result | None], throttled: Collection[Provider]
    ) -> None:
        """Raise the rates of providers that have been accepting everything for long enough."""
        now = clock.timestamp()
        waiting = {
            provider
            for provider, known in self._known.items()
            if provider not in throttled
            and (rate := known.learned) is not None
            and cleaned(rate, now, known.ceiling, self._minute) != rate
        }
        if not waiting:
            return
        accepted = Counter(
            self._directory.provider(address)
            for address, result in results.items()
            if result is not None and result.kind is ResultKind.ACCEPTED
        )
        for provider in waiting.intersection(accepted):
            await self._rates.cleaned(provider, self._minute)
            self._read_at = -math.inf


def _decide(
    limited: Mapping[str, _Limited], found: Found, now: float
) -> tuple[Found, Mapping[str, RateAdmission]]:
    admissions = {
        provider: admit(
            each.rate,
            found[provider].used_up,
            found[provider].queue_end,
            len(each.recipients),
            now,
            now + PATIENCE_SECONDS,
        )
        for provider, each in limited.items()
    }
    moments = {name: Moments(each.used_up, each.queue_end) for name, each in admissions.items()}
    return moments, admissions


def _slots_of_page(
    recipients: Sequence[Recipient],
    limited: Mapping[str, _Limited],
    admissions: Mapping[str, RateAdmission],
    now: float,
) -> PageSlots:
    paced = {each.address for some in limited.values() for each in some.recipients}
    parts = [PacedPart(now, [each for each in recipients if each.address not in paced])]
    later: dict[Address, datetime] = {}
    for provider, each in limited.items():
        admission = admissions[provider]
        parts += _parts(provider, each, admission, now)
        later |= comes_back(each.recipients, admission)
    parts = [each for each in parts if each.recipients]
    return PageSlots(tuple(sorted(parts, key=lambda each: each.at)), later)


def _parts(
    provider: str, limited: _Limited, admission: RateAdmission, now: float
) -> list[PacedPart]:
    """Divide the admitted recipients of a provider into parts that are sent at their slots."""
    interval = limited.rate.interval
    size = max(1, int(_PART_SECONDS / interval))
    if limited.most is not None:
        size = min(size, limited.most)
    going = limited.recipients[: admission.count]
    first = admission.at - (len(going) - 1) * interval
    return [
        PacedPart(
            max(now, first + start * interval),
            going[start : start + size],
            provider,
            limited.most,
            limited.per_connection,
        )
        for start in range(0, len(going), size)
    ]
