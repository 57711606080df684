"""The editor: a message while it is being written. A draft saves itself; a scheduled message that
is edited is saved by a button, because it must not be sent half-written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from starlette.responses import JSONResponse, PlainTextResponse, Response

from postroom.composing.format_conversions import NEXT
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import DomainError, Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.messages.messages import (
    Message,
    MessageFormat,
    MessageStatus,
    check_editable,
)
from postroom.domain.messages.refs import MessageRef, new_ref, parse_ref
from postroom.domain.messages.web_pages import preview_url
from postroom.errors import PostroomError
from postroom.mail.bodies.attached_files import AttachedFile
from postroom.sender.draft_emails import parse_test_addresses, send_tests
from postroom.services.messages.drafts.draft_contents import Content
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import OptionsChange
from postroom.transport.contract import ResultKind
from postroom.web.admin.messages.drafting.audience_choice import audience_choice
from postroom.web.admin.messages.drafting.editor_choices import (
    format_for,
    merge_field_choices,
    usable_templates,
)
from postroom.web.admin.messages.drafting.message_drafts import (
    FORMAT_NAMES,
    LABELS,
    LARGEST_FORM,
    TRACK_NAMES,
    Draft,
    canary_names,
    draft_from_form,
    draft_of,
    problem_of,
    shown_contents,
    zones,
)
from postroom.web.admin.messages.drafting.previews import chosen_subscriber
from postroom.web.requests.cookies import Signer
from postroom.web.requests.flash import Undo
from postroom.web.requests.forms import Difference, differences
from postroom.web.requests.list_checks import check_segment_access
from postroom.web.requests.views import View, error_page
from postroom.web.requests.visit import Endpoint, Visit
from postroom.wiring import opened_transport

_TEMPLATE: Final = "admin/messages/editor.html"
_CONFLICT: Final = "admin/messages/draft_conflict.html"
_PURPOSE: Final = "new message"
_FORM_AGE: Final = 7 * 24 * 3600
_SHOWN_IN_CONFLICT: Final = 2000
_SHOWN_BEFORE: Final = 200


async def new(visit: Visit) -> Response:
    if visit.request.method == "GET":
        template = visit.parameter("template")
        draft = Draft(
            list=visit.parameter("list"),
            format=(await format_for(visit, template)).value,
            template=template,
            key=_new_key(visit),
        )
        if not draft.list:
            names = await visit.lists.names(right=ListRight.EDIT, limit=2)
            is_clear = len(names) == 1 or (names and not visit.access.may(ListRight.EDIT))
            draft.list = names[0] if is_clear else ""
        return await show_editor(visit, draft)
    return await _submitted(visit)


async def edit(visit: Visit) -> Response:
    message, content = await visit.services.composing.read(visit.parameter("ref"))
    check_editable(message.status)
    if not _may_edit(visit, message):
        return error_page(
            visit,
            403,
            "Permission denied",
            "This message is scheduled: only an editor can change it.",
        )
    if message.status is not MessageStatus.DRAFT and message.has_source:
        is_waiting = message.status is MessageStatus.PENDING and message.retry_of is None
        how = "unschedule it first" if is_waiting else "duplicate it and cancel this one"
        return visit.redirect(f"/messages/{message.ref}", f"To change this message, {how}.")
    if visit.request.method == "GET":
        return await show_editor(visit, draft_of(message, content))
    if message.status is MessageStatus.DRAFT:
        return await _submitted(visit)
    return await _change_scheduled(visit, message)


async def _submitted(visit: Visit) -> Response:
    """Save a draft with a button, and continue with what the button says."""
    draft, problems = await draft_from_form(visit)
    draft.ref = visit.parameter("ref") or draft.ref
    try:
        _ = draft.scheduled_at
    except Invalid as exc:
        problems |= problem_of(exc)
    if problems:
        return await show_editor(visit, draft, problems, status=422)
    try:
        saved = await store_draft(visit, draft)
    except Overtaken:
        return await show_conflict(visit, draft)
    except Invalid as exc:
        return await show_editor(visit, draft, problem_of(exc), status=422)
    then = await visit.text("then")
    if then == "schedule" and visit.may(ListRight.SEND):
        return visit.redirect(f"/messages/{saved.ref}/schedule")
    if then == "hand-over":
        await visit.services.composing.hand_over(saved.ref, visit.who.email, etag=saved.etag)
        await visit.audit("handed over draft", saved.ref)
        return visit.redirect(
            "/messages/drafts",
            "Handed over. Someone who may send messages can schedule it now.",
            Undo(f"/messages/{saved.ref}/take-back"),
        )
    return visit.redirect(f"/messages/{saved.ref}/edit", "Saved.")


async def save(visit: Visit) -> Response:
    """Save a draft as the editor does automatically. 409 has both versions to choose from."""
    draft, _ = await draft_from_form(visit)
    visit.skip_audit()
    choice = await visit.text("resolve")
    try:
        if choice == "theirs":
            await visit.services.composing.keep_as_version(draft.ref, draft.change, visit.who.email)
            return JSONResponse({})
        saved = await store_draft(visit, draft)
    except Overtaken:
        message, theirs = await visit.services.composing.read(draft.ref)
        return visit.render(
            _CONFLICT,
            status=409,
            message=message,
            differences=_differences(draft.content, theirs),
            key="",
        )
    except (NoSuch, NotNow):
        return await _gone(visit, draft)
    except Invalid as exc:
        return JSONResponse({"problem": f"{LABELS.get(exc.field, exc.field)}: {exc.problem}"}, 422)
    return JSONResponse({"ref": saved.ref, "etag": saved.etag})


async def _gone(visit: Visit, draft: Draft) -> Response:
    """Offer to keep the text as a new draft: this one was deleted or scheduled in the meantime."""
    try:
        message = await visit.services.messages.get(draft.ref)
    except (NoSuch, Invalid):
        message = None
    return visit.render(_CONFLICT, status=409, message=message, differences=[], key=_new_key(visit))


async def store_draft(visit: Visit, draft: Draft) -> Message:
    """Save the draft, or create it. `Overtaken`, `NotNow`, `NoSuch`, `Invalid`."""
    composing, who = visit.services.composing, visit.who.email
    keeps_previous = await visit.text("resolve") == "mine"
    if not draft.list and not visit.access.may(ListRight.EDIT):
        # Only those who may write for every list would see a draft that has none.
        raise Invalid("list", "choose a list")
    if not draft.ref:
        signed = Signer(visit.context.secret, _PURPOSE).read(draft.key, max_age=_FORM_AGE)
        ref = MessageRef(signed) if isinstance(signed, str) else new_ref()
        try:
            first = await visit.services.messages.get(ref)
        except NoSuch:
            created = await composing.create(draft.change, who, ref=ref)
            await visit.audit("created draft", created.ref)
            return created
        visit.require(ListRight.EDIT, first)
        # Its first save arrived, but the browser did not learn about it.
        draft.ref, draft.etag, keeps_previous = ref, "", True
    try:
        saved = await composing.save(
            draft.ref, draft.change, who, etag=draft.etag or None, keeps_previous=keeps_previous
        )
    except Overtaken:
        # A window that was closed while it saved does not know the new ETag, but has saved this.
        existing = await composing.already_saved(draft.ref, draft.change)
        if existing is None:
            raise
        return existing
    if saved.version_at == saved.edited_at:  # not every few seconds
        await visit.audit("changed draft", saved.ref)
    return saved


async def _change_scheduled(visit: Visit, message: Message) -> Response:
    """Save a message that is scheduled, or paused before any of it was sent."""
    draft, problems = await draft_from_form(visit)
    draft.ref, draft.status = message.ref, message.status
    draft.is_planned = message.queued_at is not None
    if not draft.is_planned:
        audience = draft.audience if draft.has_audience else message.audience
        await check_segment_access(visit.services, visit.access, [draft.list], audience.segments)
    if problems:
        return await show_editor(visit, draft, problems, status=422)
    try:
        at = None if draft.is_planned else draft.scheduled_at
        if not draft.is_planned and (at is None or at <= datetime.now(UTC)):
            raise Invalid(
                "scheduled_at", "has passed: choose a later time, or unschedule it to send it now"
            )
        bodies = await visit.services.composing.compile(draft.content)
        await visit.services.messages.edit(
            message.ref,
            list_name=None if draft.is_planned else draft.list,
            audience=draft.audience if draft.has_audience and not draft.is_planned else None,
            subject=draft.subject,
            # An empty text replaces the old one; None would keep it.
            bodies=NewBodies(bodies.html or "", bodies.text or ""),
            lines=draft.content.lines,
            options=OptionsChange(
                draft.track,
                draft.content.published,
                None if draft.is_planned else draft.canary,
                None if draft.is_planned else draft.content.local_time,
            ),
            attachments=draft.content.attachments,
            scheduled_at=at,
            etag=draft.etag or None,
        )
    except (Invalid, NoSuch) as exc:
        return await show_editor(visit, draft, problem_of(exc), status=422)
    except Overtaken:
        return await show_conflict(visit, draft)
    await visit.audit("changed message", message.ref)
    return visit.redirect(f"/messages/{message.ref}", "Saved.")


async def test(visit: Visit) -> Response:
    """Send the form's content to up to ten addresses, personalised as the chosen subscriber."""
    draft, problems = await draft_from_form(visit)
    result, was_sent = "", False
    if problems:
        result = next(iter(problems.values()))
    else:
        to = (await visit.text("test_to")).replace(";", ",").split(",")
        result, was_sent = await _test(visit, draft, [each.strip() for each in to if each.strip()])
    if visit.is_partial:
        return visit.render(
            "admin/messages/test_result.html", test_result=result, was_sent=was_sent
        )
    return await show_editor(visit, draft, problems, test_result=result, was_sent=was_sent)


