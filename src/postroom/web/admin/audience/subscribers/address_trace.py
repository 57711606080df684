"""Everything about one address: its history, its emails, a file with it, and its erasure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from postroom.domain.audience.addresses import Address, address_key, parse_address
from postroom.domain.audience.former_addresses import FormerAddress
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import Subscriber
from postroom.domain.audience.segments import Segment
from postroom.domain.errors import Invalid
from postroom.domain.messages.delivery.bounces import BounceKind
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.services.accounts.users import Role
from postroom.services.audience.personal_data import TracedEmails
from postroom.services.audience.results.personal_hits import PersonResult
from postroom.services.messages.sending.outcomes import EmailRecord
from postroom.services.resources.personal_data import describe_trace
from postroom.web.admin.audience.subscribers.consent_timeline import (
    TimelineEntry,
    history_of,
    ledger_state,
    visible,
)
from postroom.web.rendering.templating import counted
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

# Each message costs a binary search through its pages.
_MESSAGES_AT_ONCE = 20
_LISTS_SHOWN: Final = 20

_EMAIL_TEXTS = {
    EmailOutcome.PENDING: ("waiting to be sent", "busy"),
    EmailOutcome.ACCEPTED: ("accepted by the mail server", "good"),
    EmailOutcome.REFUSED: ("refused by the mail server", "bad"),
    EmailOutcome.SUPPRESSED: ("skipped: no longer a confirmed subscriber", "warn"),
    EmailOutcome.IN_DOUBT: ("uncertain: handed to the mail server, which did not reply", "warn"),
}


_BOUNCE_TEXTS = {
    BounceKind.GONE: "bounced: the mailbox does not exist",
    BounceKind.FULL: "bounced: the mailbox is full",
    BounceKind.TEMPORARY: "bounced: could not be delivered",
    BounceKind.POLICY: "bounced: the provider does not accept our email",
    BounceKind.CONTENT: "bounced: the message was rejected",
    BounceKind.COMPLAINT: "marked as spam by the recipient",
    BounceKind.AUTO_REPLY: "answered by an automatic reply",
    BounceKind.CHALLENGE: "answered by a filter that asks the sender to prove they are human",
    BounceKind.UNKNOWN: "bounced for an unknown reason",
}


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
    tracing = visit.services.tracing
    subscriptions = visible(visit, await tracing.subscriptions(address))
    former = visible(visit, await tracing.former(address, subscriptions))
    traced = await tracing.emails(address, former, before=before, limit=_MESSAGES_AT_ONCE)
    entries = list(_of_emails(visit, traced, address))
    if visit.is_partial:
        return visit.render(
            "admin/audience/address_trace_emails.html",
            email=address,
            entries=entries,
            traced=traced,
            before=before,
        )
    unsubscribes, suppressions, moved = await asyncio.gather(
        tracing.unsubscribes(address),
        visit.services.suppressions.of_address(address),
        tracing.moved(address),
    )
    consent = await tracing.consent(address, subscriptions)
    unsubscribes, moved = visible(visit, unsubscribes), visible(visit, moved)
    consent, suppressions = visible(visit, consent), visible(visit, suppressions)
    if not (subscriptions or unsubscribes or visit.access.may(ListRight.VIEW)):
        suppressions = []  # the address is on none of the lists that exist for this user
    return visit.render(
        "admin/audience/address_trace.html",
        email=address,
        problem="",
        found=subscriptions,
        suppressions=suppressions,
        former=former,
        moved=moved,
        signing_up=history_of(subscriptions, unsubscribes, consent),
        ledger=ledger_state(consent),
        entries=entries,
        traced=traced,
        before=before,
    )


def _of_emails(visit: Visit, traced: TracedEmails, address: Address) -> Iterable[TimelineEntry]:
    for message, email in traced.emails:
        if not visit.messages.sees(message):
            continue
        engaged = traced.engagement.get(message.ref)
        if engaged is not None and engaged.subscriber.tracking:
            yield from _of_engagement(message, engaged)
        for each in reversed(traced.bounces.get(message.ref, [])):
            url = f"/messages/{message.ref}"
            yield TimelineEntry(
                each.at, _BOUNCE_TEXTS[each.kind], message.subject, url, "bad", each.diagnostic
            )
        yield _of_email(message, email, address)


def _of_engagement(message: Message, found: PersonResult) -> Iterable[TimelineEntry]:
    url = f"/messages/{message.ref}"
    if found.clicked_at is not None:
        note = " · ".join(found.links)
        yield TimelineEntry(found.clicked_at, "clicked a link", message.subject, url, "good", note)
    if found.opened_at is not None:
        yield TimelineEntry(found.opened_at, "opened", message.subject, url, "good", "")


def _of_email(message: Message, email: EmailRecord, address: Address) -> TimelineEntry:
    text, kind = _EMAIL_TEXTS[email.outcome]
    notes = [email.reply] if email.reply else []
    if address_key(email.address) != address_key(address):
        notes.append(f"to {email.address}")
    if message.more_lists:
        notes.append(f"as a subscriber of {message.lists[email.list_number]}")
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


async def export(visit: Visit) -> Response:
    """Return everything about an address as a file."""
    address = parse_address(visit.parameter("email"), "email")
    traced = await visit.services.tracing.trace(address)
    await visit.audit("downloaded personal data of", address)
    data = msgspec.json.encode(describe_trace(traced))
    return Response(
        msgspec.json.format(data, indent=2),
        media_type="application/json",
        headers={"Content-Disposition": 'attachment; filename="personal-data.json"'},
    )


async def erase(visit: Visit) -> Response:
    """Ask, then erase. The audit log does not name the address."""
    if visit.request.method == "GET":
        address = parse_address(visit.parameter("email"), "email")
        tracing = visit.services.tracing
        subscriptions = await tracing.subscriptions(address)
        former = await tracing.former(address, subscriptions)
        moved = await tracing.moved(address)
        return visit.render(
            "admin/confirm.html",
            title=f"Erase everything about {address}?",
            points=[
                _on_lists(subscriptions),
                *_changed(former, moved),
                *_in_rules(await visit.services.segments.naming(address)),
                *_CONSEQUENCES,
            ],
            button="Erase permanently",
            fields={"email": address},
            back=f"/trace?email={quote(address)}",
        )
    done = await visit.services.personal_data.erase(await visit.text("email"))
    await visit.audit("erased a person", f"from {counted(len(done.lists), 'list', 'lists')}")
    later = ""
    if done.waiting:
        waiting = counted(len(done.waiting), "message", "messages")
        later = f" The records of {waiting} still being sent will follow."
    return visit.redirect("/trace", f"Erased from lists, ledger and email records.{later}")


_CONSEQUENCES: Final = (
    "Fields, notes and the details of the consent ledger are deleted. The ledger keeps its entries"
    " without address, consent text and IP digest, so that it can still be verified.",
    "Records of emails lose the address, and those of opens and clicks are deleted. The totals of"
    " messages stay the same.",
    "A suppressed address stays suppressed: only a digest of it is kept.",
    "Lists forget that this person unsubscribed: importing an old file would add them again.",
    "Audit log entries that name the address stay until they expire, and so do log files,"
    " backups and emails in the outbox.",
    "This cannot be undone. If it is interrupted, Postroom finishes it automatically.",
)


def _on_lists(subscriptions: list[Subscriber]) -> str:
    if not subscriptions:
        return "The address is not on any list."
    names = ", ".join(each.list_name for each in subscriptions[:_LISTS_SHOWN])
    more = len(subscriptions) - _LISTS_SHOWN
    which = f"{names} and {more:,} more" if more > 0 else names
    count = counted(len(subscriptions), "list", "lists")
    return f"The address is removed from {count}: {which}. Its links stop working."


def _changed(former: list[FormerAddress], moved: list[Subscriber]) -> Iterable[str]:
    if keys := dict.fromkeys(each.key for each in former):
        yield (
            f"Emails that this person received at former addresses ({_some(keys)}) are erased, too."
            " If someone else has such an address now, their emails are kept."
        )
    if moved:
        now = (f"{each.address} on {each.list_name}" for each in moved)
        yield (
            f"This address was changed to another one, which stays: {_some(now)}. If that is the"
            " same person, erase it as well."
        )


def _in_rules(segments: list[Segment]) -> Iterable[str]:
    if segments:
        names = _some(f"{each.name} of {each.list_name}" for each in segments)
        yield f"The rules of these segments contain the address until you edit them: {names}."


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - _LISTS_SHOWN:,} more" if len(shown) > _LISTS_SHOWN else ""
    return ", ".join(shown[:_LISTS_SHOWN]) + more


VIEWS = (
    View("/trace", trace, right=ListRight.VIEW),
    View("/trace/export", export, role=Role.ADMINISTRATOR),
    View("/trace/erase", erase, role=Role.ADMINISTRATOR, methods=("GET", "POST"), sudo=True),
)
