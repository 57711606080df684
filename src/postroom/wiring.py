"""From settings to running parts: the only place that knows them all."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from postroom.alerts import Alerts, Channel, MailChannel, WebhookChannel
from postroom.encryption import Keyring, without_key
from postroom.mail.envelope import ascii_domain
from postroom.scheduler import Scheduler
from postroom.scheduler.retention import Retention
from postroom.secret_key import load_all_keys
from postroom.sender import Sender, SenderSettings
from postroom.sender.confirmations import Confirmations, ConfirmationSettings
from postroom.sender.doubts import DoubtService
from postroom.sender.limits.connection_share import shared_connections
from postroom.sender.limits.domain_limits import DomainLimits
from postroom.sender.limits.pacing import PacedTransport
from postroom.sender.limits.rates import DomainRates, Rate
from postroom.sender.policy import RetryPlan, WhenInDoubt
from postroom.services.accounts.access_links import AccessLinks
from postroom.services.accounts.api_keys import ApiKeyService
from postroom.services.accounts.audit import AuditService
from postroom.services.accounts.sessions import SessionService
from postroom.services.accounts.user_removal import UserRemoval
from postroom.services.accounts.users import UserService
from postroom.services.audience.address_trace import TraceService
from postroom.services.audience.estimates import EstimateService
from postroom.services.audience.files.exports import ExportService
from postroom.services.audience.files.imports import ImportService
from postroom.services.audience.list_counts import ListCounts
from postroom.services.audience.list_growth import GrowthService
from postroom.services.audience.list_logos import LogoService
from postroom.services.audience.list_sizes import ListSizes
from postroom.services.audience.lists import ListService
from postroom.services.audience.personal_data import PersonalDataService
from postroom.services.audience.subscriber_search import SubscriberSearch
from postroom.services.audience.subscriptions import SubscriptionService
from postroom.services.events import EventService, Severity
from postroom.services.idempotency import IdempotencyService
from postroom.services.messages.hold_rows import HoldService
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.message_holds import MessageHolds
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.outcomes import OutcomeService
from postroom.services.messages.progress import ProgressService
from postroom.services.messages.retries import RetryService
from postroom.services.operations.conversions import bring_up_to_date
from postroom.services.operations.disk_space import SpaceWaits, SpaceWatch
from postroom.services.operations.explorer import ExplorerService
from postroom.services.operations.health import HealthService
from postroom.services.operations.notice_sender import NoticeSender
from postroom.services.operations.store_copy import refuse_unfinished_copy
from postroom.services.operations.store_health import StoreHealth
from postroom.services.operations.store_history import StoreHistory
from postroom.services.queues.apps import AppRegistry
from postroom.services.queues.delivery import QueueService
from postroom.services.queues.hosts import HostStatusService
from postroom.services.queues.queue_access import AccessService
from postroom.services.queues.queue_overview import QueueOverviewService
from postroom.services.stored_secrets import StoredSecrets
from postroom.settings import Settings
from postroom.storage import Store, open_store
from postroom.transport.contract import Transport
from postroom.transport.outbox import OutboxTransport
from postroom.transport.registry import open_transport, sends_mail
from postroom.watchdog import Stalls, Watchdog, start_again

OUTBOX = "outbox"
"""The folder of the transport `outbox:`, in the data folder."""


class Services:
    """The use cases over one store."""

    def __init__(self, store: Store, keyring: Keyring | None = None) -> None:
        keyring = keyring or Keyring(without_key)
        self.store = store
        self.secrets = StoredSecrets(store, keyring)
        self.events = EventService(store)
        self.messages = MessageService(store)
        self.lists = ListService(store, self.messages)
        self.counts = ListCounts(store)
        self.subscriptions = SubscriptionService(store, self.lists, counts=self.counts)
        self.logos = LogoService(store, self.lists)
        self.imports = ImportService(store, self.lists, self.counts)
        self.exports = ExportService(self.lists, self.subscriptions)
        self.outcomes = OutcomeService(store)
        self.times = MessageTimes(store, self.messages)
        self.tracing = TraceService(self.lists, self.subscriptions, self.times, self.outcomes)
        self.personal_data = PersonalDataService(
            store, self.subscriptions, self.tracing, self.times, self.outcomes
        )
        self.doubts = DoubtService(store, self.outcomes)
        self.hosts = HostStatusService(store)
        self.apps = AppRegistry(store, self.hosts, keyring)
        self.access = AccessService(store, self.hosts, self.apps)
        self.queues = QueueService(store, self.hosts, self.access)
        self.queue_overview = QueueOverviewService(store, self.apps, self.queues)
        self.keys = ApiKeyService(store)
        self.idempotency = IdempotencyService(store)
        self.users = UserService(store, self.events, keyring)
        self.sessions = SessionService(store, self.users)
        self.access_links = AccessLinks(store, self.users)
        self.user_removal = UserRemoval(self.users, self.sessions, self.access_links)
        self.audit = AuditService(store)
        self.progress = ProgressService(self.outcomes)
        self.growth = GrowthService(store, self.lists)
        self.sizes = ListSizes(store, self.growth, self.counts)
        self.search = SubscriberSearch(store, self.lists)
        self.retries = RetryService(store, self.messages, self.outcomes)
        self.estimates = EstimateService(self.sizes, self.times)
        self.holds = HoldService(store)
        self.message_holds = MessageHolds(self.holds, self.messages, self.outcomes)
        self.health = HealthService(self.hosts, self.queue_overview)
        self.store_health = StoreHealth(store)
        self.space_waits = SpaceWaits(store)
        self.explorer = ExplorerService(store)


def make_keyring(settings: Settings) -> Keyring:
    """Return what encrypts secrets in the store; keys are loaded when they are needed."""
    return Keyring(
        lambda: load_all_keys(
            settings.secrets.key, settings.secrets.old_keys, settings.storage.data
        )
    )


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[Store]:
    """Yield the store as it is, for those who only look into it."""
    storage = settings.storage
    async with await open_store(storage.url, storage.azure_connection_string) as store:
        yield store


@asynccontextmanager
async def opened_for_work(settings: Settings) -> AsyncIterator[Store]:
    """Yield the store once its data has the shape that this version works with."""
    async with opened_store(settings) as store:
        await refuse_unfinished_copy(store)
        await bring_up_to_date(store)
        await StoreHistory(store, settings.storage.data).pause_if_lost()
        yield store


@asynccontextmanager
async def opened_services(settings: Settings) -> AsyncIterator[Services]:
    async with opened_for_work(settings) as store:
        services = Services(store, make_keyring(settings))
        try:
            yield services
        finally:
            await services.counts.write()
            await services.events.settle()
            await services.keys.settle()


@asynccontextmanager
async def opened_sending(settings: Settings) -> AsyncIterator[tuple[Store, Transport]]:
    """What a process needs that sends: the store, and its part of the way out."""
    async with opened_for_work(settings) as store, opened_transport(settings) as transport:
        owner = f"{socket.gethostname()}-{os.getpid()}"
        most = settings.transport.connections_in_all
        async with shared_connections(store, transport, owner, most):
            yield store, transport


@asynccontextmanager
async def opened_transport(settings: Settings) -> AsyncIterator[Transport]:
    transport = open_transport(
        settings.transport.url,
        folder=settings.storage.data / OUTBOX,
        setting=partial(getattr, settings.transport),
        connections=settings.transport.connections,
    )
    try:
        yield transport
    finally:
        await transport.close()


def find_outbox(settings: Settings) -> OutboxTransport | None:
    """Where mails are kept for people to look at, unless they go out."""
    if sends_mail(settings.transport.url):
        return None
    return OutboxTransport(settings.storage.data / OUTBOX)


def make_sender(store: Store, transport: Transport, settings: Settings) -> Sender:
    how = SenderSettings(
        base_url=settings.web.base_url,
        journals=settings.storage.data / "journals",
        in_doubt=WhenInDoubt(settings.sender.in_doubt),
        lease=settings.sender.lease.total_seconds(),
        retry=_retry_plan(settings),
    )
    if settings.storage.url.startswith("sqlite:"):
        # The engine that has threads, and one transaction for all who write at the same moment.
        how = msgspec.structs.replace(how, one_core=True, settle_together=0.02, most_in_hand=32)
    rate = settings.sender.rate
    return Sender(
        store,
        _paced(store, transport, rate),
        how,
        _domain_limits(store, settings),
        StoreHistory(store, settings.storage.data),
    )


def make_confirmations(store: Store, transport: Transport, settings: Settings) -> Confirmations:
    """Under the same limits; with a place of its own in their line, not behind whole pages."""
    return Confirmations(
        store,
        _paced(store, transport, settings.sender.rate),
        ConfirmationSettings(
            base_url=settings.web.base_url,
            lease=settings.sender.lease.total_seconds(),
            retry=_retry_plan(settings),
        ),
        _domain_limits(store, settings),
    )


def _retry_plan(settings: Settings) -> RetryPlan:
    return RetryPlan(
        settings.sender.retry_first,
        settings.sender.retry_longest,
        settings.sender.retry_for,
    )


def _paced(store: Store, transport: Transport, rate: float | None) -> Transport:
    return PacedTransport(transport, store, Rate(rate)) if rate else transport


def _domain_limits(store: Store, settings: Settings) -> DomainLimits | None:
    given: dict[str, float] = settings.sender.rate_per_domain
    if not given:
        return None
    rates = {ascii_domain(domain): Rate(rate) for domain, rate in given.items()}
    others = rates.pop("*", None)
    return DomainLimits(store, DomainRates(rates, others))


def make_retention(store: Store, settings: Settings) -> Retention:
    return Retention(
        store, archive=settings.storage.keep_archive, events=settings.storage.keep_events
    )


def make_scheduler(store: Store, settings: Settings) -> Scheduler:
    return Scheduler(
        store,
        lease_seconds=settings.processes.scheduler_lease.total_seconds(),
        space=SpaceWatch(store, settings.storage.growing_folders, settings.storage.min_free_space),
    )


async def run_sender(
    store: Store, transport: Transport, settings: Settings, stopping: asyncio.Event
) -> None:
    """Send until `stopping`, watched."""
    watchdog = make_watchdog("sender", store, settings, start_again)
    await watchdog.run(lambda: make_sender(store, transport, settings), stopping)


async def run_confirmations(
    store: Store, transport: Transport, settings: Settings, stopping: asyncio.Event
) -> None:
    """Ask new subscribers to confirm until `stopping`, watched."""
    watchdog = make_watchdog("confirmations", store, settings, start_again)
    await watchdog.run(lambda: make_confirmations(store, transport, settings), stopping)


async def run_scheduler(store: Store, settings: Settings, stopping: asyncio.Event) -> None:
    """Schedule until `stopping`, watched."""
    watchdog = make_watchdog("scheduler", store, settings, start_again)
    await watchdog.run(lambda: make_scheduler(store, settings), stopping)


def stalls_in(settings: Settings) -> Stalls:
    """Return what is known about parts of this machine that made no progress."""
    return Stalls(settings.storage.data / "stalls")


def make_watchdog(
    part: str, store: Store, settings: Settings, replace_process: Callable[[], None]
) -> Watchdog:
    """Return what watches over a part of this process."""
    events = EventService(store)

    def tell(text: str) -> None:
        events.note(part, text, severity=Severity.ERROR)

    limit = settings.processes.stalled_after.total_seconds()
    return Watchdog(part, limit, stalls_in(settings), tell, replace_process)


def make_alerts(store: Store, transport: Transport, settings: Settings) -> Alerts | None:
    """Whoever wants to be told is told; None if nobody wants to."""
    channels: list[Channel] = []
    if to := settings.alerts.email:
        sender = NoticeSender(Services(store).lists, settings.alerts.from_address)
        channels.append(MailChannel(transport, sender, to, settings.web.base_url))
    if url := settings.alerts.webhook:
        channels.append(WebhookChannel(url))
    return Alerts(store, channels) if channels else None
