"""From settings to services and processes: the only place that knows and builds them all."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

from postroom.alerts import Alerts, Channel, MailChannel, WebhookChannel
from postroom.domain.audience.addresses import Address
from postroom.encryption import Keyring, load_all_keys, without_key
from postroom.mail.wire_addresses import ascii_domain
from postroom.notices import NoticeSender
from postroom.scheduler import Scheduler
from postroom.scheduler.retention import Retention
from postroom.sender import Sender, SenderSettings
from postroom.sender.confirmations import Confirmations, ConfirmationSettings
from postroom.sender.doubts import DoubtService
from postroom.sender.draft_mail import parse_test_addresses, send_tests
from postroom.sender.limits.connection_share import shared_connections
from postroom.sender.limits.domain_limits import DomainLimits
from postroom.sender.limits.email_rates import DomainRates, EmailRate
from postroom.sender.limits.pacing import PacedTransport
from postroom.sender.policy import RetryPlan, WhenInDoubt
from postroom.sender.preflight import PreflightService
from postroom.sender.rendered_mail import Renderer
from postroom.services.accounts.access_links import AccessLinks, UserRemoval
from postroom.services.accounts.api_keys import ApiKeyService
from postroom.services.accounts.audit import AuditService
from postroom.services.accounts.sessions import SessionService
from postroom.services.accounts.users import UserService
from postroom.services.audience.audiences import AudienceService
from postroom.services.audience.estimates import EstimateService
from postroom.services.audience.field_changes import FieldChanges
from postroom.services.audience.field_gaps import FieldGaps
from postroom.services.audience.files.exports import ExportService
from postroom.services.audience.files.imports import ImportService
from postroom.services.audience.list_fields import FieldService
from postroom.services.audience.list_growth import GrowthService, ListCounts
from postroom.services.audience.list_sizes import ListSizes
from postroom.services.audience.lists import ListService, LogoService
from postroom.services.audience.personal_data import PersonalDataService, TraceService
from postroom.services.audience.preferences import PreferenceService
from postroom.services.audience.proofs import ProofService
from postroom.services.audience.segments import SegmentService
from postroom.services.audience.signup_limits import SignupLimits
from postroom.services.audience.subscriber_search import SubscriberSearch
from postroom.services.audience.subscriptions import SubscriptionService
from postroom.services.events import EventService, Severity
from postroom.services.idempotency import IdempotencyService
from postroom.services.messages.attached_files import AttachedFiles
from postroom.services.messages.composing import ComposingService
from postroom.services.messages.hold_rows import HoldService
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.link_checks import LinkTrial
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.outcomes import OutcomeService
from postroom.services.messages.page_rows import PageRows
from postroom.services.messages.pictures import PictureService
from postroom.services.messages.progress import MessageHolds, ProgressService
from postroom.services.messages.published_messages import PublishingService
from postroom.services.messages.retries import RetryService
from postroom.services.messages.sending_domains import DomainRecords
from postroom.services.messages.templates import TemplateService
from postroom.services.operations.conversions import bring_up_to_date
from postroom.services.operations.disk_space import SpaceWaits, SpaceWatch
from postroom.services.operations.explorer import ExplorerService
from postroom.services.operations.health import HealthService, ProxySightings, StoreHealth
from postroom.services.operations.store_copy import refuse_unfinished_copy
from postroom.services.operations.store_history import StoreHistory
from postroom.services.operations.system_state import SystemState
from postroom.services.queues.apps import AppRegistry
from postroom.services.queues.delivery import QueueService
from postroom.services.queues.hosts import HostStatusService
from postroom.services.queues.queue_access import AccessService
from postroom.services.queues.queue_overview import QueueOverviewService
from postroom.services.stored_secrets import StoredSecrets
from postroom.settings import Settings
from postroom.storage import Store, open_store
from postroom.transport.contract import Result, Transport
from postroom.transport.outbox_folder import OutboxFolder
from postroom.transport.registry import open_transport, sends_mail
from postroom.watchdog import Stalls, Watchdog, start_again

OUTBOX = "outbox"
"""The subfolder of the data folder for the transport `outbox:`."""


class Services:
    """The use cases over one store, each built once."""

    def __init__(self, store: Store, keyring: Keyring | None = None, base_url: str = "") -> None:
        keyring = keyring or Keyring(without_key)
        self.store = store
        self.secrets = StoredSecrets(store, keyring)
        self.events = EventService(store)
        self.holds = HoldService(store, self.events)
        self.message_rows = MessageRows(store)
        self.lists = ListService(store, self.message_rows)
        self.counts = ListCounts(store)
        self.fields = FieldService(store, self.lists)
        limits = SignupLimits(store)
        self.subscriptions = SubscriptionService(
            store, self.lists, self.counts, self.fields, limits
        )
        self.preferences = PreferenceService(
            store, self.subscriptions.rows, self.fields, limits, keyring
        )
        self.segments = SegmentService(
            store, self.lists, self.fields, self.subscriptions, self.message_rows
        )
        self.field_changes = FieldChanges(store, self.fields, self.segments)
        self.growth = GrowthService(store, self.lists)
        self.sizes = ListSizes(store, self.growth, self.counts)
        self.audiences = AudienceService(store, self.lists, self.fields, self.segments, self.sizes)
        self.messages = MessageService(
            store, self.message_rows, self.events, self.holds, self.audiences
        )
        self.templates = TemplateService(store)
        self.attached_files = AttachedFiles(store)
        self.publishing = PublishingService(store, self.message_rows, base_url)
        self.composing = ComposingService(
            store,
            self.message_rows,
            self.messages,
            self.templates,
            self.publishing,
            self.audiences,
            base_url,
        )
        self.pictures = PictureService(store, self.message_rows, self.templates)
        self.proofs = ProofService(limits, keyring)
        self.logos = LogoService(store, self.lists)
        self.imports = ImportService(store, self.lists, self.fields, self.counts, self.events)
        self.exports = ExportService(self.lists, self.fields, self.subscriptions, self.segments)
        self.pages = PageRows(store)
        self.outcomes = OutcomeService(self.pages)
        self.times = MessageTimes(store, self.messages)
        self.tracing = TraceService(self.lists, self.subscriptions, self.times, self.outcomes)
        self.personal_data = PersonalDataService(
            store, self.subscriptions, self.tracing, self.times, self.pages
        )
        self.doubts = DoubtService(store, self.pages, self.outcomes)
        self.hosts = HostStatusService(store)
        self.apps = AppRegistry(store, self.hosts, keyring)
        self.access = AccessService(store, self.hosts, self.apps)
        self.queues = QueueService(store, self.hosts, self.access, self.events)
        self.queue_overview = QueueOverviewService(store, self.apps, self.queues)
        self.keys = ApiKeyService(store)
        self.idempotency = IdempotencyService(store)
        self.users = UserService(store, self.events, keyring)
        self.sessions = SessionService(store, self.users)
        self.access_links = AccessLinks(store, self.users)
        self.user_removal = UserRemoval(self.users, self.sessions, self.access_links)
        self.audit = AuditService(store)
        self.progress = ProgressService(self.outcomes)
        self.search = SubscriberSearch(store, self.lists)
        self.retries = RetryService(store, self.messages, self.pages, self.outcomes)
        self.estimates = EstimateService(self.sizes, self.audiences, self.times)
        self.message_holds = MessageHolds(self.holds, self.messages, self.outcomes)
        self.health = HealthService(self.hosts, self.queue_overview)
        self.store_health = StoreHealth(store)
        self.space_waits = SpaceWaits(store)
        self.system_state = SystemState(self.health, self.hosts, self.holds, self.space_waits)
        self.explorer = ExplorerService(store)
        self.proxy_sightings = ProxySightings(store)


def make_keyring(settings: Settings) -> Keyring:
    """Return the keys that encrypt secrets in the store; they are loaded on first use."""
    return Keyring(
        lambda: load_all_keys(
            settings.secrets.key, settings.secrets.old_keys, settings.storage.data
        )
    )


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[Store]:
    """Yield the store as it is, for looking into it."""
    storage = settings.storage
    async with await open_store(storage.url, storage.azure_connection_string) as store:
        yield store


@asynccontextmanager
async def opened_services(settings: Settings) -> AsyncIterator[Services]:
    """Yield the services over a store whose data has the shape that this version works with."""
    async with opened_store(settings) as store:
        await refuse_unfinished_copy(store)
        await bring_up_to_date(store)
        services = Services(store, make_keyring(settings), settings.web.base_url)
        await StoreHistory(services, settings.storage.data).pause_if_lost()
        try:
            yield services
        finally:
            await services.counts.write()
            await services.events.settle()
            await services.keys.settle()


@asynccontextmanager
async def opened_sending(settings: Settings) -> AsyncIterator[tuple[Services, Transport]]:
    """Yield what a sending process needs: the services, and a transport that keeps to this
    process's share of the connections."""
    async with opened_services(settings) as services, opened_transport(settings) as transport:
        owner = f"{socket.gethostname()}-{os.getpid()}"
        most = settings.transport.connections_in_all
        async with shared_connections(services.store, transport, owner, most):
            yield services, transport


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


