"""From settings to running parts: the only place that knows them all."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from postroom.domain.pages import PAGE_SIZE
from postroom.mail.envelope import ascii_domain
from postroom.scheduler import Scheduler
from postroom.sender import Sender, SenderSettings
from postroom.sender.confirmations import Confirmations, ConfirmationSettings
from postroom.sender.domain_limits import DomainLimits
from postroom.sender.doubts import DoubtService
from postroom.sender.pacing import PacedTransport
from postroom.sender.policy import RetryPlan, WhenInDoubt
from postroom.sender.rates import DomainRates, Rate
from postroom.services.exports import ExportService
from postroom.services.imports import ImportService
from postroom.services.lists import ListService
from postroom.services.messages import MessageService
from postroom.services.outcomes import OutcomeService
from postroom.services.subscriptions import SubscriptionService
from postroom.services.tracing import TraceService
from postroom.settings import Settings
from postroom.storage import Store, open_store
from postroom.transport.contract import Transport
from postroom.transport.opening import open_transport


class Services:
    """The use cases over one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.messages = MessageService(store)
        self.lists = ListService(store, self.messages)
        self.subscriptions = SubscriptionService(store, self.lists)
        self.imports = ImportService(store, self.lists)
        self.exports = ExportService(self.lists, self.subscriptions)
        self.outcomes = OutcomeService(store)
        self.tracing = TraceService(self.lists, self.subscriptions, self.messages, self.outcomes)
        self.doubts = DoubtService(store, self.outcomes)


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[Store]:
    async with await open_store(settings.store_url) as store:
        yield store


@asynccontextmanager
async def opened_services(settings: Settings) -> AsyncIterator[Services]:
    async with opened_store(settings) as store:
        yield Services(store)


@asynccontextmanager
async def opened_transport(settings: Settings) -> AsyncIterator[Transport]:
    transport = open_transport(
        settings.text("transport"),
        folder=settings.data / "outbox",
        sendgrid_api_key=settings.text("sendgrid_api_key") or None,
        connections=settings.value("connections"),
    )
    try:
        yield transport
    finally:
        await transport.close()


def make_sender(store: Store, transport: Transport, settings: Settings) -> Sender:
    how = SenderSettings(
        base_url=settings.value("base_url"),
        journals=settings.data / "journals",
        in_doubt=WhenInDoubt(settings.value("in_doubt")),
        lease=settings.value("sender_lease").total_seconds(),
        retry=_retry_plan(settings),
    )
    rate = settings.value("rate")
    if rate:
        # No more pages in hand than are sent soon: who leaves meanwhile gets nothing.
        pages = min(how.in_hand, 1 + math.ceil(rate / PAGE_SIZE))
        how = msgspec.structs.replace(how, claim=min(how.claim, max(1, pages // 2)), in_hand=pages)
    return Sender(store, _paced(store, transport, rate), how, _domain_limits(store, settings))


def make_confirmations(store: Store, transport: Transport, settings: Settings) -> Confirmations:
    """Under the same limits; with a place of its own in their line, not behind whole pages."""
    return Confirmations(
        store,
        _paced(store, transport, settings.value("rate")),
        ConfirmationSettings(
            base_url=settings.value("base_url"),
            lease=settings.value("sender_lease").total_seconds(),
            retry=_retry_plan(settings),
        ),
        _domain_limits(store, settings),
    )


def _retry_plan(settings: Settings) -> RetryPlan:
    return RetryPlan(
        settings.value("retry_first"),
        settings.value("retry_longest"),
        settings.value("retry_for"),
    )


def _paced(store: Store, transport: Transport, rate: float | None) -> Transport:
    return PacedTransport(transport, store, Rate(rate)) if rate else transport


def _domain_limits(store: Store, settings: Settings) -> DomainLimits | None:
    given: dict[str, float] = settings.value("rate_per_domain")
    if not given:
        return None
    rates = {ascii_domain(domain): Rate(rate) for domain, rate in given.items()}
    others = rates.pop("*", None)
    return DomainLimits(store, DomainRates(rates, others))


def make_scheduler(store: Store, settings: Settings) -> Scheduler:
    return Scheduler(store, lease_seconds=settings.value("scheduler_lease").total_seconds())
