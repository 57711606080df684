"""Reads and judges what came in, finds out which email it is about, and records it.

Recorded items are removed. Items that cannot be understood are kept for a while, with an event, so
that someone can look at them. Every step can be repeated: the same report has the same event ID.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import msgspec

from postroom.domain.errors import Invalid
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind, BounceSource
from postroom.domain.messages.delivery.providers import provider_of
from postroom.mail.bounces.mail_kinds import MailKind
from postroom.mail.bounces.reading import ReturnedMail, read_mail
from postroom.mail.bounces.status_reports import RecipientReport
from postroom.services.audience.bounces.identification import BounceIdentification, IdentifiedEmail
from postroom.services.audience.bounces.intake import BounceIntake
from postroom.services.audience.bounces.providers.hook_requests import HookRefused
from postroom.services.audience.bounces.providers.provider_hooks import HOOKS
from postroom.services.audience.bounces.reports import BounceReport
from postroom.services.events import EventService
from postroom.transport.smtp.bounce_verdicts import Verdict, judge_mailbox, judge_sentences

log = logging.getLogger(__name__)

PART = "bounces"
Recorder = Callable[[Bounce], Awaitable[object]]
_KINDS = {
    MailKind.COMPLAINT: BounceKind.COMPLAINT,
    MailKind.AUTO_REPLY: BounceKind.AUTO_REPLY,
    MailKind.CHALLENGE: BounceKind.CHALLENGE,
}


class BounceProcessing:
    def __init__(
        self,
        intake: BounceIntake,
        identification: BounceIdentification,
        events: EventService,
        record: Recorder,
    ) -> None:
        self._intake = intake
        self._identification = identification
        self._events = events
        self._record = record

    async def process(
        self, name: str, source: BounceSource, recipient: str, received_at: datetime
    ) -> int:
        """Record what is stored under this name; return how many bounces it reported."""
        content = await self._intake.read(name)
        if content is None:  # recorded before an interruption
            return 0
        reports = read_reports(content, source, recipient)
        unidentified = 0
        for report in reports:
            email = await self._identification.identify(report.searched, report.addresses)
            if email is None:
                unidentified += 1
                continue
            if email.address is None:
                self._note_erased(source, email)
            await self._record(_bounce(report, email, source, received_at))
        if unidentified:
            self._note_unidentified(name, source, unidentified)
        elif reports:
            await self._intake.remove(name)
        return len(reports) - unidentified

    def _note_erased(self, source: BounceSource, email: IdentifiedEmail) -> None:
        text = f"A bounce ({source}) of message {email.ref} is about an address that was erased"
        self._events.note(PART, f"{text}; it is not counted.")

    def _note_unidentified(self, name: str, source: BounceSource, count: int) -> None:
        log.info(
            "bounces in %s (%s) that match no email that Postroom sent: %d", name, source, count
        )
        text = f"A bounce ({source}) matches no email that Postroom sent"
        self._events.note(PART, f"{text}; it is kept as the blob {name}.")


def read_reports(content: bytes, source: BounceSource, recipient: str) -> list[BounceReport]:
    """Return what an email, or an event of a provider, reports about our emails."""
    hook = HOOKS.get(source)
    if hook is None:
        return _mail_reports(content, recipient)
    try:
        return hook.reports(content)
    except HookRefused:  # it was not JSON, so it should not have been accepted
        return []


def _mail_reports(content: bytes, recipient: str) -> list[BounceReport]:
    """Return at most one report: each of our emails has one recipient."""
    mail = read_mail(content)
    if mail.kind is MailKind.ORDINARY:
        return []
    judged = classify(mail, most=1)
    if not judged:
        return []
    key = mail.message_id or hashlib.sha256(content).hexdigest()
    searched = f"{recipient}\n{mail.searched}"
    # What is reported may be the mailbox that the email was forwarded to.
    reported = mail.reports if mail.kind is MailKind.BOUNCE else ()
    addresses = (*mail.returned_to, *(each.address for each in reported if each.address))
    return [BounceReport(addresses, judged[0].verdict, searched, key)]


def _bounce(
    report: BounceReport, email: IdentifiedEmail, source: BounceSource, received_at: datetime
) -> Bounce:
    verdict = report.verdict
    what = f"{email.ref},{email.guid},{verdict.kind},{verdict.status},{report.key}"
    return Bounce(
        kind=verdict.kind,
        event_id=hashlib.sha256(what.encode()).hexdigest(),
        source=source,
        received_at=received_at,
        list_name=email.list_name,
        subscriber=email.guid,
        address=email.address,
        ref=email.ref,
        diagnostic=verdict.text,
        status=verdict.status,
        by_code=verdict.by_code,
        provider=None if email.address is None else provider_of(email.address),
    )


def parse_source(text: str) -> BounceSource:
    """Return the source that a queue message names. `Invalid`."""
    try:
        return BounceSource(text)
    except ValueError as exc:
        known: Sequence[str] = [each.value for each in BounceSource]
        raise Invalid("source", f"must be one of {', '.join(known)}, not {text[:40]!r}") from exc


class JudgedReport(msgspec.Struct, frozen=True):
    """A verdict on one recipient; the address is only a hint."""

    address: str
    verdict: Verdict


def classify(mail: ReturnedMail, most: int | None = None) -> list[JudgedReport]:
    """Return what a returned email says about each recipient, or about the first ones: the parts of
    RFC 3464 first, then the text. Nothing for an ordinary email or one that is only delayed: it may
    still be delivered."""
    if mail.kind in (MailKind.ORDINARY, MailKind.DELAY):
        return []
    if mail.kind is not MailKind.BOUNCE:
        first = mail.text[0] if mail.text else ""
        return [JudgedReport("", Verdict(_KINDS[mail.kind], text=first[:500]))]
    return [JudgedReport(each.address, _verdict(mail, each)) for each in mail.reports[:most]]


def _verdict(mail: ReturnedMail, report: RecipientReport) -> Verdict:
    is_temporary = report.is_temporary or None
    by_field = judge_mailbox(report.diagnostic, report.status, is_temporary=is_temporary)
    is_certain = by_field.kind not in (BounceKind.UNKNOWN, BounceKind.TEMPORARY)
    if is_certain or (report.diagnostic and by_field.kind is BounceKind.TEMPORARY):
        return by_field
    others = {each.address for each in mail.reports} - {report.address, ""}
    sentences = _about(mail.text, report.address, others)
    by_text = judge_sentences(sentences, report.status, report.is_temporary)
    if by_text.kind is BounceKind.UNKNOWN:
        return by_field
    return by_text


def _about(paragraphs: tuple[str, ...], address: str, others: set[str]) -> list[str]:
    """Return the paragraphs that are about this address: those that name it, each with the next
    one, and those that name no other recipient. Other addresses do no harm: replies name the
    sender, too."""
    shared = [not any(other in each for other in others) for each in paragraphs]
    positions = [i for i, each in enumerate(paragraphs) if address and address in each]
    own = [
        f"{paragraphs[i]} {following}".strip()
        for i in positions
        for following in (_following(paragraphs, shared, i), "")
    ]
    return [*own, *(each for each, is_shared in zip(paragraphs, shared, strict=True) if is_shared)]


def _following(paragraphs: tuple[str, ...], shared: list[bool], position: int) -> str:
    position += 1
    return paragraphs[position] if position < len(paragraphs) and shared[position] else ""
