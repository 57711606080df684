"""Actions on a message: pause, resume, cancel, delete, retry."""

from __future__ import annotations

from starlette.responses import Response

from postroom.domain.messages.messages import (
    Message,
    MessageStatus,
    check_deletable,
    check_transition,
)
from postroom.domain.plain_text import one_line
from postroom.services.accounts.users import Role
from postroom.web.rendering.templating import counted
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_LONGEST_REASON = 200


async def pause(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    reason = one_line("reason", await visit.text("reason"), longest=_LONGEST_REASON, required=False)
    paused = await visit.services.messages.pause(ref, reason)
    await visit.audit("paused message", ref)
    flash = "Paused. Emails already in progress will finish."
    if paused.queued_at is None:
        flash = "Paused. The message is not sent until you resume it."
    return visit.redirect(f"/messages/{ref}", flash)


async def resume(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    await visit.services.messages.resume(ref)
    await visit.audit("resumed message", ref)
    return visit.redirect(f"/messages/{ref}", "Sending resumed.")


async def cancel(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    message = await visit.services.messages.get(ref)
    check_transition(message.status, MessageStatus.CANCELLED)
    if visit.request.method == "GET":
        return await _ask_cancel(visit, message)
    await visit.services.messages.cancel(ref)
    await visit.audit("cancelled message", ref)
    return visit.redirect(f"/messages/{ref}", "Message cancelled.")


async def delete(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    message = await visit.services.messages.get(ref)
    check_deletable(message.status)
    if visit.request.method == "GET":
        return visit.render(
            "admin/confirm.html",
            title="Delete this message?",
            points=[
                f"“{message.subject}” to the list {message.list_name} is deleted permanently.",
                "It has not been sent to anyone. To keep it and send it later, pause it instead.",
            ],
            button="Delete message",
            fields={"etag": message.etag},
            back=f"/messages/{ref}",
        )
    await visit.services.messages.delete(ref, await visit.text("etag") or None)
    await visit.audit("deleted message", ref)
    return visit.redirect("/messages", "Message deleted.")


async def retry(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    message = await visit.services.messages.get(ref)
    if visit.request.method == "GET":
        refused = (await visit.services.outcomes.counts(message)).refused
        return visit.render(
            "admin/confirm.html",
            title="Retry failed recipients?",
            points=[
                "A new message with the same subject and content is sent now to the"
                f" {counted(refused, 'address', 'addresses')} that the mail server refused.",
                "Unsubscribed, unconfirmed and blocked addresses are skipped.",
                "Nobody who received this message gets it again.",
            ],
            button="Retry failed recipients",
            fields={},
            back=f"/messages/{ref}",
            is_harmless=True,
        )
    made = await visit.services.retries.retry_refused(ref)
    await visit.audit("retried failed recipients of message", ref)
    return visit.redirect(f"/messages/{made.ref}", "Retrying failed recipients with this message.")


async def try_now(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    await visit.services.message_holds.try_now(ref)
    await visit.audit("tried held emails of message", ref)
    return visit.redirect(f"/messages/{ref}", "Trying now, with a single email.")


async def retry_deferred(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    await visit.services.retries.retry_deferred(message)
    await visit.audit("retried deferred emails of message", message.ref)
    return visit.redirect(f"/messages/{message.ref}", "Retrying deferred emails now.")


async def _ask_cancel(visit: Visit, message: Message) -> Response:
    counts = (await visit.services.progress.of(message)).counts
    waiting = counted(counts.pending, "recipient", "recipients")
    points = [
        "Recipients who have not received it yet will not get it. This cannot be undone.",
        "It is kept under Sent, with the outcome of every email.",
    ]
    if message.queued_at is None:
        points.insert(0, "Sending has not started: nobody has received it.")
    else:
        points.append(f"{counts.accepted:,} accepted so far; {waiting} still waiting.")
    return visit.render(
        "admin/confirm.html",
        title="Cancel this message?",
        points=[f"“{message.subject}” to the list {message.list_name}.", *points],
        button="Cancel message",
        fields={},
        back=f"/messages/{message.ref}",
    )


VIEWS = (
    View("/messages/{ref}/pause", pause, role=Role.EDITOR, methods=("POST",)),
    View("/messages/{ref}/resume", resume, role=Role.EDITOR, methods=("POST",)),
    View("/messages/{ref}/cancel", cancel, role=Role.EDITOR, methods=("GET", "POST")),
    View("/messages/{ref}/delete", delete, role=Role.EDITOR, methods=("GET", "POST")),
    View("/messages/{ref}/try-now", try_now, role=Role.EDITOR, methods=("POST",)),
    View("/messages/{ref}/retry-deferred", retry_deferred, role=Role.EDITOR, methods=("POST",)),
    View("/messages/{ref}/retry", retry, role=Role.EDITOR, methods=("GET", "POST")),
)