async def send_test_emails(
    services: Services, settings: Settings, ref: str, to: Sequence[str], subscriber: str | None
) -> list[tuple[Address, Result]]:
    """Send a message as a test, with the fields of a subscriber. `Incomplete`, `Invalid`."""
    addresses = parse_test_addresses(to)
    message = await services.messages.get(ref)
    content, bodies = await services.composing.checked(message)
    mailing_list = await services.lists.get(message.list_name)
    found = subscriber and await services.subscriptions.get(message.list_name, subscriber)
    personal = await services.audiences.personal(message.list_name, found or None)
    async with opened_transport(settings) as transport:
        results = await send_tests(
            transport,
            mailing_list,
            content.subject,
            bodies,
            addresses,
            settings.web.base_url,
            content.lines,
            await services.messages.files(message),
            personal,
        )
    return list(zip(addresses, results, strict=True))


def make_preflight(services: Services, settings: Settings, renderer: Renderer) -> PreflightService:
    transport, own_host = settings.transport, urlsplit(settings.web.base_url).hostname or ""
    links, records = None, None
    if transport.online_checks == "yes":
        links = LinkTrial()
        if sends_mail(transport.url):
            records = DomainRecords(transport.dkim_selector)
    gaps = FieldGaps(services.store, services.fields)
    return PreflightService(renderer, services.pictures, links, records, gaps, own_host)


