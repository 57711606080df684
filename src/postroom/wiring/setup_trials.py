"""Tries what Settings → Bounces and Settings → Alerts have set up, and says what is wrong."""

from __future__ import annotations

import asyncio
import imaplib
import poplib
import secrets
from contextlib import suppress
from typing import Final

import msgspec

from postroom import clock
from postroom.alerts import AlertFailed, Channel
from postroom.errors import PostroomError
from postroom.inbound.mailbox_connections import (
    MailboxError,
    MailboxUrl,
    connect,
    parse_mailbox_url,
)
from postroom.services.events import Event, Severity
from postroom.settings import Settings
from postroom.wiring.all_services import Services
from postroom.wiring.opening import opened_transport
from postroom.wiring.processes import make_channels

_SECONDS: Final = 20.0
_ALL_ADDRESSES: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class SetupTrial(msgspec.Struct, frozen=True):
    """What became of an attempt, as a sentence."""

    name: str
    text: str
    works: bool


async def try_bounce_inputs(settings: Settings) -> list[SetupTrial]:
    """Log in to the mailbox, and connect to the mail listener, if they are set up. Nothing is
    fetched."""
    trials = []
    if settings.bounces.mailbox:
        trials.append(await _try_mailbox(settings.bounces.mailbox))
    if settings.bounces.port is not None:
        trials.append(await _try_listener(settings.bounces.bind, settings.bounces.port))
    return trials


async def try_alerts(services: Services, settings: Settings) -> list[SetupTrial]:
    """Send a test alert on each way that is set up."""
    event = Event(
        id=f"test-{secrets.token_hex(8)}",
        at=clock.now(),
        severity=Severity.WARNING,
        part="alerts",
        text="This is a test alert",
        subject="",
    )
    try:
        async with opened_transport(settings, services) as transport:
            channels = make_channels(services, transport, settings)
            return [await _try_channel(channel, event) for channel in channels]
    except PostroomError as exc:
        return [SetupTrial("Email", str(exc), False)]


async def _try_channel(channel: Channel, event: Event) -> SetupTrial:
    name = {"mail": "Email", "webhook": "Webhook"}[channel.name]
    try:
        async with asyncio.timeout(_SECONDS):
            await channel.test(event)
    except TimeoutError:
        return SetupTrial(name, f"No reply within {_SECONDS:.0f} seconds.", False)
    except (AlertFailed, PostroomError) as exc:
        return SetupTrial(name, f"Not delivered: {exc}", False)
    return SetupTrial(name, "The test alert was accepted.", True)


async def _try_mailbox(setting: str) -> SetupTrial:
    url = parse_mailbox_url(setting)  # was checked when it was set
    try:
        async with asyncio.timeout(_SECONDS):
            count = await asyncio.to_thread(_count_mails, url)
    except TimeoutError:
        return SetupTrial("Mailbox", f"{url} does not reply within {_SECONDS:.0f} seconds.", False)
    except MailboxError as exc:
        return SetupTrial("Mailbox", f"{exc}", False)
    except (OSError, imaplib.IMAP4.error, poplib.error_proto) as exc:
        return SetupTrial("Mailbox", f"{url} cannot be used: {exc}", False)
    waiting = "1 email is waiting" if count == 1 else f"{count:,} emails are waiting"
    return SetupTrial("Mailbox", f"Logged in to {url}; {waiting}.", True)


def _count_mails(url: MailboxUrl) -> int:
    mailbox = connect(url)
    try:
        mailbox.open()
        count = len(mailbox.names())
        mailbox.close()
        return count
    finally:
        with suppress(OSError):
            mailbox.disconnect()


async def _try_listener(bind: str, port: int) -> SetupTrial:
    host = _ALL_ADDRESSES.get(bind, bind)
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            greeting = (await reader.readline()).decode("ascii", "replace").strip()
            writer.close()
    except (OSError, TimeoutError, ValueError):
        text = (
            f"Nothing accepts mail on {host}:{port} of this machine. The listener is part of"
            " postroom up and postroom inbound; if it runs on another machine, test it there."
        )
        return SetupTrial("Mail listener", text, False)
    if not greeting.startswith("220") or "Postroom" not in greeting:
        return SetupTrial("Mail listener", f"Another program listens there: {greeting[:80]}", False)
    return SetupTrial("Mail listener", f"It accepts mail on {host}:{port}.", True)
