"""A message: its live progress, and actions on it (pause, resume, cancel, delete, retry)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, date, datetime
from typing import Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse

from postroom.domain.audience.addresses import domain_of
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import NoSuch
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import (
    EDITABLE,
    FINAL,
    TRANSITIONS,
    Message,
    MessageStatus,
    check_deletable,
    check_transition,
    may_be_edited,
)
from postroom.domain.plain_text import one_line
from postroom.errors import PostroomError
from postroom.services.audience.targeting.follow_ups import follow_ups
from postroom.services.messages.sending.hold_rows import describe, why_all_wait
from postroom.services.messages.sending.holds import Hold, Holds
from postroom.services.messages.sending.progress import Progress
from postroom.services.messages.sending.warm_ups import plans_for
from postroom.web.admin.messages.message_results_page import results_of
from postroom.web.admin.messages.publishing import web_addresses
from postroom.web.admin.messages.segment_results_page import segments_of
from postroom.web.rendering.templating import counted
from postroom.web.rendering.times import lasting
from postroom.web.requests.flash import Undo
from postroom.web.requests.views import View, error_page
from postroom.web.requests.visit import Visit

_RUNNING: Final = frozenset({MessageStatus.QUEUING, MessageStatus.PROCESSING})
_SECONDS_RUNNING: Final = 1.0
_SECONDS_WAITING: Final = 5.0
# The browser reconnects automatically, so an ended session sees no more than this many seconds.
_LONGEST_STREAM: Final = 600.0
BAR_WIDTH: Final = 1000
PARTS: Final = ("accepted", "refused", "suppressed", "in_doubt", "pending")
_LONGEST_REASON = 200


class ShownHold(msgspec.Struct, frozen=True):
    """A hold with its description."""

    hold: Hold
    text: str


def shown_holds(holds: Iterable[Hold]) -> list[ShownHold]:
    return [ShownHold(hold, describe(hold)) for hold in holds]


class BarSegment(msgspec.Struct, frozen=True):
    """A segment of the progress bar, in SVG units."""

    name: str
    count: int
    x: float
    width: float


def bar_segments(counts: Counts) -> list[BarSegment]:
    """Return the segments of the progress bar, in proportion to the outcomes."""
    values = counts.as_dict()
    shown: list[BarSegment] = []
    x = 0.0
    for name in PARTS:
        width = BAR_WIDTH * values[name] / counts.planned if counts.planned else 0.0
        shown.append(BarSegment(name, values[name], round(x, 2), round(width, 2)))
        x += width
    return shown


async def details(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    if message.status is MessageStatus.DRAFT:
        page = "edit" if visit.may(ListRight.EDIT) else "preview"
        return visit.redirect(f"/messages/{message.ref}/{page}")
    progress = await visit.services.progress.of(message)
    retried_by = await visit.services.retries.retry_of(message) if message.status in FINAL else None
    estimate = None
    is_waiting = message.queued_at is None and message.status not in FINAL
    is_whole_list = message.audience.is_everybody and message.part is None
    if is_waiting and is_whole_list:  # a part of a list takes a while to count
        limit = visit.context.settings.sender.rate
        estimate = await visit.services.estimates.of(message.list_name, limit)
    return visit.render(
        "admin/messages/message.html",
        **await _waiting(visit, message, progress),
        **web_addresses(message, visit.context.base_url),
        **await results_of(visit, message, progress.counts),
        counts=progress.counts,
        segments=bar_segments(progress.counts),
        result_segments=len(await segments_of(visit, message)),
        rate=rate_of(message, progress),
        time_left=_time_left(message, progress),
        took=_took(message),
        retried_by=retried_by,
        follow_ups=set(follow_ups(message)),
        ab_test=message.part and await visit.services.ab_tests.rows.of(message.ref),
        estimate=estimate,
        is_open=message.status not in FINAL,
        is_editable=may_be_edited(message.status, progress.counts),
        is_deletable=message.status in EDITABLE,
        has_begun=message.queued_at is not None,
        is_due=is_due(message),
        may_become={status.value for status in TRANSITIONS[message.status]},
    )


async def waiting(visit: Visit) -> Response:
    """Render the part about holds and deferred emails, which the page polls."""
    message = await visit.services.messages.get(visit.parameter("ref"))
    progress = await visit.services.progress.of(message)
    return visit.render(
        "admin/messages/message_waiting.html", **await _waiting(visit, message, progress)
    )


async def _waiting(visit: Visit, message: Message, progress: Progress) -> dict[str, Any]:
    holds = await visit.services.message_holds.of(message, progress.waiting)
    return {
        "message": message,
        "waiting": progress.waiting,
        "holds": shown_holds(holds),
        "is_held": bool(why_all_wait(Holds(holds), message)),
        "warm_up_until": await _warm_up_until(visit, message, progress),
        "space": await visit.services.space_waits.current() if is_due(message) else None,
    }


async def _warm_up_until(visit: Visit, message: Message, progress: Progress) -> date | None:
    """Return when the last waiting email is sent, if a warm-up plan delays it to another day."""
    if not progress.waiting.deferred or message.from_address is None:
        return None
    warm_ups, domain = visit.services.warm_ups, domain_of(message.from_address).lower()
    plans = plans_for(await warm_ups.plans(), domain)
    until = await warm_ups.last_day(plans, progress.counts.pending)
    return None if until is None or until <= datetime.now(UTC).date() else until


def is_due(message: Message) -> bool:
    """Return whether a message is due but has not started."""
    return message.status is MessageStatus.PENDING and message.due_at <= datetime.now(UTC)


async def events(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    return StreamingResponse(
        _stream(visit, message),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _stream(visit: Visit, message: Message) -> AsyncIterator[bytes]:
    """Yield one event per second while the message is being sent, and a last one at the end."""
    deadline = time.monotonic() + _LONGEST_STREAM
    yield b"retry: 2000\n\n"
    while time.monotonic() < deadline and not visit.context.stopping.is_set():
        try:
            message = await visit.services.messages.get(message.ref)
            progress = await visit.services.progress.of(message)
        except NoSuch:
            yield b"event: end\ndata: {}\n\n"
            return
        except PostroomError:
            return  # the browser reconnects
        kind = "end" if message.status in FINAL else "progress"
        yield f"event: {kind}\ndata: ".encode() + _event(message, progress) + b"\n\n"
        if message.status in FINAL:
            return
        running = message.status in _RUNNING
        pause = _SECONDS_RUNNING if running else _SECONDS_WAITING
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(visit.context.stopping.wait(), pause)


def _event(message: Message, progress: Progress) -> bytes:
    shown: dict[str, Any] = {
        "status": message.status.value,
        "counts": progress.counts.as_dict(),
        "rate": rate_of(message, progress),
        "left": _time_left(message, progress),
    }
    return msgspec.json.encode(shown)


def rate_of(message: Message, progress: Progress) -> float | None:
    """Return emails per second, or None if the message is not being sent."""
    if message.status not in _RUNNING or progress.rate is None:
        return None
    return round(progress.rate, 1)


def _time_left(message: Message, progress: Progress) -> str:
    """Return the remaining time; unknown while recipients are still being prepared."""
    if message.status is not MessageStatus.PROCESSING:
        return ""
    return lasting(progress.seconds_left) if progress.seconds_left else ""


def _took(message: Message) -> str:
    if message.queued_at is None or message.completed_at is None:
        return ""
    return lasting((message.completed_at - message.queued_at).total_seconds())


# — Actions —


async def pause(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    reason = one_line("reason", await visit.text("reason"), longest=_LONGEST_REASON, required=False)
    paused = await visit.services.message_states.pause(ref, reason)
    await visit.audit("paused message", ref)
    flash = "Paused. Emails already in progress will finish."
    if paused.queued_at is None:
        flash = "Paused. The message is not sent until you resume it."
    return visit.redirect(f"/messages/{ref}", flash, Undo(f"/messages/{ref}/resume"))


async def resume(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    await visit.services.message_states.resume(ref)
    await visit.audit("resumed message", ref)
    return visit.redirect(f"/messages/{ref}", "Sending resumed.", Undo(f"/messages/{ref}/pause"))


async def cancel(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    message = await visit.services.messages.get(ref)
    check_transition(message.status, MessageStatus.CANCELLED)
    if visit.request.method == "GET":
        return await _ask_cancel(visit, message)
    await visit.services.message_states.cancel(ref)
    await visit.audit("cancelled message", ref)
    return visit.redirect(f"/messages/{ref}", "Message cancelled.")


async def delete(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    message = await visit.services.messages.get(ref)
    check_deletable(message.status)
    is_draft = message.status is MessageStatus.DRAFT
    if not is_draft and not visit.may(ListRight.SEND):
        return error_page(
            visit,
            403,
            "Permission denied",
            "This message is scheduled: only an editor can delete it.",
        )
    if visit.request.method == "GET":
        return _ask_delete(visit, message)
    await visit.services.messages.delete(ref, await visit.text("etag") or None)
    await visit.audit("deleted draft" if is_draft else "deleted message", ref)
    if is_draft:
        return visit.redirect("/messages/drafts", "Draft deleted.")
    return visit.redirect("/messages", "Message deleted.")


def _ask_delete(visit: Visit, message: Message) -> Response:
    named = f"“{message.subject}”" if message.subject else "A draft without a subject"
    points = [f"{named} is deleted permanently, with all its versions."]
    if message.status is not MessageStatus.DRAFT:
        points = [
            f"{named} to the list {message.list_name} is deleted permanently.",
            "It has not been sent to anyone. To keep it and send it later, unschedule it instead.",
        ]
    kind = "draft" if message.status is MessageStatus.DRAFT else "message"
    return visit.render(
        "admin/confirm.html",
        title=f"Delete this {kind}?",
        points=points,
        button=f"Delete {kind}",
        fields={"etag": message.etag},
        back=f"/messages/{message.ref}",
    )


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
    View("/messages/{ref}/pause", pause, right=ListRight.SEND, methods=("POST",), uses_rules=False),
    View("/messages/{ref}/resume", resume, right=ListRight.SEND, methods=("POST",)),
    View(
        "/messages/{ref}/cancel",
        cancel,
        right=ListRight.SEND,
        methods=("GET", "POST"),
        uses_rules=False,
    ),
    View(
        "/messages/{ref}/delete",
        delete,
        right=ListRight.EDIT,
        methods=("GET", "POST"),
        uses_rules=False,
    ),
    View("/messages/{ref}/try-now", try_now, right=ListRight.SEND, methods=("POST",)),
    View("/messages/{ref}/retry-deferred", retry_deferred, right=ListRight.SEND, methods=("POST",)),
    View("/messages/{ref}/retry", retry, right=ListRight.SEND, methods=("GET", "POST")),
    View("/messages/{ref}", details, right=ListRight.VIEW, uses_rules=False),
    View("/messages/{ref}/waiting", waiting, right=ListRight.VIEW, uses_rules=False),
    View("/messages/{ref}/events", events, right=ListRight.VIEW, uses_rules=False),
)
