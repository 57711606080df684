"""The mail server or provider, tried as far as possible without sending."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from postroom.checks.findings import Finding, FindingState, one_line
from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.lists import SubscriberGuid
from postroom.errors import PostroomError
from postroom.mail.mailing import Recipient
from postroom.mail.system_mail import compile_notice
from postroom.services.operations.notice_sender import NoFromAddress, NoticeSender
from postroom.settings import Settings
from postroom.transport.contract import ResultKind, Unwatched
from postroom.transport.registry import sends_mail
from postroom.wiring import Services, opened_store, opened_transport


async def check_transport(settings: Settings) -> list[Finding]:
    try:
        async with opened_transport(settings) as transport:
            found = await transport.check()
    except PostroomError as exc:
        origin = settings.found["transport"].origin
        advice = f"Check the setting transport (from {origin})."
        return [Finding("transport", FindingState.ERROR, one_line(exc), advice)]
    if not sends(settings):
        advice = "To send emails, set transport to smtp://… or sendgrid://."
        return [Finding("transport", FindingState.WARNING, found, advice)]
    return [Finding("transport", FindingState.OK, found)]


async def send_test_mail(settings: Settings, to: str, from_address: str = "") -> Finding:
    """Send a short email on request: the only check that sends."""
    address = parse_address(to)
    try:
        sender = parse_address(from_address) if from_address else await _sender(settings)
    except NoFromAddress as exc:
        return Finding(
            "test mail", FindingState.ERROR, str(exc), "Or give one with --from ADDRESS."
        )
    except PostroomError as exc:
        return Finding("test mail", FindingState.ERROR, one_line(exc))
    mailing = compile_notice(
        from_address=sender,
        subject="Postroom: a test mail",
        text="If you read this, Postroom can send emails.\n",
        date=datetime.now(UTC),
        key=secrets.token_hex(8),
    )
    recipient = Recipient(address, SubscriberGuid("administrator"))
    try:
        async with opened_transport(settings) as transport:
            [result] = await transport.send(mailing, [recipient], Unwatched())
    except PostroomError as exc:
        return Finding("test mail", FindingState.ERROR, one_line(exc))
    if result.kind is not ResultKind.ACCEPTED:
        advice = "The server's reply says why."
        return Finding("test mail", FindingState.ERROR, f"{result.kind}: {result.reply}", advice)
    return Finding("test mail", FindingState.OK, f"from {sender} to {address}: {result.reply}")


async def _sender(settings: Settings) -> Address:
    async with opened_store(settings) as store:
        return await NoticeSender(Services(store).lists, settings.alerts.from_address).address()


def sends(settings: Settings) -> bool:
    """Return whether emails leave this machine at all."""
    return sends_mail(settings.transport.url)
