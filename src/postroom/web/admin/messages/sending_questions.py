"""The question before mail goes to everybody at once: to how many, and is that what was meant?"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

from starlette.responses import Response

from postroom.mail.html import unseen_pictures
from postroom.services.messages.message_contents import NewBodies
from postroom.web.admin.messages.message_drafts import Draft
from postroom.web.rendering.labels import short
from postroom.web.requests.visit import Visit

_MOST_NAMED: Final = 5
_LONGEST_NAME: Final = 100


async def is_taken_back(visit: Visit) -> bool:
    """Return whether the user chose to go back to the form."""
    return await visit.text("sure") == "back"


async def question(visit: Visit, draft: Draft, bodies: NewBodies) -> Response | None:
    """Return the page that asks whether to send now; None if the message is for later or the user
    has confirmed. Changes nothing. `Invalid`, `NoSuch`."""
    at = draft.scheduled_at
    if at > datetime.now(UTC) or await visit.text("sure") == "yes":
        return None
    await visit.services.messages.checked(draft.list, draft.subject, bodies, at)
    limit = visit.context.settings.sender.rate
    visit.skip_audit()
    return visit.render(
        "admin/messages/message_question.html",
        draft=draft,
        fields=draft.fields(),
        estimate=await visit.services.estimates.of(draft.list, limit),
        passed=at if draft.when == "later" else None,
        pictures=await broken_pictures(bodies),
    )


async def broken_pictures(bodies: NewBodies) -> list[str]:
    """Return the pictures that no subscriber would see. In a thread, because HTML may be large."""
    if not bodies.html:
        return []
    found = await asyncio.to_thread(unseen_pictures, bodies.html)
    named = [short(each, _LONGEST_NAME) for each in found[:_MOST_NAMED]]
    return [*named, "…"] if len(found) > _MOST_NAMED else named
