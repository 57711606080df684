"""Everything that is known about the providers that we send to, together."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.messages.delivery.providers import (
    InitialLimits,
    Provider,
    initial_limits,
)
from postroom.services.audience.suppression.delivery_figures import (
    DeliveryFigures,
    DeliveryFigureService,
)
from postroom.services.messages.sending.hold_rows import HoldService
from postroom.services.messages.sending.holds import Hold
from postroom.services.messages.sending.provider_directory import stored_providers
from postroom.services.messages.sending.provider_rates import ProviderRate, ProviderRateService
from postroom.storage import Store
from postroom.transport.contract import FaultScope

_MOST: Final = 200


class ProviderStatus(msgspec.Struct, frozen=True):
    """A provider with its rate, its hold, and the results of the last 30 days."""

    rate: ProviderRate
    hold: Hold | None = None
    figures: DeliveryFigures = DeliveryFigures()

    @property
    def provider(self) -> Provider:
        return self.rate.provider

    @property
    def per_second(self) -> float | None:
        """Return the emails per second that may be sent now; None: no limit."""
        return self.rate.per_second(clock.timestamp())

    @property
    def connections(self) -> int | None:
        return self.rate.connections(clock.timestamp())

    @property
    def emails_per_connection(self) -> int | None:
        return self.rate.emails_per_connection(clock.timestamp())

    @property
    def initial(self) -> InitialLimits:
        return initial_limits(self.provider)

    @property
    def throttled_at(self) -> datetime | None:
        learned = self.rate.learned
        return None if learned is None else datetime.fromtimestamp(learned.throttled_at, UTC)


class ProviderOverview:
    def __init__(
        self,
        store: Store,
        rates: ProviderRateService,
        holds: HoldService,
        figures: DeliveryFigureService,
    ) -> None:
        self._store = store
        self._rates = rates
        self._holds = holds
        self._figures = figures

    async def all(self) -> list[ProviderStatus]:
        """Return the providers that are limited or held, and the largest others, by name.

        Rates are those of the organisation whose mail servers receive the mail, holds and figures
        those of domains: they are added up once senders have looked up the domains' mail servers.
        """
        rates = await self._rates.all()
        holds = _by_provider((await self._holds.open_holds()).by_key.values())
        figures = dict((await self._figures.of_period()).providers)
        if rates:  # otherwise nothing was looked up
            domains = sorted(figures, key=lambda each: -figures[each].accepted)[:_MOST]
            domains = [each for each in {*domains, *holds} if each not in rates]
            for domain, provider in (await stored_providers(self._store, domains)).items():
                if domain == provider:
                    continue
                if (part := figures.pop(domain, None)) is not None:
                    figures[provider] = figures.get(provider, DeliveryFigures()) + part
                if (hold := holds.pop(domain, None)) is not None:
                    holds.setdefault(provider, hold)
        largest = sorted(figures, key=lambda each: -figures[each].accepted)[:_MOST]
        return [
            ProviderStatus(
                rates.get(each) or ProviderRate(each),
                holds.get(each),
                figures.get(each, DeliveryFigures()),
            )
            for each in sorted({*rates, *holds, *largest})
        ]

    async def get(self, provider: Provider) -> ProviderStatus:
        """Return a provider, even if nothing is known about it."""
        found = {each.provider: each for each in await self.all()}
        return found.get(provider) or ProviderStatus(ProviderRate(provider))


def _by_provider(holds: Iterable[Hold]) -> dict[Provider, Hold]:
    return {
        Provider(each.key.partition(":")[2]): each
        for each in holds
        if each.scope is FaultScope.PROVIDER
    }
