"""What a message will look like: the very mail that one recipient would get, taken apart again.

The HTML is somebody's own document, and is shown in a frame without rights.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import Response

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import MailingList, SubscriberGuid
from postroom.domain.errors import DomainError, Invalid, NoSuch
from postroom.mail.html.pictures import has_remote_pictures
from postroom.mail.mailing import Recipient
from postroom.mail.reading import ReadMail, read_mail
from postroom.sender.test_emails import draft_mailing
from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from postroom.web.admin.messages.form_content import (
    LABELS,
    LARGEST_FORM,
    Draft,
    draft_from_form,
    draft_of,
    problem_of,
)
from postroom.web.admin.messages.sending_questions import unseen_by_readers
from postroom.web.rendering.sandbox import sandboxed
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit

_SOMEBODY: Final = Recipient(
    Address("subscriber@example.com"), SubscriberGuid("00000000-0000-4000-8000-000000000000")
)
_NOTHING: Final = "<p style='font-family: sans-serif; color: #777'>{}</p>"


async def frame(visit: Visit) -> Response:
    """The HTML of a draft, for the frame beside the form."""
    draft, problems = await draft_from_form(visit)
    try:
        if problems:
            raise Invalid("html", next(iter(problems.values())))
        preview = await _preview_of(visit, draft, draft.typed)
    except DomainError:
        return _framed(_NOTHING.format("No preview yet."), is_draft=True)
    return _framed(preview.html or _NOTHING.format("This message has no HTML."), is_draft=True)


async def words(visit: Visit) -> Response:
    """Beside the frame: subject, text, what is wrong, how many it goes to."""
    draft, problems = await draft_from_form(visit)
    preview = None
    if not problems and (draft.html.strip() or draft.text.strip()):
        try:
            preview = await _preview_of(visit, draft, await draft.bodies())
        except DomainError as exc:
            problems = problem_of(exc)
    estimate = None
    try:
        if draft.list:
            mailing_list = await visit.services.lists.get(draft.list)
            limit = visit.context.settings.sender.rate
            estimate = await visit.services.estimates.of(mailing_list.name, limit)
    except DomainError as exc:
        problems |= problem_of(exc)
    return visit.page(
        "admin/messages/message_words.html",
        preview=preview,
        is_generated=not draft.text.strip(),
        pictures=await unseen_by_readers(draft.typed),
        estimate=estimate,
        problems=problems,
        labels=LABELS,
    )


async def of_message(visit: Visit) -> Response:
    """A message that is there, with its HTML in a frame."""
    message = await visit.services.messages.get(visit.parameter("ref"))
    bodies = await visit.services.messages.bodies(message)
    problems: dict[str, str] = {}
    preview = None
    try:
        preview = await _preview_of(visit, draft_of(message, bodies), bodies)
    except DomainError as exc:
        problems = problem_of(exc)
    return visit.page(
        "admin/messages/message_preview.html",
        message=message,
        preview=preview,
        pictures=await unseen_by_readers(bodies),
        with_pictures=_wants_pictures(visit),
        hides_pictures=not _wants_pictures(visit) and has_remote_pictures(bodies.html or ""),
        problems=problems,
    )


async def frame_of_message(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    bodies = await visit.services.messages.bodies(message)
    try:
        preview = await _preview_of(visit, draft_of(message, bodies), bodies)
    except DomainError:
        return _framed(_NOTHING.format("No preview."))
    shown = preview.html or _NOTHING.format("This message has no HTML.")
    return _framed(shown, with_pictures=_wants_pictures(visit))


async def _preview_of(visit: Visit, draft: Draft, bodies: NewBodies) -> ReadMail:
    """Made in a thread: a body may have 10 MB. `Invalid`, `NoSuch` list."""
    mailing_list = await _list_of(visit, draft)
    subject = draft.subject.strip() or "(no subject)"
    return await asyncio.to_thread(_made, mailing_list, subject, bodies, visit.context.base_url)


async def _list_of(visit: Visit, draft: Draft) -> MailingList:
    """The list; for a message that outlived its own, or a draft without one, a stand-in."""
    try:
        return await visit.services.lists.get(draft.list)
    except (NoSuch, Invalid):
        if draft.list and not draft.ref:
            raise
    names = await visit.services.lists.names(limit=1)
    if not names:
        raise NoSuch("list", draft.list)
    return await visit.services.lists.get(names[0])


def _made(mailing_list: MailingList, subject: str, bodies: NewBodies, base_url: str) -> ReadMail:
    return read_mail(draft_mailing(mailing_list, subject, bodies, base_url).mail(_SOMEBODY))


def _wants_pictures(visit: Visit) -> bool:
    """Return whether somebody asked for pictures from other sites. Nobody gets them unasked: only
    who writes a message sees its pictures at once."""
    return visit.parameter("pictures") == "yes"


def _framed(html: str, *, is_draft: bool = False, with_pictures: bool = False) -> Response:
    return sandboxed(html, with_pictures=is_draft or with_pictures, is_scrolled=is_draft)


PAGES = (
    Page(
        "/messages/preview/html",
        frame,
        role=Role.EDITOR,
        methods=("POST",),
        audited=False,
        max_body=LARGEST_FORM,
    ),
    Page(
        "/messages/preview/words",
        words,
        role=Role.EDITOR,
        methods=("POST",),
        audited=False,
        max_body=LARGEST_FORM,
    ),
    Page("/messages/{ref}/preview", of_message, role=Role.VIEWER),
    Page("/messages/{ref}/preview/html", frame_of_message, role=Role.VIEWER),
)
