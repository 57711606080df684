"""What an email or an event of a provider says about one email, before it is known which."""

from __future__ import annotations

import msgspec

from postroom.domain.messages.delivery.bounces import LONGEST_DIAGNOSTIC, BounceKind
from postroom.transport.smtp.bounce_verdicts import Verdict, judge_mailbox


class BounceReport(msgspec.Struct, frozen=True):
    """`searched` is the text in which our identifiers may be found; `key` is the same whenever the
    same report arrives again."""

    addresses: tuple[str, ...]
    verdict: Verdict
    searched: str
    key: str


def provider_verdict(kind: BounceKind, text: str, status: str = "") -> Verdict:
    """Return the verdict on an event that a provider calls `kind`. The mail server's own reply, if
    it is quoted and says more, counts: the same reply gets the same verdict everywhere."""
    if kind in (BounceKind.COMPLAINT, BounceKind.AUTO_REPLY, BounceKind.CHALLENGE):
        return Verdict(kind, status, text=text[:LONGEST_DIAGNOSTIC])
    is_temporary = True if kind is BounceKind.TEMPORARY else None
    judged = judge_mailbox(text, status, is_temporary=is_temporary)
    if judged.kind is BounceKind.UNKNOWN or (judged.kind is BounceKind.TEMPORARY and not text):
        return Verdict(kind, judged.status, text=judged.text)
    return judged