async def read_file(visit: Visit) -> Response:
    """Decode an uploaded body, so that the form can show it."""
    draft, problems = await draft_from_form(visit)
    if problems:
        return PlainTextResponse(next(iter(problems.values())), 422)
    return PlainTextResponse(draft.text if await visit.text("which") == "text" else draft.body)


async def _test(visit: Visit, draft: Draft, to: list[str]) -> tuple[str, bool]:
    """Return the result of the test as text, and whether all emails were accepted."""
    try:
        addresses = parse_test_addresses(to)
        mailing_list = await visit.services.lists.get(draft.list)
        content = draft.content
        subscriber = await chosen_subscriber(visit, draft)
        async with opened_transport(visit.context.settings, visit.services) as transport:
            results = await send_tests(
                transport,
                mailing_list,
                content.subject,
                await visit.services.composing.compile(content),
                addresses,
                visit.context.base_url,
                content.lines,
                await _files(visit, draft),
                await visit.services.audiences.personal(mailing_list.name, subscriber),
                preview_url(visit.context.base_url, draft.ref),
            )
    except Invalid as exc:
        return (exc.problem if exc.field == "to" else str(exc)), False
    except DomainError as exc:
        return str(exc), False
    except PostroomError as exc:
        return f"the test could not be sent: {exc}", False
    shown = ", ".join(addresses)
    await visit.audit("sent test email", shown)
    for address, each in zip(addresses, results, strict=True):
        if each.kind is not ResultKind.ACCEPTED:
            return f"The test to {address} was {each.kind}: {each.reply}", False
    reply = results[0].reply or "accepted"
    return f"Test sent to {shown}. The mail server replied: {reply}", True


