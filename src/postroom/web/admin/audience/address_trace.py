"""The history of one address: sign-up, confirmation, unsubscribing and every email."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from postroom.domain.audience.addresses import parse_address
from postroom.domain.audience.lists import Subscriber
from postroom.domain.errors import Invalid
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.services.accounts.users import Role
from postroom.services.audience.personal_data import Departure, TracedEmails
from postroom.services.messages.outcomes import EmailRecord
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

# Each message costs a binary search through its pages.
_MESSAGES_AT_ONCE = 20

_EMAIL_TEXTS = {
    EmailOutcome.PENDING: ("waiting to be sent", "busy"),
    EmailOutcome.ACCEPTED: ("accepted by the mail server", "good"),
    EmailOutcome.REFUSED: ("refused by the mail server", "bad"),
    EmailOutcome.SUPPRESSED: ("skipped: no longer a confirmed subscriber", "warn"),
    EmailOutcome.IN_DOUBT: ("uncertain: handed to the mail server, which did not reply", "warn"),
}


class TimelineEntry(msgspec.Struct, frozen=True):
    """One event. `url` leads to the list or message that it is about."""

    at: datetime
    text: str
    about: str
    url: str
    kind: str = ""
    detail: str = ""


async def trace(visit: Visit) -> Response:
    typed = visit.parameter("email").strip()
    if not typed:
        return visit.render("admin/audience/address_trace.html", email="", problem="", found=None)
    try:
        address = parse_address(typed, "email")
    except Invalid as exc:
        return visit.render(
            "admin/audience/address_trace.html",
            status=422,
            email=typed,
            problem=exc.problem,
            found=None,
        )
    before = visit.parameter("before") or None
    traced = await visit.services.tracing.emails(address, before=before, limit=_MESSAGES_AT_ONCE)
    entries = list(_of_emails(traced))
    if visit.is_partial:
        return visit.render(
            "admin/audience/address_trace_emails.html",
            email=address,
            entries=entries,
            traced=traced,
            before=before,
        )
    tracing = visit.services.tracing
    subscriptions, departures = await asyncio.gather(
        tracing.subscriptions(address), tracing.departures(address)
    )
    return visit.render(
        "admin/audience/address_trace.html",
        email=address,
        problem="",
        found=subscriptions,
        signing_up=newest_first([*of_subscriptions(subscriptions), *of_departures(departures)]),
        entries=entries,
        traced=traced,
        before=before,
    )


def of_subscriptions(subscriptions: Iterable[Subscriber]) -> Iterable[TimelineEntry]:
    for each in subscriptions:
        name = each.list_name
        url = f"/lists/{name}/subscribers/{quote(each.address)}"
        if each.blocked:
            text = f"blocked: {each.blocked}"
            yield TimelineEntry(datetime.now(UTC), text, name, url, "bad")
        if each.verified_at is not None:
            yield TimelineEntry(each.verified_at, "confirmed", name, url, "good")
        yield TimelineEntry(each.created_at, "signed up or added", name, url)


def of_departures(departures: Iterable[Departure]) -> Iterable[TimelineEntry]:
    for each in departures:
        url = f"/lists/{each.list_name}"
        yield TimelineEntry(each.left_at, "unsubscribed", each.list_name, url, "warn")


def _of_emails(traced: TracedEmails) -> Iterable[TimelineEntry]:
    for message, email in traced.emails:
        yield _of_email(message, email)


def _of_email(message: Message, email: EmailRecord) -> TimelineEntry:
    text, kind = _EMAIL_TEXTS[email.outcome]
    notes = [email.reply] if email.reply else []
    if email.tries > 1:
        notes.append(f"tried {email.tries} times")
    if email.was_in_doubt:
        notes.append("sent again after an interruption: it may have arrived twice")
    return TimelineEntry(
        email.at or message.due_at,
        text,
        message.subject,
        f"/messages/{message.ref}",
        kind,
        " · ".join(notes),
    )


def newest_first(entries: Iterable[TimelineEntry]) -> list[TimelineEntry]:
    return sorted(entries, key=lambda entry: entry.at, reverse=True)


VIEWS = (View("/trace", trace, role=Role.VIEWER),)
