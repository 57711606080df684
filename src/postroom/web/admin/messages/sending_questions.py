"""The question before mail goes to everybody at once: to how many, and is that what was meant?"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

from starlette.responses import Response

from postroom.mail.html.pictures import unseen_pictures
from postroom.services.messages.message_contents import NewBodies
from postroom.web.admin.messages.form_content import Draft
from postroom.web.admin.wording import short
from postroom.web.requests.visit import Visit

_MOST_NAMED: Final = 5
_LONGEST_NAME: Final = 100


async def is_taken_back(visit: Visit) -> bool:
    """Whoever was asked wants to see the form again."""
    return await visit.text("sure") == "back"


async def question(visit: Visit, draft: Draft, bodies: NewBodies) -> Response | None:
    """The page that asks, with all of the form in it; None if it goes out later, or if they are
    sure. Does not change anything. `Invalid`, `NoSuch` list: what cannot be sent is not asked."""
    at = draft.scheduled_at
    if at > datetime.now(UTC) or await visit.text("sure") == "yes":
        return None
    await visit.services.messages.checked(draft.list, draft.subject, bodies, at)
    limit = visit.context.settings.sender.rate
    visit.leaves_no_record()
    return visit.page(
        "admin/messages/message_question.html",
        draft=draft,
        fields=draft.fields(),
        estimate=await visit.services.estimates.of(draft.list, limit),
        passed=at if draft.when == "later" else None,
        pictures=await unseen_by_readers(bodies),
    )


async def unseen_by_readers(bodies: NewBodies) -> list[str]:
    """The pictures that nobody would see, as a page names them. In a thread: HTML may be large."""
    if not bodies.html:
        return []
    found = await asyncio.to_thread(unseen_pictures, bodies.html)
    named = [short(each, _LONGEST_NAME) for each in found[:_MOST_NAMED]]
    return [*named, "…"] if len(found) > _MOST_NAMED else named
