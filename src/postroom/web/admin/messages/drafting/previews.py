"""Previews of a message: the email that one recipient would get, parsed again.

The HTML is user content, so it is shown in a sandboxed frame.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from starlette.responses import Response

from postroom.domain.audience.addresses import Address, parse_address
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import MailingList, Subscriber, SubscriberGuid
from postroom.domain.errors import DomainError, Invalid, NoSuch
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.domain.messages.web_pages import known_web_url, preview_url
from postroom.mail.bodies.html import has_remote_pictures
from postroom.mail.bodies.preheader import first_words, shown_preheader
from postroom.mail.mail_reader import ReadMail, read_mail
from postroom.mail.mailing import Recipient
from postroom.mail.personal.merge_fields import Personal
from postroom.sender.draft_emails import draft_mailing, draft_values
from postroom.services.messages.drafts.draft_contents import Content, has_own_html
from postroom.services.messages.message_contents import NewBodies
from postroom.web.admin.messages.drafting.message_drafts import (
    LABELS,
    LARGEST_FORM,
    Draft,
    broken_pictures,
    draft_from_form,
    problem_of,
)
from postroom.web.rendering.sandbox import sandboxed, with_theme
from postroom.web.rendering.templating import short
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_RECIPIENT: Final = Recipient(
    Address("subscriber@example.com"), SubscriberGuid("00000000-0000-4000-8000-000000000000")
)
_PREHEADER_LENGTH: Final = 140
_NOTHING: Final = "<p style='font-family: sans-serif; color: #777'>{}</p>"


async def frame(visit: Visit) -> Response:
    """Render the HTML of a draft for the frame next to the form."""
    draft, problems = await draft_from_form(visit)
    is_dark = await visit.text("theme") == "dark"
    try:
        if problems:
            raise Invalid("html", next(iter(problems.values())))
        subscriber = await chosen_subscriber(visit, draft)
        bodies = await _bodies(visit, draft)
        preview = await _preview_of(
            visit,
            draft.content,
            bodies,
            is_new=not draft.ref,
            subscriber=subscriber,
            web_url=preview_url(visit.context.base_url, draft.ref),
        )
    except DomainError:
        return _framed(visit, _NOTHING.format("No preview yet."), is_draft=True)
    shown = preview.html or _NOTHING.format("This message has no HTML.")
    return _framed(visit, with_theme(shown, is_dark=is_dark), is_draft=True)


async def text(visit: Visit) -> Response:
    """Render what is around the frame: the row in an inbox, the text, errors, number of
    recipients."""
    draft, problems = await draft_from_form(visit)
    preview, bodies = None, NewBodies()
    if not problems and (draft.body.strip() or draft.text.strip()):
        try:
            subscriber = await chosen_subscriber(visit, draft)
            bodies = await visit.services.composing.compile(draft.content)
            preview = await _preview_of(
                visit,
                draft.content,
                bodies,
                is_new=not draft.ref,
                subscriber=subscriber,
                web_url=preview_url(visit.context.base_url, draft.ref),
            )
        except DomainError as exc:
            problems = problem_of(exc)
    estimate, sender = None, draft.from_name
    try:
        if draft.list:
            mailing_list = await visit.services.lists.get(draft.list)
            limit = visit.context.settings.sender.rate
            estimate = await visit.services.estimates.of(mailing_list.name, limit, draft.audience)
            sender = sender or mailing_list.description or mailing_list.name
    except DomainError as exc:
        problems |= problem_of(exc)
    return visit.render(
        "admin/messages/preview_text.html",
        preview=preview,
        sender=sender or "Sender",
        preheader=_preheader(preview) if preview else draft.preheader,
        is_generated=not draft.text.strip(),
        pictures=await broken_pictures(bodies),
        estimate=estimate,
        problems=problems,
        labels=LABELS,
    )


def _preheader(preview: ReadMail) -> str:
    """Return what an inbox shows after the subject: without a preheader, the first words."""
    if shown := shown_preheader(preview.html or ""):
        return shown
    text = first_words(preview.html) if preview.html else preview.text or ""
    return short(" ".join(text.split()), _PREHEADER_LENGTH)


async def chosen_subscriber(visit: Visit, draft: Draft) -> Subscriber | None:
    """Return the subscriber whose copy is shown, if one was chosen. `Invalid`, `NoSuch`."""
    chosen = (await visit.text("preview_as")).strip()
    if not chosen or not draft.list:
        return None
    address = parse_address(chosen, "preview_as")
    return await visit.services.subscriptions.get(draft.list, address)


async def of_message(visit: Visit) -> Response:
    """Show the preview of an existing message."""
    message, content, bodies = await _stored(visit)
    problems: dict[str, str] = {}
    preview = None
    try:
        preview = await _preview_of(visit, content, bodies, web_url=_web_url(visit, message))
    except DomainError as exc:
        problems = problem_of(exc)
    return visit.render(
        "admin/messages/message_preview.html",
        message=message,
        preview=preview,
        pictures=await broken_pictures(bodies),
        with_pictures=_wants_pictures(visit),
        hides_pictures=not _wants_pictures(visit) and has_remote_pictures(bodies.html or ""),
        problems=problems,
    )


async def frame_of_message(visit: Visit) -> Response:
    return _framed(visit, await html_of_message(visit), with_pictures=_wants_pictures(visit))


async def html_of_message(visit: Visit) -> str:
    """Return the HTML of an existing message for a frame, or a sentence if there is none."""
    message, content, bodies = await _stored(visit)
    try:
        preview = await _preview_of(visit, content, bodies, web_url=_web_url(visit, message))
    except DomainError:
        return _NOTHING.format("No preview.")
    return preview.html or _NOTHING.format("This message has no HTML.")


def _web_url(visit: Visit, message: Message) -> str:
    return known_web_url(visit.context.base_url, message)


async def _stored(visit: Visit) -> tuple[Message, Content, NewBodies]:
    """Return a message with its bodies as they are sent; a draft's as its author wrote them."""
    message, content = await visit.services.composing.read(visit.parameter("ref"))
    if message.status is not MessageStatus.DRAFT:
        return message, content, await visit.services.messages.bodies(message)
    try:
        return message, content, await visit.services.composing.compile(content)
    except DomainError:
        return message, content, NewBodies(content.body, content.text)


