"""The format of a draft: an empty one may have any; others are converted, after a question."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import Response

from postroom.composing.blocks.blocks import parse_blocks
from postroom.composing.content_findings import Findings
from postroom.composing.format_conversions import NEXT, convert
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import Invalid, Overtaken
from postroom.domain.messages.messages import Message, MessageFormat, check_editable
from postroom.services.messages.drafts.draft_contents import Content, ContentChange
from postroom.web.admin.messages.drafting.editor import show_conflict, show_editor, store_draft
from postroom.web.admin.messages.drafting.message_drafts import (
    FORMAT_NAMES,
    LARGEST_FORM,
    draft_from_form,
    draft_of,
    problem_of,
)
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_BLOCKS: Final = MessageFormat.BLOCKS
_CHANGES: Final = {
    MessageFormat.MARKDOWN: (
        "The text becomes blocks: headings, paragraphs, lists, pictures and quotes.",
        "Tables and code become parts of text blocks, where you can edit their words.",
    ),
    MessageFormat.BLOCKS: (
        "You edit the tags of the email instead of its blocks.",
        "The template and the list’s colours become part of the message. Later changes to them do"
        " not affect it.",
    ),
    MessageFormat.MJML: (
        "You edit the HTML that MJML was compiled to: many nested tables.",
        "The template and the list’s colours become part of the message. Later changes to them do"
        " not affect it.",
    ),
}
_BACK: Final = "It cannot be converted back, but the current text is kept under Versions."


async def choose(visit: Visit) -> Response:
    """Save what is in the form, and change its format immediately if it is empty; otherwise ask."""
    draft, _ = await draft_from_form(visit)
    try:
        wanted = MessageFormat(await visit.text("to"))
    except ValueError:
        wanted = draft.content.format
    typed = draft.body, draft.format
    is_free = is_empty(draft.content)
    if is_free:
        draft.body, draft.format = "", wanted.value
    try:
        saved = await store_draft(visit, draft)
    except Invalid as exc:
        return await show_editor(visit, draft, problem_of(exc), status=422)
    except Overtaken:
        draft.body, draft.format = typed
        return await show_conflict(visit, draft)
    if is_free or wanted.value == draft.format:
        return visit.redirect(f"/messages/{saved.ref}/edit")
    return visit.redirect(f"/messages/{saved.ref}/format?to={wanted.value}")


async def change(visit: Visit) -> Response:
    """Say what changes, then convert the draft."""
    message, content = await visit.services.composing.read(visit.parameter("ref"))
    check_editable(message.status)
    back = f"/messages/{message.ref}/edit"
    wanted = NEXT.get(content.format)
    asked = visit.parameter("to") or await visit.text("to")
    if wanted is None or wanted.value != asked:
        return visit.redirect(back, _not_possible(content.format))
    if visit.request.method == "GET":
        return visit.render(
            "admin/confirm.html",
            title=f"Convert this message to {FORMAT_NAMES[wanted]}?",
            points=[*_CHANGES[content.format], _BACK],
            button=f"Convert to {FORMAT_NAMES[wanted]}",
            fields={"to": wanted.value, "etag": message.etag},
            back=back,
            is_harmless=True,
        )
    try:
        await _convert(visit, message, content)
    except Invalid as exc:
        return await show_editor(visit, draft_of(message, content), problem_of(exc), status=422)
    except Overtaken:
        return visit.redirect(back, "Someone else has changed this draft. Convert it again.")
    await visit.audit("converted draft", f"{message.ref} to {wanted.value}")
    done = f"Converted to {FORMAT_NAMES[wanted]}. The previous text is under Versions."
    return visit.redirect(back, done)


async def _convert(visit: Visit, message: Message, content: Content) -> None:
    """Replace a draft's source by the same in its next format. `Invalid`, `Overtaken`."""
    composing = visit.services.composing
    brand, layout, rules = await composing.design(content)
    made, body = await asyncio.to_thread(
        convert, content.body, content.format, brand, layout, rules
    )
    template = content.template if made is _BLOCKS else ""
    await composing.save(
        message.ref,
        ContentChange(format=made, body=body, template=template, text=content.text),
        visit.who.email,
        etag=await visit.text("etag") or message.etag,
        keeps_previous=True,
    )


def is_empty(content: Content) -> bool:
    """Return whether nothing would be lost with the body."""
    if not content.body.strip():
        return True
    if content.format is not _BLOCKS:
        return False
    document = parse_blocks(content.body, Findings(content.body))
    return document is not None and not document.blocks and not any(document.slots.values())


def _not_possible(given: MessageFormat) -> str:
    wanted = NEXT.get(given)
    way = f" It can be converted to {FORMAT_NAMES[wanted]}." if wanted else ""
    return f"Only an empty message can change to another format.{way}"


VIEWS = (
    View(
        "/messages/format", choose, right=ListRight.EDIT, methods=("POST",), max_body=LARGEST_FORM
    ),
    View("/messages/{ref}/format", change, right=ListRight.EDIT, methods=("GET", "POST")),
)
