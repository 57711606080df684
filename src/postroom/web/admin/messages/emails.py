"""What became of each email of a message, and the decision on those in doubt."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from postroom.domain.audience.addresses import parse_address
from postroom.domain.errors import DomainError, Invalid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import FINAL
from postroom.services.accounts.users import Role
from postroom.services.messages.outcomes import EmailRecord
from postroom.web.admin.wording import counted, short
from postroom.web.rendering.sorting import A_PAGE, Column, Sortable, Sorting
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit

_INDEX: Final = Sortable[EmailRecord](
    {
        "address": Column("Address", lambda each: each.address),
        "outcome": Column("Outcome", lambda each: each.outcome),
        "tries": Column("Tries", lambda each: each.tries, is_number=True),
        "reply": Column("What the mail server said", lambda each: each.reply),
    },
    natural="address",
    in_words="In the order of addresses",
    advice="Choose an outcome or search for fewer.",
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
    if not sorting.is_natural:
        shown = sorting.page_of(
            await outcomes.whole(message, outcome=outcome, prefix=prefix, most=sorting.most)
        )
    if shown is None:
        page = await outcomes.page(
            message, outcome=outcome, prefix=prefix, limit=A_PAGE, after=after
        )
        shown = page.emails
        sorting.in_key_order(page.next)
    return visit.page(
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
    """For the ticked ones: they were sent, or they are to be sent again."""
    message = await visit.services.messages.get(visit.parameter("ref"))
    decision = await visit.text("decision")
    if decision not in ("sent", "resend"):
        raise Invalid("decision", "is 'sent' or 'resend'")
    emails = [each for each in (await visit.form()).getlist("email") if isinstance(each, str)]
    back = f"/messages/{message.ref}/emails?outcome={EmailOutcome.IN_DOUBT}"
    if not emails:
        return visit.redirect(back, "Nobody was ticked: nothing was decided.")
    done, problem = 0, ""
    for email in emails[:A_PAGE]:
        try:
            address = parse_address(email)
            await visit.services.doubts.decide(message, address, was_sent=decision == "sent")
            done += 1
        except DomainError as exc:
            problem = str(exc)
    what = "taken as sent" if decision == "sent" else "to be sent again"
    await visit.audit(f"decided on emails in doubt: {what}", f"{done} of message {message.ref}")
    said = f"{counted(done, 'email is', 'emails are')} {what}."
    return visit.redirect(back, f"{said} Not all: {short(problem)}." if problem else said)


def _outcome(text: str) -> EmailOutcome | None:
    return EmailOutcome(text) if text in set(EmailOutcome) else None


PAGES = (
    Page("/messages/{ref}/emails", index, role=Role.VIEWER),
    Page("/messages/{ref}/emails/decide", decide, role=Role.EDITOR, methods=("POST",)),
)
