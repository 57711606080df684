"""Decides what to write for the verdicts on a page's emails, without a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.emails import Counts, EmailOutcome, check_outcome
from postroom.sender.policy import Attempt, EmailVerdict
from postroom.services import entities
from postroom.storage import DeleteMany, Entity, InsertMany, Merge, Operation, Value

_Kind: TypeAlias = tuple[EmailOutcome, int, bool]
"""Records with the same outcome, number of attempts and mark of doubt are alike."""


class Settlement(msgspec.Struct, frozen=True):
    """Records for `messagearchive`, changes of `message`, and the new counts of the page."""

    archive: list[InsertMany]
    changes: list[Operation]
    counts: Counts


def settlement(
    partition: str,
    verdicts: Mapping[Address, EmailVerdict],
    emails: Mapping[Address, entities.EmailRow],
    leftover: Sequence[str],
    before: Counts,
    now: datetime,
) -> Settlement:
    """Archive and remove finished emails, remove the `leftover` rows that are archived already, and
    mark those to be retried. `before` has the counts of the page so far."""
    done: dict[_Kind, dict[str, dict[str, str]]] = {}
    alike: dict[str, dict[str, str]] = {}
    last: tuple[EmailOutcome, Attempt] | None = None
    changes: list[Operation] = []
    pending = EmailOutcome.PENDING
    for address, verdict in verdicts.items():
        outcome, attempt = verdict.outcome, verdict.attempt
        email = emails[address]
        row = email.row_of(address) if email.EmailAddress else address  # seldom spelled otherwise
        if outcome is pending:
            changes.append(Merge(Entity(partition, row, _pending_properties(verdict, now))))
            continue
        if last is None or last[0] is not outcome or last[1] is not attempt:
            last = outcome, attempt
            alike = done.setdefault((outcome, attempt.tries, attempt.was_in_doubt), {})
        alike[row] = own = {"SubscriberGUID": email.SubscriberGUID, "Reply": verdict.reply[:1000]}
        if email.EmailAddress:
            own["EmailAddress"] = email.EmailAddress
    gone = [*leftover, *(row for rows in done.values() for row in rows)]
    if gone:
        changes.append(DeleteMany(partition, gone))
    tally = Counter[tuple[EmailOutcome, bool]]()
    for (outcome, _, was_in_doubt), rows in done.items():
        check_outcome(pending, outcome)
        tally[outcome, was_in_doubt] += len(rows)
    return Settlement(
        archive=[InsertMany(partition, rows, _shared(*kind, now)) for kind, rows in done.items()],
        changes=changes,
        # What waits now is added by the caller, which knows the holds.
        counts=msgspec.structs.replace(before + _counts(tally), deferred=0),
    )


def recounted(planned: int, archived: Iterable[Entity]) -> Counts:
    """Return the counts of a page according to the archive."""
    tally = Counter(
        (
            EmailOutcome(entities.read(each, "Outcome", str)),
            each.properties.get("WasInDoubt") is True,
        )
        for each in archived
    )
    return Counts(planned=planned) + _counts(tally)


def _counts(tally: Mapping[tuple[EmailOutcome, bool], int]) -> Counts:
    def count(outcome: EmailOutcome) -> int:
        return tally[outcome, False] + tally[outcome, True]

    return Counts(
        accepted=count(EmailOutcome.ACCEPTED),
        refused=count(EmailOutcome.REFUSED),
        suppressed=count(EmailOutcome.SUPPRESSED),
        in_doubt=count(EmailOutcome.IN_DOUBT),
        possible_duplicates=sum(tally[outcome, True] for outcome in EmailOutcome),
    )


def _shared(
    outcome: EmailOutcome, tries: int, was_in_doubt: bool, now: datetime
) -> dict[str, Value]:
    properties: dict[str, Value] = {
        "Outcome": outcome.value,
        "EmailSent": outcome is EmailOutcome.ACCEPTED,
        "Tries": tries,
        "At": now,
    }
    if was_in_doubt:
        properties["WasInDoubt"] = True
    return properties


def _pending_properties(verdict: EmailVerdict, now: datetime) -> dict[str, Value]:
    attempt = verdict.attempt
    properties: dict[str, Value] = {"Tries": attempt.tries, "Reply": verdict.reply[:1000]}
    if attempt.first_tried_at is not None:
        properties["FirstTriedAt"] = attempt.first_tried_at
    if attempt.was_in_doubt:
        properties["WasInDoubt"] = True
        properties["Doubts"] = attempt.doubts
    if verdict.next_try_at is not None:
        properties["NextTryAt"] = verdict.next_try_at
        properties["TriedAt"] = now
    return properties