def make_renderer(services: Services, settings: Settings) -> Renderer:
    return Renderer(
        services.messages,
        services.composing,
        services.lists,
        services.subscriptions,
        services.audiences,
        settings.web.base_url,
    )


def find_outbox(settings: Settings) -> OutboxFolder | None:
    """Return the outbox if emails are kept in it instead of being sent."""
    if sends_mail(settings.transport.url):
        return None
    return OutboxFolder(settings.storage.data / OUTBOX)


def make_sender(services: Services, transport: Transport, settings: Settings) -> Sender:
    how = SenderSettings(
        base_url=settings.web.base_url,
        journals=settings.storage.data / "journals",
        in_doubt=WhenInDoubt(settings.sender.in_doubt),
        lease=settings.sender.lease.total_seconds(),
        retry=_retry_plan(settings),
        one_core=settings.storage.url.startswith("sqlite:"),  # this engine has threads
    )
    return Sender(
        services,
        _paced(services.store, transport, settings.sender.rate),
        how,
        _domain_limits(services.store, settings),
        StoreHistory(services, settings.storage.data),
    )


def make_confirmations(
    services: Services, transport: Transport, settings: Settings
) -> Confirmations:
    """Return the sender of confirmations. It has the same limits as senders of pages, and its own
    place in the queue for them, so that it does not wait behind whole pages."""
    return Confirmations(
        services,
        _paced(services.store, transport, settings.sender.rate),
        ConfirmationSettings(
            base_url=settings.web.base_url,
            lease=settings.sender.lease.total_seconds(),
            retry=_retry_plan(settings),
        ),
        _domain_limits(services.store, settings),
    )


