"""The processes, as the settings describe them: senders, scheduler, alerts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from postroom.alerts import Alerts, Channel, MailChannel, WebhookChannel
from postroom.digest import WeeklyDigest
from postroom.domain.messages.waves.canaries import CanaryRules
from postroom.inbound.bounce_worker import BounceWorker
from postroom.inbound.hit_worker import HitWorker
from postroom.inbound.listener_certificate import ListenerError
from postroom.inbound.mailbox import MailboxReader
from postroom.inbound.mailbox_connections import MailboxError, parse_mailbox_url
from postroom.mail.bounces.envelope_tokens import PURPOSE, EnvelopeSigner
from postroom.mail.wire_addresses import ascii_domain
from postroom.notices import NoticeSender
from postroom.scheduler import Scheduler
from postroom.scheduler.ab_test_work import AbTestWork
from postroom.scheduler.retention import Retention
from postroom.scheduler.suppression_work import SuppressionWork
from postroom.sender import Sender, SenderSettings
from postroom.sender.confirmations import Confirmations, ConfirmationSettings
from postroom.sender.limits.domain_limits import DomainLimits
from postroom.sender.limits.email_rates import DomainRates, EmailRate
from postroom.sender.limits.pacing import PacedTransport
from postroom.sender.limits.provider_limits import ProviderLimits
from postroom.sender.limits.sending_limits import SendingLimits
from postroom.sender.limits.warm_up_limits import WarmUpLimits
from postroom.sender.policy import RetryPlan, WhenInDoubt
from postroom.services.audience.bounces.providers.provider_hooks import HOOKS
from postroom.services.audience.fields.field_changes import UnfinishedRenames
from postroom.services.audience.results.withdrawn_consents import WithdrawnConsents
from postroom.services.audience.suppression.delivery_limits import DeliveryLimits, HoldRates
from postroom.services.events import Severity
from postroom.services.messages.domains.dns_lookups import (
    DnsUnavailable,
    lookups_of_this_machine,
)
from postroom.services.messages.sending.provider_directory import ProviderDirectory
from postroom.services.operations.disk_space import SpaceWatch
from postroom.services.operations.store_history import StoreHistory
from postroom.settings import STORED, Settings
from postroom.storage import Store
from postroom.transport.contract import Transport
from postroom.watchdog import Stalls, Watchdog, start_again
from postroom.wiring.all_services import Services
from postroom.wiring.live_settings import LiveSettings
from postroom.wiring.opening import opened_transport

if TYPE_CHECKING:
    from postroom.inbound.mail_listener import MailListener

_INPUT_SETTINGS = ("inbound_port", "inbound_bind", "bounce_mailbox")


def make_sender(services: Services, transport: Transport, settings: Settings) -> Sender:
    how = SenderSettings(
        base_url=settings.web.base_url,
        journals=settings.storage.data / "journals",
        in_doubt=WhenInDoubt(settings.sender.in_doubt),
        lease=settings.sender.lease.total_seconds(),
        retry=_retry_plan(settings),
        one_core=settings.storage.url.startswith("sqlite:"),  # this engine has threads
        signer=make_signer(services, settings),
    )
    return Sender(
        services,
        _paced(services.store, transport, settings.sender.rate),
        how,
        SendingLimits(
            _domain_limits(services.store, settings),
            make_provider_limits(services, settings),
            WarmUpLimits(services.warm_ups),
        ),
        StoreHistory(services, settings.storage.data),
    )


def make_provider_limits(services: Services, settings: Settings) -> ProviderLimits | None:
    """Return the limits by provider, or None if rates do not adapt."""
    if settings.sender.adaptive_rates != "yes":
        return None
    lookups = None
    if settings.transport.online_checks == "yes":
        with suppress(DnsUnavailable):
            lookups = lookups_of_this_machine()
    directory = ProviderDirectory(services.store, lookups)
    return ProviderLimits(services.store, services.provider_rates, directory)


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


def make_signer(services: Services, settings: Settings) -> EnvelopeSigner | None:
    """Return the signer of envelope senders, or None if bounces simply go to the From address."""
    bounces = settings.bounces
    headers: dict[str, str] = {}
    for hook in HOOKS.values():
        if getattr(bounces, hook.setting):
            headers.update(hook.headers)
    if settings.transport.url.startswith("sendgrid:"):
        headers.clear()  # its API has a field for this
    if not (bounces.domain or bounces.address or bounces.has_hooks):
        return None
    return EnvelopeSigner(
        services.keyring.signing_keys(PURPOSE),
        sender=bounces.address or "",
        domain=bounces.domain,
        provider_headers=headers,
    )


def make_bounce_worker(services: Services, settings: Settings) -> BounceWorker:
    lease = settings.sender.lease.total_seconds()
    return BounceWorker(services.store, services.bounces, lease=lease)


def make_hit_worker(services: Services) -> HitWorker:
    return HitWorker(services.store, services.messages, services.engagement, services.personal_hits)


def make_listener(services: Services, settings: Settings) -> MailListener | None:
    """Return the listener for bounces from a mail server, or None without a port for it.
    `ListenerError`."""
    bounces = settings.bounces
    if bounces.port is None:
        return None
    from postroom.inbound.mail_listener import ListenerSettings, MailListener

    how = ListenerSettings(
        bind=bounces.bind,
        port=bounces.port,
        protocol=bounces.protocol,
        domain=bounces.domain,
        address=bounces.address or "",
        connections=bounces.connections,
        certificate=bounces.certificate,
        key=bounces.certificate_key,
    )
    return MailListener(services.bounce_intake, services.identification, how)


def make_mailbox(services: Services, settings: Settings) -> MailboxReader | None:
    """Return the reader of the bounce mailbox, or None without one. `MailboxError`."""
    if not settings.bounces.mailbox:
        return None
    url = parse_mailbox_url(settings.bounces.mailbox)
    return MailboxReader(services.store, services.bounce_intake, services.events, url)


async def run_bounce_inputs(
    services: Services, live: LiveSettings, stopping: asyncio.Event
) -> None:
    """Receive and fetch bounces until `stopping`, from where the settings say at each time."""
    async with asyncio.TaskGroup() as inputs:
        for make in (make_listener, make_mailbox):
            run = partial(_run_bounce_input, make, services)
            inputs.create_task(live.run(run, lambda found: found.bounces, stopping))


async def _run_bounce_input(
    make: Callable[[Services, Settings], MailListener | MailboxReader | None],
    services: Services,
    settings: Settings,
    ending: asyncio.Event,
) -> None:
    """Run an input until `ending`. If it cannot start as someone set it up in the browser, report
    that: the process has other things to do, and the next change may correct it."""
    try:
        found = make(services, settings)
        if found is not None:
            await found.run(ending)
    except (ListenerError, MailboxError) as exc:
        if all(settings.found[name].origin != STORED for name in _INPUT_SETTINGS):
            raise
        services.events.note("bounces", str(exc), severity=Severity.ERROR)
    await ending.wait()


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


def make_unfinished_renames(services: Services) -> UnfinishedRenames:
    return UnfinishedRenames(services.store, services.field_changes)


def make_withdrawn_consents(services: Services) -> WithdrawnConsents:
    rows = services.subscriber_rows
    return WithdrawnConsents(services.store, services.people, rows, services.times)


def make_suppression_work(services: Services, settings: Settings) -> SuppressionWork:
    limits = DeliveryLimits(
        services.store,
        services.messages,
        services.delivery_figures,
        services.holds,
        services.events,
        HoldRates(
            settings.sender.hold_complaints,
            settings.sender.hold_rejections,
            settings.sender.hold_bounces,
        ),
    )
    return SuppressionWork(services.store, services.suppressions, limits)


def make_ab_test_work(services: Services) -> AbTestWork:
    return AbTestWork(services.store, services.ab_tests)


def make_scheduler(services: Services, settings: Settings) -> Scheduler:
    storage = settings.storage
    return Scheduler(
        services,
        lease_seconds=settings.processes.scheduler_lease.total_seconds(),
        space=SpaceWatch(
            services.space_waits, services.events, storage.growing_folders, storage.min_free_space
        ),
        canary=canary_rules(settings),
    )


def canary_rules(settings: Settings) -> CanaryRules:
    given = settings.canaries
    return CanaryRules(
        above=given.above or None,
        share=given.share or 1.0,
        wait=given.wait,
        refusals=given.refusals,
        rejections=given.rejections,
        complaints=given.complaints,
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


async def run_alerts(services: Services, live: LiveSettings, stopping: asyncio.Event) -> None:
    """Send alerts and digests until `stopping`, to where the settings say at each time."""

    async def run(settings: Settings, ending: asyncio.Event) -> None:
        async with opened_transport(settings, services) as transport:
            running: list[Coroutine[Any, Any, object]] = [ending.wait()]
            if alerts := make_alerts(services, transport, settings):
                running.append(alerts.run(ending))
            running.append(make_digest(services, transport, settings).run(ending))
            await asyncio.gather(*running)

    await live.run(run, lambda found: (found.transport, found.alerts), stopping)


def make_digest(services: Services, transport: Transport, settings: Settings) -> WeeklyDigest:
    """Return what sends the weekly digest to its address and to users who want it."""
    return WeeklyDigest(
        services.store,
        services.results_over_time,
        services.lists,
        services.users,
        services.list_access,
        transport,
        NoticeSender(services.lists, settings.alerts.from_address),
        settings.alerts.digest,
        settings.web.base_url,
    )


def make_alerts(services: Services, transport: Transport, settings: Settings) -> Alerts | None:
    """Return the sender of alerts, or None if no channel is set."""
    channels = make_channels(services, transport, settings)
    return Alerts(services.store, services.events, channels) if channels else None


def make_channels(services: Services, transport: Transport, settings: Settings) -> list[Channel]:
    """Return the channels through which alerts are sent."""
    channels: list[Channel] = []
    if to := settings.alerts.email:
        sender = NoticeSender(services.lists, settings.alerts.from_address)
        channels.append(MailChannel(transport, sender, to, settings.web.base_url))
    if url := settings.alerts.webhook:
        channels.append(WebhookChannel(url))
    return channels