async def _bodies(visit: Visit, draft: Draft) -> NewBodies:
    """Return what a draft is sent with, or what was typed if that is sent as it is. `Invalid`."""
    if has_own_html(draft.content):
        return NewBodies(draft.body if draft.body.strip() else None, draft.content.text or None)
    return await visit.services.composing.compile(draft.content)


async def _preview_of(
    visit: Visit,
    content: Content,
    bodies: NewBodies,
    *,
    is_new: bool = False,
    subscriber: Subscriber | None = None,
    web_url: str = "",
) -> ReadMail:
    """Compose the email in a thread, because a body may have 10 MB. It has a subscriber's values,
    but not the identity that its links act for. `Invalid`, `NoSuch`."""
    mailing_list = await _list_of(visit, content.list_name, is_new=is_new)
    content = msgspec.structs.replace(content, subject=content.subject.strip() or "(no subject)")
    base_url = visit.context.base_url
    personal = await visit.services.audiences.personal(mailing_list.name, subscriber)
    recipient = _RECIPIENT
    if subscriber is not None:
        recipient = msgspec.structs.replace(_RECIPIENT, address=subscriber.address)
    return await asyncio.to_thread(
        _composed, mailing_list, content, bodies, base_url, recipient, personal, web_url
    )


async def _list_of(visit: Visit, name: str, *, is_new: bool) -> MailingList:
    """Return the list, or any list if there is none yet or it was deleted."""
    try:
        return await visit.services.lists.get(name)
    except (NoSuch, Invalid):
        if name and is_new:
            raise
    names = await visit.lists.names(limit=1)
    if not names:
        raise NoSuch("list", name)
    return await visit.services.lists.get(names[0])


def _composed(
    mailing_list: MailingList,
    content: Content,
    bodies: NewBodies,
    base_url: str,
    recipient: Recipient,
    personal: Personal,
    web_url: str,
) -> ReadMail:
    subject, lines = content.subject, content.lines
    mailing = draft_mailing(mailing_list, subject, bodies, base_url, lines, personal, web_url)
    values = draft_values(subject, bodies, lines, personal)
    return read_mail(mailing.mail(msgspec.structs.replace(recipient, values=values)))


def _wants_pictures(visit: Visit) -> bool:
    """Return whether pictures from other sites were requested. Only the author of a message sees
    them without asking."""
    return visit.parameter("pictures") == "yes"


def _framed(
    visit: Visit, html: str, *, is_draft: bool = False, with_pictures: bool = False
) -> Response:
    return sandboxed(
        html,
        base_url=visit.context.base_url,
        with_pictures=is_draft or with_pictures,
        is_scrolled=is_draft,
    )


VIEWS = (
    View(
        "/messages/preview/html",
        frame,
        right=ListRight.EDIT,
        methods=("POST",),
        uses_rules=False,
        audited=False,
        max_body=LARGEST_FORM,
    ),
    View(
        "/messages/preview/text",
        text,
        right=ListRight.EDIT,
        methods=("POST",),
        uses_rules=False,
        audited=False,
        max_body=LARGEST_FORM,
    ),
    View("/messages/{ref}/preview", of_message, right=ListRight.VIEW, uses_rules=False),
    View("/messages/{ref}/preview/html", frame_of_message, right=ListRight.VIEW, uses_rules=False),
)
