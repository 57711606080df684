"""What to know before sending a message: beside the editor, and in the question before sending."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from postroom.composing.findings import Level
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import ListName
from postroom.domain.messages.messages import Message
from postroom.services.accounts.users import Role
from postroom.services.audience.subscriber_search import SubscriberState
from postroom.services.messages.preflight import NOBODY, Preflight
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_SECONDS: Final = 3.0
"""How long the question before sending waits for links and DNS."""

_MOST_EXAMPLES: Final = 3
_SECONDS_FOR_EXAMPLES: Final = 0.2
_STATES: Final = {
    "unconfirmed": SubscriberState.UNVERIFIED,
    "blocked": SubscriberState.BLOCKED,
}
_REASONS: Final = {
    "unconfirmed": "they have not confirmed their subscription",
    "blocked": "they are blocked",
    "paused": "they have paused their subscription",
    "outside_segment": "they are not in the segment",
    "excluded_segment": "they are in an excluded segment",
    "excluded_list": "they are on an excluded list",
}


async def panel(visit: Visit) -> Response:
    """Render what is known so far; the page asks again while slow checks are running."""
    message = await visit.services.messages.get(visit.parameter("ref"))
    found = await visit.context.preflight.check(message.ref)
    return visit.render("admin/messages/preflight.html", **await shown(visit, message, found))


async def before_sending(visit: Visit, message: Message) -> dict[str, Any]:
    """Return the values of the panel in the question before sending."""
    found = await visit.context.preflight.check(message.ref, seconds=_SECONDS)
    return await shown(visit, message, found)


async def shown(visit: Visit, message: Message, found: Preflight) -> dict[str, Any]:
    return {
        "preflight": found,
        "reasons": _REASONS,
        "examples": await _examples(visit, message.list_name, found.audience.excluded),
    }


async def _examples(
    visit: Visit, list_name: ListName, excluded: Mapping[str, int]
) -> dict[str, list[Address]]:
    """Return some of those who will not receive a message, by reason."""
    return {
        reason: [
            each.address
            for each in (
                await visit.services.search.find(
                    list_name, state=state, limit=_MOST_EXAMPLES, seconds=_SECONDS_FOR_EXAMPLES
                )
            ).subscribers
        ]
        for reason, state in _STATES.items()
        if reason in excluded
    }


def refusals(found: Preflight, *, is_later: bool) -> list[str]:
    """Return what must be put right before a message is sent. Later, somebody may be on the list
    who is not now."""
    return [
        each.text
        for each in found.findings
        if each.level is Level.ERROR and not (is_later and each.code == NOBODY)
    ]


VIEWS = (View("/messages/{ref}/preflight", panel, role=Role.VIEWER),)
