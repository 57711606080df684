"""A test email through a mail server that may not be in use yet, as a sender would send it."""

from __future__ import annotations

from collections.abc import Sequence

from postroom.domain.errors import Invalid
from postroom.errors import PostroomError
from postroom.mail.mailing import Mailing, Recipient
from postroom.sender.signing import SigningTransport
from postroom.settings import Settings
from postroom.transport.contract import Result, ResultKind, Transport, Unwatched, Watcher
from postroom.transport.smtp.servers import SmtpServer, parse_servers
from postroom.transport.smtp.trial import TrialResult, try_server
from postroom.transport.smtp.trial_advice import Advice
from postroom.wiring.all_services import Services
from postroom.wiring.opening import opened_transport

_NOT_SENT = "The test email was not sent"


class _Trial(Transport):
    """Sends one email through one server, and keeps the dialogue."""

    def __init__(self, server: SmtpServer) -> None:
        self._server = server
        self.found: TrialResult | None = None

    async def send(
        self, mailing: Mailing, recipients: Sequence[Recipient], watcher: Watcher
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
