"""An A/B test: its variants side by side, and what a person decides about it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from msgspec import UNSET
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import Incomplete, Invalid, NoSuch
from postroom.domain.messages.messages import MessageStatus
from postroom.domain.messages.waves.ab_tests import (
    ENDED,
    HIGHEST_SHARE,
    LOWEST_SHARE,
    MOST_VARIANTS,
    SHARE,
    WAIT_MINUTES,
    AbState,
    is_planned,
)
from postroom.services.audience.results.ab_views import AbView
from postroom.services.audience.suppression.delivery_limits import percent
from postroom.services.messages.drafts.draft_contents import ContentChange
from postroom.web.admin.messages.drafting.preflight import refusals
from postroom.web.rendering.templating import counted
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_WAITS: Final = (30, 60, 120, 240, 480, 720, 1440, 2880)  # minutes
STATES: Final = {
    AbState.DRAFT: ("Draft", ""),
    AbState.STARTING: ("Starting", "busy"),
    AbState.RUNNING: ("Running", "busy"),
    AbState.DECIDED: ("Decided", "busy"),
    AbState.DONE: ("Done", "good"),
    AbState.CANCELLING: ("Cancelled", "bad"),
    AbState.CANCELLED: ("Cancelled", "bad"),
}


async def show(visit: Visit) -> Response:
    return await _show(visit)


async def _show(visit: Visit, problem: str = "") -> Response:
    ref = visit.parameter("ref")
    message = await visit.services.messages.get(ref)
    test = await visit.services.ab_tests.rows.of(ref)
    if test is None and message.status is not MessageStatus.DRAFT:
        raise NoSuch("A/B test of the message", ref)
    view = None if test is None else await _view(visit, ListRight.VIEW)
    is_running = test is not None and test.state is AbState.RUNNING
    may_choose = view is not None and all(map(is_planned, view.messages)) and is_running
    partial = visit.is_partial and test is not None and test.state is not AbState.DRAFT
    return visit.render(
        "admin/messages/ab_test_state.html" if partial else "admin/messages/ab_test.html",
        status=422 if problem else 200,
        message=message,
        test=test,
        view=view,
        state=None if test is None else STATES[test.state],
        is_draft=test is None or test.state is AbState.DRAFT,
        is_open=test is not None and test.state not in ENDED,
        may_choose=may_choose,
        percent=percent,
        most=MOST_VARIANTS,
        share=SHARE,
        shares=(LOWEST_SHARE, HIGHEST_SHARE),
        wait=WAIT_MINUTES,
        waits=_WAITS,
        problem=problem,
    )


async def add(visit: Visit) -> Response:
    """Add a variant, and open it in the editor if its content is to be changed."""
    ref = visit.parameter("ref")
    tests = visit.services.ab_tests
    change = ContentChange(
        subject=(await visit.text("subject")).strip() or UNSET,
        from_name=(await visit.text("from_name")).strip() or UNSET,
    )
    if await tests.rows.of(ref) is None:
        await tests.create(ref, visit.who.email)
        await visit.audit("created A/B test", ref)
    await _view(visit, ListRight.EDIT)
    try:
        made = await tests.add(ref, change, visit.who.email)
    except Invalid as exc:
        return await _show(visit, exc.problem)
    await visit.audit("created draft", made.ref)
    if await visit.text("then") == "edit":
        return visit.redirect(f"/messages/{made.ref}/edit", "Variant added.")
    return visit.redirect(f"/messages/{ref}/ab-test", "Variant added.")


async def start(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    view = await _view(visit, ListRight.SEND)
    if view.test.state is AbState.DRAFT and (problem := await _refusal(visit, view)):
        return await _show(visit, problem)
    try:
        share, wait = [_number(await visit.text(name), name) for name in ("share", "wait")]
        await visit.services.ab_tests.start(ref, share=share, wait_minutes=wait)
    except Invalid as exc:
        return await _show(visit, f"{exc.field}: {exc.problem}" if exc.field else exc.problem)
    await visit.audit("started A/B test", ref)
    return visit.redirect(f"/messages/{ref}/ab-test", "A/B test started.")


async def _refusal(visit: Visit, view: AbView) -> str:
    """Return why a variant cannot be sent, as for any message: "" if all can."""
    for each in view.variants:
        message = each.message
        if message is None or message.status is not MessageStatus.DRAFT:
            continue
        try:
            await visit.services.composing.checked(message)
        except Incomplete as exc:
            return f"variant {each.letter} cannot be sent: {exc}"
        is_later = message.scheduled_at is not None and message.scheduled_at > datetime.now(UTC)
        found = refusals(await visit.context.preflight.check(message.ref), is_later=is_later)
        if found:
            return f"variant {each.letter} cannot be sent: {found[0]}"
    return ""


async def choose(visit: Visit) -> Response:
    """Ask, then end the test with the variant that was chosen."""
    ref, tests = visit.parameter("ref"), visit.services.ab_tests
    view = await _view(visit, ListRight.SEND)
    given = visit.parameter("winner") or await visit.text("winner")
    chosen = next((each for each in view.variants if each.ref == given), None)
    if chosen is None or chosen.message is None:
        raise NoSuch("variant", given)
    if visit.request.method == "GET":
        return visit.render(
            "admin/confirm.html",
            title=f"Send variant {chosen.letter} to the rest?",
            points=[
                f"“{chosen.message.subject}” will be sent now to everyone in the audience who is"
                " not a recipient of a variant.",
                "The test ends, regardless of its numbers.",
            ],
            button=f"Send variant {chosen.letter}",
            fields={"winner": chosen.ref},
            back=f"/messages/{ref}/ab-test",
            is_harmless=True,
        )
    await tests.choose(ref, chosen.ref, visit.who.email)
    await visit.audit("chose winner of A/B test", f"{chosen.ref} of {view.test.key}")
    return visit.redirect(f"/messages/{ref}/ab-test", f"Variant {chosen.letter} chosen.")


async def cancel(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    view = await _view(visit, ListRight.SEND)
    is_draft = view.test.state is AbState.DRAFT
    if visit.request.method == "GET":
        return visit.render(
            "admin/confirm.html",
            title="Remove this A/B test?" if is_draft else "Cancel this A/B test?",
            points=_consequences(view),
            button="Remove A/B test" if is_draft else "Cancel A/B test",
            fields={},
            back=f"/messages/{ref}/ab-test",
        )
    await visit.services.ab_tests.cancel(ref)
    await visit.audit("removed A/B test" if is_draft else "cancelled A/B test", view.test.key)
    if is_draft:
        return visit.redirect(f"/messages/{ref}/edit", "A/B test removed. Its variants are drafts.")
    return visit.redirect(f"/messages/{ref}/ab-test", "A/B test cancelled.")


def _consequences(view: AbView) -> list[str]:
    if view.test.state is AbState.DRAFT:
        count = counted(len(view.messages), "variant", "variants")
        return [f"Its {count} become ordinary drafts. Delete those that you do not need."]
    return [
        "Nothing is sent to the rest of the audience. This cannot be undone.",
        "Variants whose sending has not started are cancelled.",
        "Variants that are being sent continue. Cancel them on their own pages.",
    ]


async def _view(visit: Visit, right: ListRight) -> AbView:
    """Return the test that a message is in, if the user has a right on all lists of it: a variant
    may have been moved to another list. `NoSuch`."""
    tests = visit.services.ab_tests
    view = await tests.view(await tests.get(visit.parameter("ref")))
    for each in view.messages:
        if each.all_lists and not visit.messages.sees(each):
            raise NoSuch("A/B test of the message", visit.parameter("ref"))
        visit.require(right, each)
    return view


def _number(text: str, field: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise Invalid(field, f"must be a whole number, not {text[:20]!r}")
    return int(text)


VIEWS = (
    View("/messages/{ref}/ab-test", show, right=ListRight.VIEW, uses_rules=False),
    View("/messages/{ref}/ab-test/variants", add, right=ListRight.EDIT, methods=("POST",)),
    View("/messages/{ref}/ab-test/start", start, right=ListRight.SEND, methods=("POST",)),
    View("/messages/{ref}/ab-test/winner", choose, right=ListRight.SEND, methods=("GET", "POST")),
    View(
        "/messages/{ref}/ab-test/cancel",
        cancel,
        right=ListRight.SEND,
        methods=("GET", "POST"),
        uses_rules=False,
    ),
)
