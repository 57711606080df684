"""What is done with a message: pause, resume, cancel, delete, retry the failed."""

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
from postroom.web.admin.wording import counted
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit

_LONGEST_REASON = 200


async def pause(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    reason = one_line("reason", await visit.text("reason"), longest=_LONGEST_REASON, required=False)
    paused = await visit.services.messages.pause(ref, reason)
    await visit.audit("paused message", ref)
    said = "what is on the wire comes to its end"
    if paused.queued_at is None:
        said = "it does not go out until somebody resumes it"
    return visit.redirect(f"/messages/{ref}", f"Paused: {said}.")


async def resume(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    await visit.services.messages.resume(ref)
    await visit.audit("resumed message", ref)
    return visit.redirect(f"/messages/{ref}", "The message goes on.")


async def cancel(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    message = await visit.services.messages.get(ref)
    check_transition(message.status, MessageStatus.CANCELLED)
    if visit.request.method == "GET":
        return await _ask_cancel(visit, message)
    await visit.services.messages.cancel(ref)
    await visit.audit("cancelled message", ref)
    return visit.redirect(f"/messages/{ref}", "The message is cancelled.")


async def delete(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    message = await visit.services.messages.get(ref)
    check_deletable(message.status)
    if visit.request.method == "GET":
        return visit.page(
            "admin/confirm.html",
            title="Delete this message?",
            points=[
                f"“{message.subject}” to the list {message.list_name} is removed for good, and"
                " nothing of it is kept.",
                "It has not been sent to anybody. To keep it and send it later, pause it instead.",
            ],
            button="Delete the message",
            fields={"etag": message.etag},
            back=f"/messages/{ref}",
        )
    await visit.services.messages.delete(ref, await visit.text("etag") or None)
    await visit.audit("deleted message", ref)
    return visit.redirect("/messages", "The message is deleted.")


async def retry(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    message = await visit.services.messages.get(ref)
    if visit.request.method == "GET":
        refused = (await visit.services.outcomes.counts(message)).refused
        return visit.page(
            "admin/confirm.html",
            title="Retry only the failed?",
            points=[
                "A new message with the same subject and content goes out now, to the"
                f" {counted(refused, 'address', 'addresses')} that the mail server refused.",
                "Whoever has left the list, is not verified or is blocked gets nothing.",
                "Nobody who got this message gets it again.",
            ],
            button="Send it to them",
            fields={},
            back=f"/messages/{ref}",
            is_harmless=True,
        )
    made = await visit.services.retries.retry_refused(ref)
    await visit.audit("retried the failed of message", ref)
    return visit.redirect(f"/messages/{made.ref}", "This message tries only the failed again.")


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
        "Whoever has not got it yet will not get it. This cannot be taken back.",
        "It stays in the archive, with what became of it.",
    ]
    if message.queued_at is None:
        points.insert(0, "It has not begun: nobody has got it.")
    else:
        points.append(f"{counts.accepted:,} were accepted so far; {waiting} still wait.")
    return visit.page(
        "admin/confirm.html",
        title="Cancel this message?",
        points=[f"“{message.subject}” to the list {message.list_name}.", *points],
        button="Cancel the message",
        fields={},
        back=f"/messages/{message.ref}",
    )


PAGES = (
    Page("/messages/{ref}/pause", pause, role=Role.EDITOR, methods=("POST",)),
    Page("/messages/{ref}/resume", resume, role=Role.EDITOR, methods=("POST",)),
    Page("/messages/{ref}/cancel", cancel, role=Role.EDITOR, methods=("GET", "POST")),
    Page("/messages/{ref}/delete", delete, role=Role.EDITOR, methods=("GET", "POST")),
    Page("/messages/{ref}/try-now", try_now, role=Role.EDITOR, methods=("POST",)),
    Page("/messages/{ref}/retry-deferred", retry_deferred, role=Role.EDITOR, methods=("POST",)),
    Page("/messages/{ref}/retry", retry, role=Role.EDITOR, methods=("GET", "POST")),
)
