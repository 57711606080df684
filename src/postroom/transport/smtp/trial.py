"""Sends one test email and records the dialogue with the mail server, for the page Mail server.

The record is limited in lines and length, and the whole trial in time, whatever the server does. It
contains no password: what follows AUTH is masked, even where the server repeats it.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from typing import Final

import msgspec

from postroom.errors import PostroomError
from postroom.mail.mailing import Mailing, Recipient
from postroom.mail.wire_addresses import envelope_address, needs_smtputf8
from postroom.transport.smtp.handshake import HandshakeFailed, open_connection
from postroom.transport.smtp.replies import Reply, SmtpStage
from postroom.transport.smtp.reply_meaning import judge
from postroom.transport.smtp.servers import SmtpServer, Timeouts
from postroom.transport.smtp.smtp_connection import ConnectionOwner, SmtpConnection
from postroom.transport.smtp.smtp_transport import NoPool
from postroom.transport.smtp.trial_advice import Advice, advice_for

MASK: Final = "●●●"
_SECONDS: Final = 30.0
_TIMEOUTS: Final = Timeouts(connect=10.0, greeting=15.0, command=15.0, data=15.0, content=20.0)
_MOST_LINES: Final = 80
_LONGEST_LINE: Final = 300


class DialogueLine(msgspec.Struct, frozen=True):
    """One line: `who` is "us", "server", or empty for a remark."""

    who: str
    text: str


class TrialResult(msgspec.Struct, frozen=True):
    """The result of the test email. If the server accepted it, `problem` is empty and `reply` is
    the server's reply."""

    dialogue: tuple[DialogueLine, ...]
    reply: str = ""
    problem: str = ""
    advice: Advice | None = None


class _EmailRefused(PostroomError):
    """The server is ready to send, but does not accept this email."""

    def __init__(self, server: SmtpServer, stage: SmtpStage, reply: Reply) -> None:
        super().__init__(f"{server}, in reply to {stage}: {reply.text}")
        self.reason = judge(stage, reply).reason


class Transcript:
    """Records a dialogue without secrets."""

    def __init__(self, server: SmtpServer) -> None:
        self.lines: list[DialogueLine] = []
        self._is_in_login = False
        self._secrets = _secrets_of(server)

    def remark(self, text: str) -> None:
        self._add("", text)

    def sent(self, command: bytes) -> None:
        if command.endswith(b"\r\n.\r\n"):
            self.remark(f"the test email, {len(command):,} bytes")
            return
        words = command.decode("utf-8", "replace").split()
        if self._is_in_login:
            self._add("us", MASK)
        elif words[:1] == ["AUTH"]:
            self._is_in_login = True
            self._add("us", " ".join([*words[:2], *(MASK for _ in words[2:3])]))
        else:
            self._add("us", " ".join(words))

    def received(self, reply: Reply) -> None:
        if reply.code != 334:  # RFC 4954 4: the server asks for more
            self._is_in_login = False
        if not reply.lines:
            self._add("server", reply.text)
        for line in reply.lines:
            self._add("server", f"{reply.code} {line}")

    def without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def _add(self, who: str, text: str) -> None:
        text = self.without_secrets(text)
        if len(text) > _LONGEST_LINE:
            text = f"{text[:_LONGEST_LINE]}…"
        if len(self.lines) < _MOST_LINES:
            self.lines.append(DialogueLine(who, text))
        elif len(self.lines) == _MOST_LINES:
            self.lines.append(DialogueLine("", "… the rest is not shown"))


def _secrets_of(server: SmtpServer) -> list[str]:
    """Return how the password may appear in a line, longest first."""
    if not server.password:
        return []
    user, password = server.username.encode(), server.password.encode()
    encoded = [b64encode(b"\0".join((b"", user, password))), b64encode(password)]
    return sorted([server.password, *(each.decode() for each in encoded)], key=len, reverse=True)


class _RecordedConnection(SmtpConnection):
    def __init__(self, server: SmtpServer, owner: ConnectionOwner, transcript: Transcript) -> None:
        super().__init__(server, owner)
        self._transcript = transcript

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transcript.remark(f"connected to {self.address('peername')}")
        self._remark_tls()

    async def ask(self, command: bytes, seconds: float) -> Reply:
        self._transcript.sent(command)
        return await super().ask(command, seconds)

    async def reply(self, seconds: float) -> Reply:
        found = await super().reply(seconds)
        self._transcript.received(found)
        return found

    async def start_tls(self, context: ssl.SSLContext, seconds: float) -> None:
        await super().start_tls(context, seconds)
        self._remark_tls()

    def _remark_tls(self) -> None:
        if self.tls_version is not None:
            self._transcript.remark(f"encrypted with {self.tls_version}")


async def try_server(
    server: SmtpServer, mailing: Mailing, recipient: Recipient, *, seconds: float = _SECONDS
) -> TrialResult:
    """Send one email through one server. `Invalid` for an address that cannot be sent to."""
    transcript = Transcript(server)
    transcript.remark(f"connecting to {server}")
    try:
        async with asyncio.timeout(seconds):
            reply = await _send(server, mailing, recipient, transcript)
        return TrialResult(tuple(transcript.lines), reply=reply.text)
    except TimeoutError:
        problem, reason = f"{server} took longer than {seconds:g} s", "The mail server is too slow"
    except HandshakeFailed as exc:
        problem, reason = str(exc), exc.result.reason
    except _EmailRefused as exc:
        problem, reason = str(exc), exc.reason
    except OSError as exc:
        problem = f"{server}: {str(exc) or type(exc).__name__}"
        reason = "The mail server closed the connection"
    problem = transcript.without_secrets(problem)
    return TrialResult(tuple(transcript.lines), problem=problem, advice=advice_for(problem, reason))


async def _send(
    server: SmtpServer, mailing: Mailing, recipient: Recipient, transcript: Transcript
) -> Reply:
    """Return the reply that accepts the email. `HandshakeFailed`, `_EmailRefused`."""
    sender, to = mailing.from_address, recipient.address
    option = " SMTPUTF8" if needs_smtputf8(sender) or needs_smtputf8(to) else ""
    envelope = (
        (SmtpStage.MAIL, f"MAIL FROM:<{envelope_address(sender)}>{option}"),
        (SmtpStage.RCPT, f"RCPT TO:<{envelope_address(to)}>"),
        (SmtpStage.DATA, "DATA"),
    )

    def make(server: SmtpServer, owner: ConnectionOwner) -> SmtpConnection:
        return _RecordedConnection(server, owner, transcript)

    connection = await open_connection(server, _TIMEOUTS, NoPool(), make)
    try:
        for stage, command in envelope:
            reply = await connection.ask(f"{command}\r\n".encode(), _TIMEOUTS.for_stage(stage))
            if reply.code != 354 if stage is SmtpStage.DATA else not reply.is_positive:
                raise _EmailRefused(server, stage, reply)
        content = mailing.wire(recipient) + b".\r\n"
        reply = await connection.ask(content, _TIMEOUTS.content)
        if not reply.is_positive:
            raise _EmailRefused(server, SmtpStage.CONTENT, reply)
        return reply
    finally:
        connection.leave(_TIMEOUTS.quit)
