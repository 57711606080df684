"""Limits by recipient domain: emails above the limit come back later, without delaying others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import Address, domain_of
from postroom.mail.mailing import Recipient
from postroom.mail.wire_addresses import ascii_domain
from postroom.sender.limits.email_rates import DomainRates, EmailRate, RateAdmission, admit
from postroom.sender.limits.stored_limits import DOMAIN, Clock, Found, Moments, StoredLimits
from postroom.storage import Store

PATIENCE_SECONDS: Final = 1.0
"""How long a page waits if none of its emails may be sent immediately. Longer, and waiting pages
would take the places of pages that could be sent."""


class _Limited(msgspec.Struct, frozen=True):
    """The recipients of a domain that has a limit."""

    rate: EmailRate
    recipients: list[Recipient] = msgspec.field(default_factory=list)


class DomainLimits:
    def __init__(self, store: Store, rates: DomainRates, clock: Clock = clock.timestamp) -> None:
        self._throttle = StoredLimits(store, DOMAIN)
        self._rates = rates
        self._clock = clock

    async def admit(
        self, recipients: Sequence[Recipient]
    ) -> tuple[list[Recipient], dict[Address, datetime]]:
        """Return the recipients that may be sent to now, and when the others come back (up to 100
        in all). Wait up to `PATIENCE_SECONDS` if none may be sent immediately."""
        limited = self._limited(recipients)
        if not limited:
            return list(recipients), {}
        may_wait = sum(len(each.recipients) for each in limited.values()) == len(recipients)
        admissions = await self._throttle.change(
            list(limited), lambda found: self._decide(limited, found, may_wait)
        )
        later: dict[Address, datetime] = {}
        for domain, admission in admissions.items():
            later |= comes_back(limited[domain].recipients, admission)
        wait = max(admission.at for admission in admissions.values()) - self._clock()
        await asyncio.sleep(min(max(0.0, wait), PATIENCE_SECONDS))
        return [each for each in recipients if each.address not in later], later

    def _limited(self, recipients: Sequence[Recipient]) -> dict[str, _Limited]:
        limited: dict[str, _Limited] = {}
        for recipient in recipients:
            domain = ascii_domain(domain_of(recipient.address))
            rate = self._rates.of(domain)
            if rate is not None:
                limited.setdefault(domain, _Limited(rate)).recipients.append(recipient)
        return limited

    def _decide(
        self, limited: Mapping[str, _Limited], found: Found, may_wait: bool
    ) -> tuple[Found, Mapping[str, RateAdmission]]:
        now = self._clock()
        admissions = _admitted(limited, found, now, now)
        if may_wait and not any(each.count for each in admissions.values()):
            admissions = _admitted(limited, found, now, now + PATIENCE_SECONDS)
        changed = {
            domain: Moments(each.used_up, each.queue_end) for domain, each in admissions.items()
        }
        return changed, admissions


def _admitted(
    limited: Mapping[str, _Limited], found: Found, now: float, deadline: float
) -> dict[str, RateAdmission]:
    return {
        domain: admit(
            each.rate,
            found[domain].used_up,
            found[domain].queue_end,
            len(each.recipients),
            now,
            deadline,
        )
        for domain, each in limited.items()
    }


def comes_back(
    recipients: Sequence[Recipient], admission: RateAdmission
) -> dict[Address, datetime]:
    """Return when the recipients that were not admitted come back."""
    later: dict[Address, datetime] = {}
    waiting = iter(recipients[admission.count :])
    for count, at in admission.later:
        moment = datetime.fromtimestamp(at, UTC)
        later |= {recipient.address: moment for recipient in islice(waiting, count)}
    return later
