"""Actions on a whole draft: schedule, unschedule, duplicate, hand over, follow up."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.time_zones import zone_named
from postroom.domain.errors import Incomplete, Invalid, Overtaken
from postroom.domain.messages.messages import LONGEST_SUBJECT, Message, MessageStatus
from postroom.domain.messages.waves.ab_tests import ENDED
from postroom.domain.messages.waves.canaries import canary_for
from postroom.services.audience.targeting.follow_ups import FollowUp, check_follow_up
from postroom.web.admin.messages.drafting.editor import show_editor
from postroom.web.admin.messages.drafting.message_drafts import (
    broken_pictures,
    draft_of,
    problem_of,
)
from postroom.web.admin.messages.drafting.preflight import (
    before_sending,
    is_future,
    refusals,
)
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit
from postroom.wiring import canary_rules


async def schedule(visit: Visit) -> Response:
    """Ask with the number of recipients, then schedule the draft for its time, or send it now."""
    ref = visit.parameter("ref")
    if visit.request.method == "GET":
        return await _ask(visit, ref)
    try:
        if await _refusals(visit, ref):
            return await _ask(visit, ref, status=422)
        scheduled = await visit.services.composing.schedule(
            ref, etag=await visit.text("etag") or None
        )
    except Incomplete:
        return await _ask(visit, ref)
    except Overtaken:
        return visit.redirect(
            f"/messages/{ref}/schedule", "The draft has changed in the meantime. Check it again."
        )
    await visit.audit("scheduled message", f"{ref} to {scheduled.list_name}")
    is_due = scheduled.due_at <= datetime.now(UTC)
    return visit.redirect(
        f"/messages/{ref}", "Sending started." if is_due else "Message scheduled."
    )


async def _refusals(visit: Visit, ref: str) -> list[str]:
    """Return why a draft cannot be sent, apart from what it lacks."""
    message = await visit.services.messages.get(ref)
    if message.status is not MessageStatus.DRAFT:
        return []
    _ = await visit.services.composing.checked(message)
    found = await visit.context.preflight.check(ref)
    return refusals(found, is_later=is_future(message.scheduled_at))


async def _ask(visit: Visit, ref: str, *, status: int = 200) -> Response:
    message, content = await visit.services.composing.read(ref)
    if message.status is not MessageStatus.DRAFT:
        return visit.redirect(f"/messages/{ref}")
    test = await visit.services.ab_tests.rows.of(ref)
    if test is not None and test.state not in ENDED:
        return visit.redirect(f"/messages/{ref}/ab-test", "This draft is a variant of an A/B test.")
    try:
        content, bodies = await visit.services.composing.checked(message)
    except Incomplete as exc:
        return await show_editor(visit, draft_of(message, content), problem_of(exc), status=422)
    limit = visit.context.settings.sender.rate
    at = content.scheduled_at
    is_later = is_future(at)
    panel = await before_sending(visit, message)
    estimate = await visit.services.estimates.of(message.list_name, limit, message.audience)
    many = panel["preflight"].audience.will_receive  # one number everywhere, even for the time
    return visit.render(
        "admin/messages/message_question.html",
        status=status,
        message=message,
        at=at if is_later else None,
        passed=None if is_later else at,
        **panel,
        refused=refusals(panel["preflight"], is_later=is_later),
        estimate=msgspec.structs.replace(estimate, recipients=many, counted_at=None),
        pictures=await broken_pictures(bodies),
        local_clock=await _local_clock(visit, message, at or datetime.now(UTC)),
        canary=None
        if message.local_time
        else canary_for(message.canary, many, canary_rules(visit.context.settings)),
    )


async def _local_clock(visit: Visit, message: Message, at: datetime) -> str:
    """Return the time in the time zone of the list, for a message by local time."""
    if not message.local_time:
        return ""
    zone = await visit.services.messages.zone_of(message.list_name)
    return f"{at.astimezone(zone_named(zone) or UTC):%H:%M}"


async def unschedule(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    await visit.services.composing.unschedule(ref)
    await visit.audit("unscheduled message", ref)
    return visit.redirect(
        f"/messages/{ref}/edit", "Unscheduled. The message is a draft again and will not be sent."
    )


async def duplicate(visit: Visit) -> Response:
    made = await visit.services.composing.duplicate(visit.parameter("ref"), visit.who.email)
    await visit.audit("created draft", made.ref)
    return visit.redirect(f"/messages/{made.ref}/edit", "Duplicated. The original is unchanged.")


async def follow_up(visit: Visit) -> Response:
    """Ask for another subject, then create a draft to some of the audience of a sent message."""
    message = await visit.services.messages.get(visit.parameter("ref"))
    given = visit.parameter("to") or await visit.text("to")
    kind = FollowUp(given) if given in set(FollowUp) else FollowUp.NEW
    check_follow_up(message, kind)
    subject, problem = message.subject, ""
    if visit.request.method == "POST":
        subject = await visit.text("subject")
        try:
            made = await visit.services.follow_ups.create(
                message.ref, kind, subject, visit.who.email
            )
        except Invalid as exc:
            problem = exc.problem
        else:
            await visit.audit("created draft", made.ref)
            return visit.redirect(f"/messages/{made.ref}/edit", "Draft created.")
    return visit.render(
        "admin/messages/follow_up.html",
        status=422 if problem else 200,
        message=message,
        kind=kind.value,
        subject=subject,
        problem=problem,
        longest=LONGEST_SUBJECT,
    )


async def take_back(visit: Visit) -> Response:
    """Make a draft that was handed over one that is still being written."""
    ref = visit.parameter("ref")
    await visit.services.composing.hand_over(ref, visit.who.email, is_ready=False)
    await visit.audit("withdrew draft", ref)
    return visit.redirect(
        f"/messages/{ref}/edit", "Withdrawn. The draft is no longer marked as ready."
    )


VIEWS = (
    View("/messages/{ref}/schedule", schedule, right=ListRight.SEND, methods=("GET", "POST")),
    View(
        "/messages/{ref}/unschedule",
        unschedule,
        right=ListRight.SEND,
        methods=("POST",),
        uses_rules=False,
    ),
    View("/messages/{ref}/duplicate", duplicate, right=ListRight.EDIT, methods=("POST",)),
    View("/messages/{ref}/follow-up", follow_up, right=ListRight.EDIT, methods=("GET", "POST")),
    View("/messages/{ref}/take-back", take_back, right=ListRight.EDIT, methods=("POST",)),
)
