"""The message form: create, edit, send a test email."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from starlette.responses import PlainTextResponse, Response

from postroom.domain.errors import DomainError, Invalid, NoSuch, Overtaken
from postroom.domain.messages.messages import Message, check_editable
from postroom.domain.messages.refs import MessageRef, new_ref
from postroom.errors import PostroomError
from postroom.sender.draft_mail import parse_test_addresses, send_tests
from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from postroom.transport.contract import ResultKind
from postroom.web.admin.messages.message_drafts import (
    LABELS,
    LARGEST_FORM,
    Draft,
    ask_before_sending,
    broken_pictures,
    draft_from_form,
    draft_to_edit,
    goes_back,
    problem_of,
    zones,
)
from postroom.web.requests.cookies import Signer
from postroom.web.requests.forms import Difference, differences
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit
from postroom.wiring import opened_transport

_TEMPLATE: Final = "admin/messages/message_form.html"
_PURPOSE: Final = "new message"
_FORM_AGE: Final = 7 * 24 * 3600
_SHOWN_IN_CONFLICT: Final = 2000


async def new(visit: Visit) -> Response:
    if visit.request.method == "GET":
        return await _show(visit, await _new_draft(visit))
    draft, problems = await draft_from_form(visit)
    if problems:
        return await _show(visit, draft, problems, status=422)
    if await goes_back(visit):
        visit.skip_audit()
        return await _show(visit, draft)
    ref = await _unused_ref(visit, draft)
    if isinstance(ref, Message):
        return visit.redirect(f"/messages/{ref.ref}", await _flash(ref, NewBodies()))
    try:
        bodies = await draft.bodies()
        asked = await ask_before_sending(visit, draft, bodies)
        if asked is not None:
            return asked
        made = await visit.services.messages.create(
            draft.list, draft.subject, bodies, draft.scheduled_at, ref=ref
        )
    except (Invalid, NoSuch) as exc:
        return await _show(visit, draft, problem_of(exc), status=422)
    await visit.audit("scheduled message", f"{made.ref} to {made.list_name}")
    return visit.redirect(f"/messages/{made.ref}", await _flash(made, bodies))


async def _new_draft(visit: Visit) -> Draft:
    """Return the draft of a new message: a copy (`like`), or with the only list preselected."""
    draft = Draft(list=visit.parameter("list"))
    if visit.parameter("like"):
        like = await visit.services.messages.get(visit.parameter("like"))
        old = await draft_to_edit(like, await visit.services.messages.bodies(like))
        draft = Draft(list=old.list, subject=old.subject, html=old.html, text=old.text)
    if not draft.list:
        names = await visit.services.lists.names(limit=2)
        draft.list = names[0] if len(names) == 1 else ""
    draft.key = Signer(visit.context.secret, _PURPOSE).sign(new_ref())
    return draft


async def _flash(message: Message, bodies: NewBodies) -> str:
    """Return the flash message for a message that was just scheduled."""
    if message.due_at <= datetime.now(UTC):
        return "Sending started."
    pictures = await broken_pictures(bodies)
    warning = f" Subscribers will not see: {', '.join(pictures)} (check the preview)."
    return f"Message scheduled.{warning if pictures else ''}"


async def _unused_ref(visit: Visit, draft: Draft) -> Message | MessageRef | None:
    """Return the reference in the form, or the message if the form was sent twice by mistake.

    None if the user went back to the form, changed it and sent it again: that is a new message.
    """
    signed = Signer(visit.context.secret, _PURPOSE).read(draft.key, max_age=_FORM_AGE)
    if not isinstance(signed, str):
        return None
    try:
        made = await visit.services.messages.get(signed)
    except NoSuch:
        return MessageRef(signed)
    is_the_same = made.list_name == draft.list and made.subject == draft.subject.strip()
    return made if is_the_same else None


async def edit(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    message = await visit.services.messages.get(ref)
    check_editable(message.status)
    if visit.request.method == "GET":
        bodies = await visit.services.messages.bodies(message)
        return await _show(visit, await draft_to_edit(message, bodies))
    draft, problems = await draft_from_form(visit)
    draft.ref, draft.is_planned = message.ref, message.queued_at is not None
    if problems:
        return await _show(visit, draft, problems, status=422)
    if await goes_back(visit):
        visit.skip_audit()
        return await _show(visit, draft)
    try:
        # An empty text replaces the old one; None would keep it.
        bodies = await draft.bodies()
        asked = None if draft.is_planned else await ask_before_sending(visit, draft, bodies)
        if asked is not None:
            return asked
        await visit.services.messages.edit(
            ref,
            list_name=None if draft.is_planned else draft.list,
            subject=draft.subject,
            bodies=NewBodies(bodies.html or "", bodies.text or ""),
            scheduled_at=None if draft.is_planned else draft.scheduled_at,
            etag=draft.etag or None,
        )
    except (Invalid, NoSuch) as exc:
        return await _show(visit, draft, problem_of(exc), status=422)
    except Overtaken:
        return await _conflict(visit, draft)
    await visit.audit("changed message", ref)
    return visit.redirect(f"/messages/{ref}", "Saved.")


async def test(visit: Visit) -> Response:
    """Send the form's content to one address."""
    draft, problems = await draft_from_form(visit)
    result, was_sent = "", False
    if problems:
        result = next(iter(problems.values()))
    else:
        result, was_sent = await _test(visit, draft, (await visit.text("test_to")).strip())
    if visit.is_partial:
        return visit.render(
            "admin/messages/test_result.html", test_result=result, was_sent=was_sent
        )
    return await _show(visit, draft, problems, test_result=result, was_sent=was_sent)


