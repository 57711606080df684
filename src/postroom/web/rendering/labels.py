"""The words that pages use for stored values, and for numbers of things."""

from __future__ import annotations

import re
from typing import Final

from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus

STATUS_LABELS: Final = {
    MessageStatus.PENDING: "Scheduled",
    MessageStatus.QUEUING: "Preparing",
    MessageStatus.PROCESSING: "Sending",
    MessageStatus.COMPLETED: "Sent",
    MessageStatus.PAUSED: "Paused",
    MessageStatus.CANCELLED: "Cancelled",
}
OUTCOME_LABELS: Final = {
    EmailOutcome.PENDING: "Waiting",
    EmailOutcome.ACCEPTED: "Accepted",
    EmailOutcome.REFUSED: "Refused",
    EmailOutcome.SUPPRESSED: "Skipped",
    EmailOutcome.IN_DOUBT: "Uncertain",
}


def status_label(status: str) -> str:
    return STATUS_LABELS[MessageStatus(status)]


_STORED_STATUS: Final = re.compile(rf"\b({'|'.join(STATUS_LABELS)})\b")


def with_status_labels(text: str) -> str:
    """Replace the stored statuses in the text of an error by those that pages show."""
    return _STORED_STATUS.sub(lambda found: status_label(found[0]), text)


def outcome_label(outcome: str) -> str:
    return OUTCOME_LABELS[EmailOutcome(outcome)]


def counted(count: int, one: str, many: str) -> str:
    """Return for example "1 address" or "2,000 addresses"."""
    return f"{count:,} {one if count == 1 else many}"


def short(text: str, longest: int = 200) -> str:
    """Shorten user input for a flash message, which has to fit into a cookie."""
    return text if len(text) <= longest else f"{text[:longest]}…"
