"""All limits on the emails of a page, in their order.

1. A warm-up plan: what is left of the day.
2. Emails per second by domain, then by provider.
3. The emails that may be sent now are taken from the day; the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, domain_of
from postroom.domain.messages.delivery.warm_up import WarmUpPlan
from postroom.mail.mailing import Recipient
from postroom.sender.limits.domain_limits import DomainLimits
from postroom.sender.limits.paced_sending import PacedPart, PageSlots
from postroom.sender.limits.provider_limits import ProviderLimits
from postroom.sender.limits.warm_up_limits import WarmUpLimits
from postroom.services.messages.sending.warm_ups import next_day
from postroom.transport.contract import Result, ResultKind

LIMITED: Final = "waits: the emails per second to its domain are limited"
PACED: Final = "waits: its provider limits the emails per second"
WARMING_UP: Final = "waits for the next day: the warm-up plan allows no more emails today"

_NOT_SENT: Final = frozenset({ResultKind.HELD, ResultKind.DEFERRED})


class WaitingEmail(msgspec.Struct, frozen=True):
    reason: str
    until: datetime


class LimitedPage(msgspec.Struct, frozen=True):
    """What of a page is sent now, on `day`, and what waits for what."""

    slots: PageSlots
    day: date
    waiting: dict[Address, WaitingEmail] = {}
    plans: Sequence[WarmUpPlan] = ()
    """The warm-up plans that the emails were taken from."""


class SendingLimits:
    def __init__(
        self,
        domains: DomainLimits | None = None,
        providers: ProviderLimits | None = None,
        warm_up: WarmUpLimits | None = None,
    ) -> None:
        self._domains = domains
        self._providers = providers
        self._warm_up = warm_up

    @property
    def throttled(self) -> Callable[[Address, Result], None] | None:
        """Return the function to call with each throttling reply, if rates adapt to them."""
        return None if self._providers is None else self._providers.throttled

    def rest_after(self, address: Address, result: Result) -> timedelta:
        """Return how long the provider of an address gets nothing after a throttling reply."""
        if self._providers is None:
            return timedelta()
        return self._providers.rest_after(address, result)

    async def admit(
        self, sender: str, recipients: Sequence[Recipient], probing: Collection[Address]
    ) -> LimitedPage:
        """Decide which emails are sent now; `sender` is their From address. Those that probe a
        hold do not wait for rates."""
        waiting: dict[Address, WaitingEmail] = {}
        plans: Sequence[WarmUpPlan] = ()
        day = clock.now().date()
        if self._warm_up is not None:
            plans = await self._warm_up.plans(domain_of(Address(sender)).lower())
            left = await self._warm_up.left(plans)
            if left is not None and left < len(recipients):
                waiting |= _until_tomorrow(recipients[left:])
                recipients = recipients[:left]
        if self._domains is not None:
            recipients, later = await self._domains.admit(recipients)
            waiting |= {address: WaitingEmail(LIMITED, at) for address, at in later.items()}
        slots = PageSlots.at_once(recipients)
        if self._providers is not None:
            slots = await self._providers.admit(recipients, probing)
            waiting |= {each: WaitingEmail(PACED, at) for each, at in slots.later.items()}
        if self._warm_up is not None and plans:
            going = slots.recipients
            taken = await self._warm_up.take(plans, len(going), day)
            if taken < len(going):
                waiting |= _until_tomorrow(going[taken:])
                slots = _first(slots, taken)
        return LimitedPage(slots, day, waiting, plans)

    async def conclude(self, page: LimitedPage, results: Mapping[Address, Result | None]) -> None:
        """Learn from the results of a page, and return to its day what was not sent."""
        if self._providers is not None:
            await self._providers.conclude(results)
        if self._warm_up is not None and page.plans:
            sent = sum(each is not None and each.kind not in _NOT_SENT for each in results.values())
            unsent = len(page.slots.recipients) - sent
            await self._warm_up.give_back(page.plans, unsent, page.day)


def _until_tomorrow(recipients: Sequence[Recipient]) -> dict[Address, WaitingEmail]:
    waits = WaitingEmail(WARMING_UP, next_day())
    return {each.address: waits for each in recipients}


def _first(slots: PageSlots, count: int) -> PageSlots:
    """Return the slots of the first emails, up to this many."""
    parts: list[PacedPart] = []
    for part in slots.parts:
        some = part.recipients[:count]
        count -= len(some)
        if some:
            parts.append(msgspec.structs.replace(part, recipients=some))
    return PageSlots(tuple(parts), slots.later)
