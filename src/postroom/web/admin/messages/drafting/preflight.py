"""What to know before sending a message: beside the editor, and in the question before sending."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from postroom.composing.content_findings import Level
from postroom.domain.audience.list_rights import ListRight
from postroom.domain.messages.messages import Message
from postroom.services.messages.checks.preflight import NOBODY, Preflight
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_SECONDS: Final = 0.05
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
    found = await visit.context.preflight.check(visit.parameter("ref"), seconds=_SECONDS)
    return visit.render("admin/messages/preflight.html", **shown(found))


async def before_sending(visit: Visit, message: Message) -> dict[str, Any]:
    """Return the values of the panel in the question before sending."""
    return shown(await visit.context.preflight.check(message.ref, seconds=_SECONDS))


def shown(found: Preflight) -> dict[str, Any]:
    return {"preflight": found, "reasons": _REASONS}


def refusals(found: Preflight, *, is_later: bool) -> list[str]:
    """Return what must be put right before a message is sent. Later, somebody may be on the list
    who is not now."""
    return [
        each.text
        for each in found.findings
        if each.level is Level.ERROR and not (is_later and each.code == NOBODY)
    ]


VIEWS = (View("/messages/{ref}/preflight", panel, right=ListRight.VIEW),)