async def read_file(visit: Visit) -> Response:
    """Decode an uploaded body, so that the form can show it."""
    draft, problems = await draft_from_form(visit)
    if problems:
        return PlainTextResponse(next(iter(problems.values())), 422)
    return PlainTextResponse(draft.text if await visit.text("which") == "text" else draft.html)


async def _test(visit: Visit, draft: Draft, to: str) -> tuple[str, bool]:
    """Return the result of the test as text, and whether the email was accepted."""
    settings = visit.context.settings
    try:
        mailing_list = await visit.services.lists.get(draft.list)
        bodies = await draft.bodies()
        addresses = parse_test_addresses([to])
        async with opened_transport(settings) as transport:
            [result] = await send_tests(
                transport, mailing_list, draft.subject, bodies, addresses, visit.context.base_url
            )
    except DomainError as exc:
        return str(exc), False
    except PostroomError as exc:
        return f"the test could not be sent: {exc}", False
    await visit.audit("sent test email", to)
    if result.kind is ResultKind.ACCEPTED:
        return (
            f"Test sent to {to}. The mail server replied: {result.reply or 'accepted'}",
            True,
        )
    return f"The test to {to} was {result.kind}: {result.reply}", False


async def _conflict(visit: Visit, draft: Draft) -> Response:
    """Show both versions after an edit conflict, and the form as it was typed."""
    current = await visit.services.messages.get(draft.ref)
    check_editable(current.status)
    theirs = await draft_to_edit(current, await visit.services.messages.bodies(current))
    found = differences(LABELS, _short(draft.shown()), _short(theirs.shown()))
    draft.etag = current.etag
    return await _show(visit, draft, theirs=found, status=409)


def _short(values: dict[str, str]) -> dict[str, str]:
    return {
        name: text if len(text) <= _SHOWN_IN_CONFLICT else f"{text[:_SHOWN_IN_CONFLICT]}…"
        for name, text in values.items()
    }


async def _show(
    visit: Visit,
    draft: Draft,
    problems: dict[str, str] | None = None,
    *,
    theirs: list[Difference] | None = None,
    test_result: str = "",
    was_sent: bool = False,
    status: int = 200,
) -> Response:
    return visit.render(
        _TEMPLATE,
        status=status,
        draft=draft,
        problems=problems or {},
        theirs=theirs or [],
        names=await visit.services.lists.names(),
        zones=zones(),
        test_result=test_result,
        was_sent=was_sent,
    )


VIEWS = (
    View("/messages/new", new, role=Role.EDITOR, methods=("GET", "POST"), max_body=LARGEST_FORM),
    View("/messages/test", test, role=Role.EDITOR, methods=("POST",), max_body=LARGEST_FORM),
    View(
        "/messages/read-file",
        read_file,
        role=Role.EDITOR,
        methods=("POST",),
        audited=False,
        max_body=LARGEST_FORM,
    ),
    View(
        "/messages/{ref}/edit",
        edit,
        role=Role.EDITOR,
        methods=("GET", "POST"),
        max_body=LARGEST_FORM,
    ),
)
