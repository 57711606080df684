"""The recipients of a message with their outcomes, and decisions on uncertain ones."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from postroom.domain.audience.addresses import parse_address
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import DomainError, Invalid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import FINAL
from postroom.services.messages.sending.outcomes import EmailRecord
from postroom.web.rendering.sorting import ROWS_SHOWN, Sortable, SortColumn, Sorting
from postroom.web.rendering.templating import counted, short
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_INDEX: Final = Sortable[EmailRecord](
    {
        "address": SortColumn("Address", lambda each: each.address),
        "outcome": SortColumn("Outcome", lambda each: each.outcome),
        "attempts": SortColumn("Attempts", lambda each: each.tries, is_number=True),
        "reply": SortColumn("Reply of the mail server", lambda each: each.reply),
    },
    key_order="address",
    order_label="Sorted by address",
    advice="Filter by outcome or search for an address.",
)


async def index(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    outcome = _outcome(visit.parameter("outcome"))
    prefix, after = visit.parameter("q").strip(), visit.parameter("after") or None
    filters = {"outcome": outcome.value if outcome else "", "q": prefix}
    sorting = Sorting(visit, _INDEX, filters)
    counts = (await visit.services.progress.of(message)).counts.as_dict()
    if not prefix:
        sorting.expect(counts[outcome.value if outcome else "planned"])
    outcomes, shown = visit.services.outcomes, None
    if not sorting.is_key_order:
        shown = sorting.select(
            await outcomes.whole(message, outcome=outcome, prefix=prefix, most=sorting.max_rows)
        )
    if shown is None:
        found = await outcomes.slice(
            message, outcome=outcome, prefix=prefix, limit=ROWS_SHOWN, after=after
        )
        shown = found.emails
        sorting.continue_after(found.next)
    return visit.render(
        "admin/messages/emails.html",
        message=message,
        emails=shown,
        counts=counts,
        outcomes=[each.value for each in EmailOutcome],
        outcome=outcome.value if outcome else "",
        prefix=prefix,
        can_decide=outcome is EmailOutcome.IN_DOUBT and message.status not in FINAL,
        sorting=sorting,
    )


async def decide(visit: Visit) -> Response:
    """Record that the selected emails were sent, or send them again."""
    message = await visit.services.messages.get(visit.parameter("ref"))
    decision = await visit.text("decision")
    if decision not in ("sent", "resend"):
        raise Invalid("decision", f"must be 'sent' or 'resend', not {decision[:40]!r}")
    emails = [each for each in (await visit.form()).getlist("email") if isinstance(each, str)]
    back = f"/messages/{message.ref}/emails?outcome={EmailOutcome.IN_DOUBT}"
    if not emails:
        return visit.redirect(back, "No recipients selected.")
    done, problem = 0, ""
    for email in emails[:ROWS_SHOWN]:
        try:
            address = parse_address(email)
            await visit.services.in_doubt.decide(message, address, was_sent=decision == "sent")
            done += 1
        except DomainError as exc:
            problem = str(exc)
    what = "marked as sent" if decision == "sent" else "queued to be sent again"
    await visit.audit(f"decided on uncertain emails: {what}", f"{done} of message {message.ref}")
    flash = f"{counted(done, 'email', 'emails')} {what}."
    return visit.redirect(
        back, f"{flash} Some could not be changed: {short(problem)}." if problem else flash
    )


def _outcome(text: str) -> EmailOutcome | None:
    return EmailOutcome(text) if text in set(EmailOutcome) else None


VIEWS = (
    View("/messages/{ref}/emails", index, right=ListRight.VIEW),
    View("/messages/{ref}/emails/decide", decide, right=ListRight.SEND, methods=("POST",)),
)
