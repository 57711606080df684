"""What a message will look like: the very mail that one recipient would get, taken apart again.

The HTML is somebody's own document. It is shown in a frame without rights: its answer carries a
policy of its own, under which no script runs and nothing can be sent.
"""

from __future__ import annotations

import asyncio
import email.policy
from email.message import EmailMessage
from typing import Final

import msgspec
from starlette.responses import HTMLResponse, Response

from postroom.domain.addresses import Address
from postroom.domain.errors import DomainError, Invalid, NoSuch
from postroom.domain.lists import MailingList, SubscriberGuid
from postroom.mail.mailing import Recipient
from postroom.sender.drafts import draft_mailing
from postroom.services.messages import NewBodies
from postroom.services.users import Role
from postroom.web.admin.drafts import LARGEST_FORM, Draft, draft_from_form, draft_of, problem_of
from postroom.web.routing import Page
from postroom.web.visit import Visit

POLICY: Final = (
    "sandbox; default-src 'none'; img-src data: https: http:; style-src 'unsafe-inline';"
    " frame-ancestors 'self'"
)
_SOMEBODY: Final = Recipient(
    Address("subscriber@example.com"), SubscriberGuid("00000000-0000-4000-8000-000000000000")
)
_NOTHING: Final = "<p style='font-family: sans-serif; color: #777'>{}</p>"


class Preview(msgspec.Struct, frozen=True):
    """A mail as its reader sees it. `html` is the document, unescaped; empty if there is none."""

    subject: str
    html: str
    text: str


async def frame(visit: Visit) -> Response:
    """The HTML of a draft, for the frame beside the form."""
    draft, problems = await draft_from_form(visit)
    try:
        if problems:
            raise Invalid("html", next(iter(problems.values())))
        preview = await _preview_of(visit, draft, draft.typed)
    except DomainError:
        return _framed(_NOTHING.format("No preview yet."))
    return _framed(preview.html or _NOTHING.format("This message has no HTML."))


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
            limit = visit.context.settings.value("rate")
            estimate = await visit.services.estimates.of(mailing_list.name, limit)
    except DomainError as exc:
        problems |= problem_of(exc)
    return visit.page(
        "admin/message_words.html",
        preview=preview,
        is_generated=not draft.text.strip(),
        estimate=estimate,
        problems=problems,
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
        "admin/message_preview.html", message=message, preview=preview, problems=problems
    )


async def frame_of_message(visit: Visit) -> Response:
    message = await visit.services.messages.get(visit.parameter("ref"))
    bodies = await visit.services.messages.bodies(message)
    try:
        preview = await _preview_of(visit, draft_of(message, bodies), bodies)
    except DomainError:
        return _framed(_NOTHING.format("No preview."))
    return _framed(preview.html or _NOTHING.format("This message has no HTML."))


async def _preview_of(visit: Visit, draft: Draft, bodies: NewBodies) -> Preview:
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


def _made(mailing_list: MailingList, subject: str, bodies: NewBodies, base_url: str) -> Preview:
    mailing = draft_mailing(mailing_list, subject, bodies, base_url)
    mail = email.message_from_bytes(mailing.mail(_SOMEBODY), policy=email.policy.default)
    if not isinstance(mail, EmailMessage):
        raise TypeError("the default policy makes EmailMessage")
    return Preview(str(mail["Subject"]), _part(mail, "html"), _part(mail, "plain"))


def _part(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body(preferencelist=(kind,))
    return "" if part is None else str(part.get_content())


def _framed(html: str) -> Response:
    return HTMLResponse(
        html,
        headers={"Content-Security-Policy": POLICY, "X-Frame-Options": "SAMEORIGIN"},
    )


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
