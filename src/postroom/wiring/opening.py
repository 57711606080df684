"""Opening the store, the services and the transport that the settings name."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from postroom.encryption import Keyring, load_all_keys
from postroom.sender.limits.connection_share import shared_connections
from postroom.sender.signing import SigningTransport
from postroom.services.operations.store_conversions import bring_up_to_date
from postroom.services.operations.store_copy import refuse_unfinished_copy
from postroom.services.operations.store_history import StoreHistory
from postroom.settings import Settings
from postroom.storage import Store, open_store
from postroom.transport.contract import Transport
from postroom.transport.outbox_folder import OutboxFolder
from postroom.transport.registry import open_transport, sends_mail
from postroom.wiring.all_services import Services

OUTBOX = "outbox"
"""The subfolder of the data folder for the transport `outbox:`."""


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
async def opened_shared_transport(
    services: Services, settings: Settings
) -> AsyncIterator[Transport]:
    """Yield the transport of a sending process, which keeps to its share of the connections."""
    async with opened_transport(settings, services) as transport:
        owner = f"{socket.gethostname()}-{os.getpid()}"
        most = settings.transport.connections_in_all
        async with shared_connections(services.store, transport, owner, most):
            yield transport


@asynccontextmanager
async def opened_transport(
    settings: Settings, services: Services | None = None
) -> AsyncIterator[Transport]:
    """Yield the transport of the settings. With the services, it signs emails of domains that have
    DKIM keys; without, it is only for looking at it."""
    transport = open_transport(
        settings.transport.url,
        folder=settings.storage.data / OUTBOX,
        setting=partial(getattr, settings.transport),
        connections=settings.transport.connections,
    )
    if services is not None and transport.keeps_bytes:
        transport = SigningTransport(transport, services.signing_keys)
    try:
        yield transport
    finally:
        await transport.close()


def find_outbox(settings: Settings) -> OutboxFolder | None:
    """Return the outbox if emails are kept in it instead of being sent."""
    if sends_mail(settings.transport.url):
        return None
    return OutboxFolder(settings.storage.data / OUTBOX)
