"""What became of each email of a message, and the decision on those in doubt."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from postroom.domain.addresses import parse_address
from postroom.domain.emails import EmailOutcome
from postroom.domain.errors import DomainError, Invalid
from postroom.domain.messages import FINAL
from postroom.services.users import Role
from postroom.web.admin.wording import counted, short
from postroom.web.routing import Page
from postroom.web.visit import Visit

_A_PAGE: Final = 50


async def index(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    outcome = _outcome(visit.parameter("outcome"))
    prefix, after = visit.parameter("q").strip(), visit.parameter("after") or None
    page = await visit.services.outcomes.page(
        message, outcome=outcome, prefix=prefix, limit=_A_PAGE, after=after
    )
    progress = await visit.services.progress.of(message)
    query = {"outcome": outcome.value if outcome else "", "q": prefix}
    query = {name: text for name, text in query.items() if text}
    here = f"/messages/{message.ref}/emails"
    return visit.page(
        "admin/emails.html",
        message=message,
        emails=page.emails,
        counts=progress.counts.as_dict(),
        outcomes=[each.value for each in EmailOutcome],
        outcome=outcome.value if outcome else "",
        prefix=prefix,
        can_decide=outcome is EmailOutcome.IN_DOUBT and message.status not in FINAL,
        next_url=f"{here}?{urlencode({**query, 'after': page.next})}" if page.next else "",
        first_url=f"{here}?{urlencode(query)}" if after else "",
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
    for email in emails[:_A_PAGE]:
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
