"""Emails: one message to one subscriber, its possible outcomes, and the sum that always holds."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from postroom.domain.errors import NotNow


class EmailOutcome(StrEnum):
    """The outcome of an email so far. Deferred emails count as pending, because they will be
    retried."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    SUPPRESSED = "suppressed"
    IN_DOUBT = "in_doubt"


TRANSITIONS: dict[EmailOutcome, frozenset[EmailOutcome]] = {
    EmailOutcome.PENDING: frozenset(
        {
            EmailOutcome.ACCEPTED,
            EmailOutcome.REFUSED,
            EmailOutcome.SUPPRESSED,
            EmailOutcome.IN_DOUBT,
        }
    ),
    # Only an administrator can end the doubt: it was sent, or it is to be sent again.
    EmailOutcome.IN_DOUBT: frozenset({EmailOutcome.ACCEPTED, EmailOutcome.PENDING}),
    # If the same reply refused nearly everyone, it was not about them. ('Retry failed recipients'
    # creates another message to the same people; the record of this one stays.)
    EmailOutcome.REFUSED: frozenset({EmailOutcome.PENDING}),
    EmailOutcome.ACCEPTED: frozenset(),
    EmailOutcome.SUPPRESSED: frozenset(),
}


def check_outcome(current: EmailOutcome, to: EmailOutcome) -> None:
    """Raise `NotNow` unless the table allows this change."""
    if to not in TRANSITIONS[current]:
        raise NotNow(f"an email that is {current} cannot become {to}")


class Counts(msgspec.Struct, frozen=True):
    """The outcomes of the emails of a message, or of one of its pages.

    `possible_duplicates` are emails that were sent again, or given up, after an attempt without a
    reply: mostly a part of `accepted`, but those refused or cancelled afterwards count, too.
    """

    planned: int = 0
    accepted: int = 0
    refused: int = 0
    suppressed: int = 0
    in_doubt: int = 0
    possible_duplicates: int = 0
    deferred: int = 0
    """A part of pending: emails that wait for another attempt, or for a hold to be lifted."""

    @property
    def done(self) -> int:
        return self.accepted + self.refused + self.suppressed + self.in_doubt

    @property
    def pending(self) -> int:
        return self.planned - self.done

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.planned + other.planned,
            self.accepted + other.accepted,
            self.refused + other.refused,
            self.suppressed + other.suppressed,
            self.in_doubt + other.in_doubt,
            self.possible_duplicates + other.possible_duplicates,
            self.deferred + other.deferred,
        )

    def as_dict(self) -> dict[str, int]:
        """Return the counts as in the API: planned = pending + accepted + refused + suppressed +
        in_doubt."""
        return {
            "planned": self.planned,
            "pending": self.pending,
            "accepted": self.accepted,
            "refused": self.refused,
            "suppressed": self.suppressed,
            "in_doubt": self.in_doubt,
            "possible_duplicates": self.possible_duplicates,
            "deferred": self.deferred,
        }


def total(counts: Iterable[Counts]) -> Counts:
    result = Counts()
    for each in counts:
        result += each
    return result