async def _files(visit: Visit, draft: Draft) -> tuple[AttachedFile, ...]:
    if not draft.ref:
        return ()
    return await visit.services.attached_files.read(parse_ref(draft.ref), draft.content.attachments)


async def show_conflict(visit: Visit, draft: Draft) -> Response:
    """Show both versions after an edit conflict, and the form as it was typed."""
    current, theirs = await visit.services.composing.read(draft.ref)
    check_editable(current.status)
    draft.etag, draft.status = current.etag, current.status
    found = _differences(draft.content, theirs)
    return await show_editor(visit, draft, theirs=found, status=409)


def _differences(yours: Content, theirs: Content) -> list[Difference]:
    found = differences(LABELS, *shown_contents(yours, theirs))
    return [_shortened(each) for each in found]


def _shortened(found: Difference) -> Difference:
    """Return both texts from shortly before where they differ."""
    yours, theirs = found.yours.replace("\r\n", "\n"), found.theirs.replace("\r\n", "\n")
    pairs = enumerate(zip(yours, theirs, strict=False))
    shorter = min(len(yours), len(theirs))
    begin = max(0, next((at for at, (a, b) in pairs if a != b), shorter) - _SHOWN_BEFORE)
    end = begin + _SHOWN_IN_CONFLICT
    return Difference(found.label, _part(yours, begin, end), _part(theirs, begin, end))


def _part(text: str, begin: int, end: int) -> str:
    before, after = "…" if begin else "", "…" if end < len(text) else ""
    return f"{before}{text[begin:end]}{after}"


def _new_key(visit: Visit) -> str:
    return Signer(visit.context.secret, _PURPOSE).sign(new_ref())


def _may_edit(visit: Visit, message: Message) -> bool:
    return message.status is MessageStatus.DRAFT or visit.may(ListRight.SEND)


async def show_editor(
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
        names=await visit.lists.names(right=ListRight.EDIT),
        audience=await audience_choice(visit, draft),
        zones=zones(),
        formats=FORMAT_NAMES,
        track_names=TRACK_NAMES,
        canary_names=canary_names(draft.canary),
        next_format=NEXT.get(MessageFormat(draft.format)),
        templates=await usable_templates(visit, draft),
        merge_fields=await merge_field_choices(visit, draft),
        base_url=visit.context.base_url.rstrip("/"),
        test_result=test_result,
        was_sent=was_sent,
    )


def _form(path: str, endpoint: Endpoint, *methods: str, audited: bool = True) -> View:
    return View(
        path,
        endpoint,
        right=ListRight.EDIT,
        methods=methods,
        audited=audited,
        uses_rules=False,
        max_body=LARGEST_FORM,
    )


VIEWS = (
    _form("/messages/new", new, "GET", "POST"),
    _form("/messages/save", save, "POST"),
    _form("/messages/test", test, "POST"),
    _form("/messages/read-file", read_file, "POST", audited=False),
    _form("/messages/{ref}/edit", edit, "GET", "POST"),
)
