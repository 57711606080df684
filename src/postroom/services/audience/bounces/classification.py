"""What a returned mail says about each recipient: the parts of RFC 3464 first, then the text."""

from __future__ import annotations

import msgspec

from postroom.domain.messages.bounces import BounceKind
from postroom.mail.bounces.natures import Nature
from postroom.mail.bounces.reading import ReturnedMail
from postroom.mail.bounces.status_reports import RecipientReport
from postroom.transport.smtp.bounce_verdicts import Verdict, judge_mailbox, judge_sentences

_KINDS = {
    Nature.COMPLAINT: BounceKind.COMPLAINT,
    Nature.AUTO_REPLY: BounceKind.AUTO_REPLY,
    Nature.CHALLENGE: BounceKind.CHALLENGE,
}


class JudgedReport(msgspec.Struct, frozen=True):
    """A verdict on one recipient; the address is only a hint."""

    address: str
    verdict: Verdict


def classify(mail: ReturnedMail) -> list[JudgedReport]:
    """Return the verdicts of a returned email; none for an ordinary email or one that is only
    delayed: it may still be delivered."""
    if mail.nature in (Nature.ORDINARY, Nature.DELAY):
        return []
    if mail.nature is not Nature.BOUNCE:
        first = mail.text[0] if mail.text else ""
        return [JudgedReport("", Verdict(_KINDS[mail.nature], text=first[:500]))]
    return [JudgedReport(each.address, _verdict(mail, each)) for each in mail.reports]


def _verdict(mail: ReturnedMail, report: RecipientReport) -> Verdict:
    is_temporary = report.is_temporary or None
    by_field = judge_mailbox(report.diagnostic, report.status, is_temporary=is_temporary)
    is_certain = by_field.kind not in (BounceKind.UNKNOWN, BounceKind.TEMPORARY)
    if is_certain or (report.diagnostic and by_field.kind is BounceKind.TEMPORARY):
        return by_field
    by_text = judge_sentences(_about(mail.text, report.address), report.status, report.is_temporary)
    if by_text.kind is BounceKind.UNKNOWN:
        return by_field
    return by_text


def _about(paragraphs: tuple[str, ...], address: str) -> list[str]:
    """Return the paragraphs that are about this address: from the one that names it up to the next
    address. If none names it, all of them."""
    positions = [i for i, each in enumerate(paragraphs) if address and address in each]
    if not positions:
        return list(paragraphs)
    own = [
        f"{paragraphs[i]} {following}".strip()
        for i in positions
        for following in (_next_without_address(paragraphs, i), "")
    ]
    return [*own, *(each for i, each in enumerate(paragraphs) if "@" not in each)]


def _next_without_address(paragraphs: tuple[str, ...], position: int) -> str:
    following = paragraphs[position + 1] if position + 1 < len(paragraphs) else ""
    return "" if "@" in following else following
