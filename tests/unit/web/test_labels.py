"""The words that pages use for stored values."""

from __future__ import annotations

from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import MessageStatus
from postroom.web.rendering.templating import (
    OUTCOME_LABELS,
    STATUS_LABELS,
    typographic,
    with_status_labels,
)


def test_every_status_and_outcome_has_a_label() -> None:
    assert set(STATUS_LABELS) == set(MessageStatus)
    assert set(OUTCOME_LABELS) == set(EmailOutcome)


def test_errors_on_pages_name_statuses_as_pages_do() -> None:
    text = "a Completed message cannot be deleted, only a Draft or Pending one"
    expected = "a Sent message cannot be deleted, only a Draft or Scheduled one"
    assert with_status_labels(text) == expected


def test_apostrophes_and_quotes_on_pages_are_typographic() -> None:
    text = "The mail server's reply was 'no', not 'yes'"
    assert typographic(text) == "The mail server’s reply was “no”, not “yes”"
