"""Reads what came in, finds out which email it is about, and records it.

What is recorded is removed; what nobody can make sense of is kept for a while, with an event, so
that somebody can look at it. Every step can be repeated: the same report has the same event ID.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from postroom.domain.errors import Invalid
from postroom.domain.messages.bounces import Bounce, BounceSource
from postroom.domain.messages.providers import provider_of
from postroom.mail.bounces.natures import Nature
from postroom.mail.bounces.reading import read_mail
from postroom.services.audience.bounces.classification import classify
from postroom.services.audience.bounces.identification import BounceIdentification, IdentifiedEmail
from postroom.services.audience.bounces.intake import BounceIntake
from postroom.services.audience.bounces.providers.hook_requests import HookRefused
from postroom.services.audience.bounces.providers.provider_hooks import HOOKS
from postroom.services.audience.bounces.reports import BounceReport
from postroom.services.events import EventService

log = logging.getLogger(__name__)

PART = "bounces"
Recorder = Callable[[Bounce], Awaitable[object]]


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
        log.info("%d bounces in %s (%s) match no email that Postroom sent", count, name, source)
        text = f"A bounce ({source}) matches no email that Postroom sent"
        self._events.note(PART, f"{text}; it is kept as the blob {name}.")


def read_reports(content: bytes, source: BounceSource, recipient: str) -> list[BounceReport]:
    """Return what an email, or an event of a provider, reports about our emails."""
    hook = HOOKS.get(source)
    if hook is None:
        return _mail_reports(content, recipient)
    try:
        return hook.reports(content)
    except HookRefused:  # it was not JSON: nobody could have sent it
        return []


def _mail_reports(content: bytes, recipient: str) -> list[BounceReport]:
    """Return at most one report: each of our emails has one recipient."""
    mail = read_mail(content)
    if mail.nature is Nature.ORDINARY:
        return []
    judged = classify(mail)
    if not judged:
        return []
    key = mail.message_id or hashlib.sha256(content).hexdigest()
    searched = f"{recipient}\n{mail.searched}"
    # What is reported may be the mailbox that the email was forwarded to.
    addresses = (*mail.returned_to, *(each.address for each in judged if each.address))
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