def _retry_plan(settings: Settings) -> RetryPlan:
    return RetryPlan(
        settings.sender.retry_first,
        settings.sender.retry_longest,
        settings.sender.retry_for,
    )


def _paced(store: Store, transport: Transport, rate: float | None) -> Transport:
    return PacedTransport(transport, store, EmailRate(rate)) if rate else transport


def _domain_limits(store: Store, settings: Settings) -> DomainLimits | None:
    given: dict[str, float] = settings.sender.rate_per_domain
    if not given:
        return None
    rates = {ascii_domain(domain): EmailRate(rate) for domain, rate in given.items()}
    others = rates.pop("*", None)
    return DomainLimits(store, DomainRates(rates, others))


def make_retention(services: Services, settings: Settings) -> Retention:
    return Retention(
        services, archive=settings.storage.keep_archive, events=settings.storage.keep_events
    )


def make_scheduler(services: Services, settings: Settings) -> Scheduler:
    storage = settings.storage
    return Scheduler(
        services,
        lease_seconds=settings.processes.scheduler_lease.total_seconds(),
        space=SpaceWatch(
            services.space_waits, services.events, storage.growing_folders, storage.min_free_space
        ),
    )


async def run_sender(
    services: Services, transport: Transport, settings: Settings, stopping: asyncio.Event
) -> None:
    """Send until `stopping`, watched."""
    watchdog = make_watchdog("sender", services, settings, start_again)
    await watchdog.run(lambda: make_sender(services, transport, settings), stopping)


async def run_confirmations(
    services: Services, transport: Transport, settings: Settings, stopping: asyncio.Event
) -> None:
    """Ask new subscribers to confirm until `stopping`, watched."""
    watchdog = make_watchdog("confirmations", services, settings, start_again)
    await watchdog.run(lambda: make_confirmations(services, transport, settings), stopping)


async def run_scheduler(services: Services, settings: Settings, stopping: asyncio.Event) -> None:
    """Schedule until `stopping`, watched."""
    watchdog = make_watchdog("scheduler", services, settings, start_again)
    await watchdog.run(lambda: make_scheduler(services, settings), stopping)


def stalls_in(settings: Settings) -> Stalls:
    """Return the record of parts on this machine that made no progress."""
    return Stalls(settings.storage.data / "stalls")


def make_watchdog(
    part: str, services: Services, settings: Settings, replace_process: Callable[[], None]
) -> Watchdog:
    """Return the watchdog of a part of this process."""

    def report(text: str) -> None:
        services.events.note(part, text, severity=Severity.ERROR)

    limit = settings.processes.stalled_after.total_seconds()
    return Watchdog(part, limit, stalls_in(settings), report, replace_process)


def make_alerts(services: Services, transport: Transport, settings: Settings) -> Alerts | None:
    """Return what sends alerts, or None if no channel is set."""
    channels: list[Channel] = []
    if to := settings.alerts.email:
        sender = NoticeSender(services.lists, settings.alerts.from_address)
        channels.append(MailChannel(transport, sender, to, settings.web.base_url))
    if url := settings.alerts.webhook:
        channels.append(WebhookChannel(url))
    return Alerts(services.store, services.events, channels) if channels else None
