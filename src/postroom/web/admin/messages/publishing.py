"""Publish a message on the web, or take it off again."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.messages.messages import Message
from postroom.domain.messages.web_pages import archive_path, is_in_archive, is_sent, web_url
from postroom.web.requests.flash import Undo
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit


async def publish(visit: Visit) -> Response:
    ref = visit.parameter("ref")
    is_on = await visit.text("published") == "yes"
    message = await visit.services.publishing.publish(ref, is_on)
    await visit.audit("published message" if is_on else "unpublished message", ref)
    if not is_on:
        flash = "Unpublished. The archive no longer shows this message."
    elif is_in_archive(message):
        flash = "Published. The archive shows this message."
    else:
        flash = "The archive will show this message once it is sent."
    undo = Undo(f"/messages/{ref}/publish", (("published", "no" if is_on else "yes"),))
    return visit.redirect(f"/messages/{ref}", flash, undo)


def web_addresses(message: Message, base_url: str) -> dict[str, Any]:
    """Return where a message can be seen by everyone, and by those who have the link."""
    return {
        "archive_page": archive_path(message.list_name, message.ref)
        if is_in_archive(message)
        else "",
        "web_url": web_url(base_url, message.ref, message.web_key)
        if message.web_key and is_sent(message)
        else "",
    }


VIEWS = (View("/messages/{ref}/publish", publish, right=ListRight.SEND, methods=("POST",)),)
