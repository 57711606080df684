"""What is written of the verdicts on a page's emails."""

from datetime import UTC, datetime

from postroom.domain.audience.addresses import Address
from postroom.domain.messages.emails import Counts, EmailOutcome
from postroom.sender.pages.settling import settlement
from postroom.sender.policy import Attempt, EmailVerdict
from postroom.services.entities import EmailRow
from postroom.storage import DeleteMany, Merge

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
FIRST, SECOND = Attempt(1, NOW), Attempt(2, NOW, doubts=1)
VERDICTS = {
    "a@x": EmailVerdict(EmailOutcome.ACCEPTED, "ok", FIRST),
    "b@x": EmailVerdict(EmailOutcome.REFUSED, "no", FIRST),
    "c@x": EmailVerdict(EmailOutcome.ACCEPTED, "ok", FIRST),
    "d@x": EmailVerdict(EmailOutcome.ACCEPTED, "ok", SECOND),
    "e@x": EmailVerdict(EmailOutcome.PENDING, "later", FIRST, NOW),
    "f@x": EmailVerdict(EmailOutcome.REFUSED, "no", SECOND),
    "g@x": EmailVerdict(EmailOutcome.ACCEPTED, "ok", Attempt(1, NOW)),
}


def test_each_email_is_recorded_with_its_own_outcome_and_attempt() -> None:
    verdicts = {Address(address): verdict for address, verdict in VERDICTS.items()}
    emails = {address: EmailRow(SubscriberGUID=f"guid of {address}") for address in verdicts}
    done = settlement("page", verdicts, emails, [Address("z@x")], Counts(planned=8), NOW)

    recorded = {
        row: (many.shared["Outcome"], many.shared["Tries"], many.shared.get("WasInDoubt"), own)
        for many in done.archive
        for row, own in many.rows.items()
    }
    assert recorded == {
        address: (
            verdict.outcome.value,
            verdict.attempt.tries,
            True if verdict.attempt.was_in_doubt else None,
            {"SubscriberGUID": f"guid of {address}", "Reply": verdict.reply},
        )
        for address, verdict in VERDICTS.items()
        if verdict.outcome is not EmailOutcome.PENDING
    }
    merged = [each.entity.row for each in done.changes if isinstance(each, Merge)]
    [gone] = [each.rows for each in done.changes if isinstance(each, DeleteMany)]
    assert merged == ["e@x"]
    assert sorted(gone) == ["a@x", "b@x", "c@x", "d@x", "f@x", "g@x", "z@x"]
    assert (done.counts.accepted, done.counts.refused) == (4, 2)
    assert done.counts.possible_duplicates == 2
