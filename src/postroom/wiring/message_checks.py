"""Looking at a message before it is sent: test emails, preview and preflight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from postroom.domain.audience.addresses import Address, domain_of
from postroom.domain.messages.web_pages import known_web_url
from postroom.sender.draft_emails import parse_test_addresses, send_tests
from postroom.sender.message_preflight import PreflightService
from postroom.sender.message_rendering import Renderer
from postroom.services.audience.fields.field_gaps import FieldGaps
from postroom.services.messages.checks.link_checks import LinkTrial
from postroom.services.messages.checks.preflight import inspect_base_url
from postroom.services.messages.domains.domain_checks import DomainChecks, OurSending
from postroom.settings import Settings
from postroom.transport.contract import Result
from postroom.transport.registry import sends_mail
from postroom.wiring.all_services import Services
from postroom.wiring.opening import opened_transport

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver


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
    async with opened_transport(settings, services) as transport:
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
            known_web_url(settings.web.base_url, message),
        )
    return list(zip(addresses, results, strict=True))


def make_preflight(services: Services, settings: Settings, renderer: Renderer) -> PreflightService:
    transport, own_host = settings.transport, urlsplit(settings.web.base_url).hostname or ""
    leaves = sends_mail(transport.url)
    links, records = None, None
    if transport.online_checks == "yes":
        links = LinkTrial()
        if leaves:
            records = make_domain_checks(services, settings)
    gaps = FieldGaps(services.fields, services.audiences)
    return PreflightService(
        renderer,
        services.pictures,
        links,
        records,
        gaps,
        services.audiences,
        own_host,
        list(inspect_base_url(settings.web.base_url)) if leaves else (),
    )


def make_domain_checks(
    services: Services, settings: Settings, resolver: Resolver | None = None
) -> DomainChecks:
    """Return the checks of the DNS records of sending domains; without a resolver, with
    that of this machine."""
    bounces, transport = settings.bounces, settings.transport
    ours = OurSending(
        selector=transport.dkim_selector,
        addresses=transport.sending_addresses,
        envelope_domain=bounces.domain or (domain_of(bounces.address) if bounces.address else ""),
    )
    return DomainChecks(
        services.dkim_keys,
        ours,
        resolver,
        is_online=settings.transport.online_checks == "yes",
    )


def make_renderer(services: Services, settings: Settings) -> Renderer:
    return Renderer(
        services.messages,
        services.composing,
        services.lists,
        services.subscriptions,
        services.audiences,
        settings.web.base_url,
    )
