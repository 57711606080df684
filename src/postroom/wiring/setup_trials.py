"""Tries mail server, bounces and alerts as they are set up, and says what is wrong."""

from __future__ import annotations

import asyncio
import imaplib
import poplib
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from postroom import clock
from postroom.alerts import AlertFailed, Channel
from postroom.domain.errors import Invalid
from postroom.errors import PostroomError
from postroom.inbound.mailbox_connections import (
    MailboxError,
    MailboxUrl,
    connect,
    parse_mailbox_url,
)
from postroom.mail.mailing import Mailing, Recipient
from postroom.sender.signing import SigningTransport
from postroom.services.events import Event, Severity
from postroom.settings import Settings
from postroom.transport.contract import (
    ConnectionQuota,
    Result,
    ResultKind,
    Transport,
    Unwatched,
    Watcher,
)
from postroom.transport.smtp.servers import SmtpServer, parse_servers
from postroom.transport.smtp.trial import TrialResult, try_server
from postroom.transport.smtp.trial_advice import Advice
from postroom.wiring.all_services import Services
from postroom.wiring.opening import opened_transport
from postroom.wiring.processes import make_channels

_SECONDS: Final = 20.0
_ALL_ADDRESSES: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
_NOT_SENT = "The test email was not sent"


class SetupTrial(msgspec.Struct, frozen=True):
    """The result of a trial, as a sentence."""

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
    """Send a test alert through each channel that is set up."""
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


class _Trial(Transport):
    """Sends one email through one server that may not be in use yet, and keeps the dialogue."""

    def __init__(self, server: SmtpServer) -> None:
        self._server = server
        self.found: TrialResult | None = None

    async def send(
        self,
        mailing: Mailing,
        recipients: Sequence[Recipient],
        watcher: Watcher,
        quota: ConnectionQuota | None = None,
    ) -> list[Result]:
        [recipient] = recipients
        self.found = await try_server(self._server, mailing, recipient)
        kind = ResultKind.ACCEPTED if self.found.advice is None else ResultKind.REFUSED
        return [Result(kind, self.found.reply or self.found.problem)]

    async def check(self) -> str:
        return str(self._server)

    async def close(self) -> None:
        return


async def send_trial(
    services: Services, settings: Settings, url: str, mailing: Mailing, recipient: Recipient
) -> TrialResult:
    """Send an email by a transport URL; of several servers, the first is tried. It is signed like
    all others. A URL that is not for SMTP must be that of the settings."""
    try:
        if url.startswith(("smtp://", "smtps://")):
            return await _send_by_smtp(services, url, mailing, recipient)
        async with opened_transport(settings, services) as transport:
            [result] = await transport.send(mailing, [recipient], Unwatched())
    except (Invalid, PostroomError) as exc:
        return _failed(str(exc))
    is_accepted = result.kind is ResultKind.ACCEPTED
    return TrialResult((), reply=result.reply) if is_accepted else _failed(result.reply)


async def _send_by_smtp(
    services: Services, url: str, mailing: Mailing, recipient: Recipient
) -> TrialResult:
    trial = _Trial(parse_servers(url)[0])
    signing = SigningTransport(trial, services.signing_keys)
    try:
        [result] = await signing.send(mailing, [recipient], Unwatched())
    finally:
        await signing.close()
    return trial.found or _failed(result.reply)


def _failed(problem: str) -> TrialResult:
    return TrialResult((), problem=problem, advice=Advice(_NOT_SENT, "The text below says why."))
