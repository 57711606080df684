"""The findings before a message is sent: next to the editor, and in the question before sending."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from msgspec import structs
from starlette.responses import Response

from postroom.composing.content_findings import ContentFinding, Level
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.messages.messages import Message
from postroom.services.messages.checks.preflight import INCOMPLETE, NOBODY, Preflight
from postroom.web.admin.messages.drafting.message_drafts import LABELS
from postroom.web.rendering.templating import sentence
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_SECONDS: Final = 0.03
"""How long a page waits for what is checked in the background; it asks again for the rest."""

_REASONS: Final = {
    "unconfirmed": "they have not confirmed their subscription",
    "blocked": "they are blocked",
    "paused": "they have paused their subscription",
    "outside_segment": "they are not in the segment",
    "excluded_segment": "they are in an excluded segment",
    "excluded_list": "they are on an excluded list",
    "duplicate": "they are on several of the lists and get it once",
}


async def panel(visit: Visit) -> Response:
    """Render what is known so far; the page asks again while slow checks are running."""
    message = await visit.services.messages.get(visit.parameter("ref"))
    return visit.render("admin/messages/preflight.html", **await before_sending(visit, message))


async def before_sending(visit: Visit, message: Message) -> dict[str, Any]:
    """Return the values of the panel."""
    found = await visit.context.preflight.check(message.ref, seconds=_SECONDS)
    later = is_future(message.scheduled_at)
    worded = tuple(_worded(each, is_later=later) for each in found.findings)
    return {"preflight": structs.replace(found, findings=worded), "reasons": _REASONS}


def is_future(at: datetime | None) -> bool:
    return at is not None and at > datetime.now(UTC)


def _worded(finding: ContentFinding, *, is_later: bool) -> ContentFinding:
    """Return a finding with the label of the form's field that it is about.

    Later, someone may be on the list who is not now."""
    if is_later and finding.code == NOBODY:
        text = "Nobody would receive this message if it were sent now."
        return structs.replace(finding, level=Level.WARNING, text=text)
    field, _, problem = finding.text.partition(": ")
    if finding.code.startswith(INCOMPLETE) and field in LABELS:
        return structs.replace(finding, text=sentence(problem, LABELS[field]))
    return finding


def refusals(found: Preflight, *, is_later: bool) -> list[str]:
    """Return what must be fixed before a message is sent."""
    worded = (_worded(each, is_later=is_later) for each in found.findings)
    return [each.text for each in worded if each.level is Level.ERROR]


VIEWS = (View("/messages/{ref}/preflight", panel, right=ListRight.VIEW),)
