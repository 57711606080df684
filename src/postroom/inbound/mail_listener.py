"""Receives bounces from a mail server, by LMTP or SMTP.

It accepts mail only for signed bounce addresses and the fixed bounce address, and replies 250 only
after the mail is stored and queued. If the store cannot be used, it replies 451, and the mail
server keeps the mail. With a certificate, it offers STARTTLS.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

import msgspec
from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session

from postroom import __version__
from postroom.domain.errors import Invalid
from postroom.domain.messages.delivery.bounces import BounceSource
from postroom.inbound.listener_certificate import ListenerCertificate, ListenerError
from postroom.services.audience.bounces.identification import BounceIdentification
from postroom.services.audience.bounces.intake import LARGEST, BounceIntake
from postroom.storage import StoreError

log = logging.getLogger(__name__)

_TIMEOUT: Final = 60.0  # seconds for one command, or for one email
_LONGEST_LINE: Final = (
    100_000  # bytes; RFC 5321 allows 1,000, but servers that return HTML exceed it
)
_CLOSING_SECONDS: Final = 5.0
_REPLY_SECONDS: Final = 0.1


class ListenerSettings(msgspec.Struct, frozen=True):
    """Where to listen, and for which addresses."""

    bind: str
    port: int
    protocol: str
    domain: str
    address: str
    connections: int = 50
    """The most connections at the same time."""

    certificate: str = ""
    key: str = ""
    """Files in PEM format; without a key, it is in the certificate's file."""


class _SmtpConversation(SMTP):
    line_length_limit = _LONGEST_LINE

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.event_handler.ended(self)


class _LmtpConversation(LMTP, _SmtpConversation):
    """LMTP, which differs in its greeting only: we accept one recipient at a time."""


class _Refusal(asyncio.Protocol):
    """A conversation that ends before it begins."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.WriteTransport):
            transport.write(b"421 4.3.2 Too many connections; try again later\r\n")
        transport.close()


class MailListener:
    def __init__(
        self,
        intake: BounceIntake,
        identification: BounceIdentification,
        settings: ListenerSettings,
    ) -> None:
        self._intake = intake
        self._identification = identification
        self._settings = settings
        self._is_lmtp = settings.protocol == "lmtp"
        self._conversations = set[SMTP]()
        self._certificate = (
            ListenerCertificate(settings.certificate, settings.key)
            if settings.certificate
            else None
        )
        self._storing: set[asyncio.Task[str]] = set()
        self.port = settings.port

    async def run(self, stopping: asyncio.Event) -> None:
        """Receive email until `stopping`; emails in progress are finished. `ListenerError`."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                self._conversation, self._settings.bind, self._settings.port
            )
        except OSError as exc:
            where = f"{self._settings.bind}:{self._settings.port}"
            raise ListenerError(
                f"cannot listen for mail on {where} ({exc.strerror}): set POSTROOM_INBOUND_PORT to"
                " a free port"
            ) from exc
        self.port = server.sockets[0].getsockname()[1]
        log.info("receiving bounces by %s on port %d", self._settings.protocol.upper(), self.port)
        await stopping.wait()
        server.close()
        await self._finish()

    async def _finish(self) -> None:
        """Reply to emails that are being stored, then close all connections."""
        if self._storing:  # without our reply, they would be delivered again
            await asyncio.wait(self._storing, timeout=_CLOSING_SECONDS)
            await asyncio.sleep(_REPLY_SECONDS)
        for conversation in list(self._conversations):
            if conversation.transport is not None:
                conversation.transport.close()

    def _conversation(self) -> asyncio.BaseProtocol:
        if len(self._conversations) >= self._settings.connections:
            log.warning("refused a mail server: %d are connected", len(self._conversations))
            return _Refusal()
        kind = _LmtpConversation if self._is_lmtp else _SmtpConversation
        conversation = kind(
            self,
            data_size_limit=LARGEST,
            enable_SMTPUTF8=True,
            hostname=socket.gethostname(),
            ident=f"Postroom {__version__}",
            timeout=_TIMEOUT,
            tls_context=None if self._certificate is None else self._certificate.context(),
        )
        self._conversations.add(conversation)
        return conversation

    # -- called by aiosmtpd ------------------------------------------------------------------

    def ended(self, conversation: SMTP) -> None:
        """Forget a conversation whose connection is closed."""
        self._conversations.discard(conversation)

    async def handle_RCPT(  # noqa: N802 - its name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if not self.accepts(address):
            return "550 5.1.1 This is not a bounce address of this Postroom"
        if envelope.rcpt_tos:  # one email, one reply: LMTP has one for each recipient
            return "452 4.5.3 One recipient at a time"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(  # noqa: N802 - its name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        content = envelope.original_content or b""
        storing = asyncio.create_task(self.store(content, envelope.rcpt_tos[0]))
        self._storing.add(storing)
        storing.add_done_callback(self._storing.discard)
        return await storing

    def accepts(self, address: str) -> bool:
        """Return whether mail for this address is for us: signed by us, or the fixed address."""
        local, _, domain = address.rpartition("@")
        if self._settings.address and address.lower() == self._settings.address.lower():
            return True
        if not self._settings.domain or domain.lower() != self._settings.domain:
            return False
        # What others put before it, such as BATV's prefix, does no harm.
        return self._identification.signer.read(local) is not None

    async def store(self, content: bytes, recipient: str) -> str:
        """Store an email and return the reply."""
        source = BounceSource.LMTP if self._is_lmtp else BounceSource.SMTP
        try:
            name = await self._intake.keep(content, source, recipient)
        except Invalid as exc:
            return f"554 5.6.0 {exc}"
        except StoreError as exc:
            log.warning(
                "a bounce could not be stored, so the mail server will send it again: %s", exc
            )
            return "451 4.3.0 The store cannot be used at the moment; try again later"
        return f"250 2.0.0 Stored as {name.rpartition('/')[2]}"
