"""Home: subscribers and their growth, what is being sent and scheduled, the last message, the first
steps, and the state of the system.

Three parts of the page are loaded again while it is open: `/home/state` (the line about the
system), `/home/messages` (being sent and scheduled) and `/home/figures` (the rest).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.messages.messages import Message, MessageStatus
from postroom.services.accounts.users import Role
from postroom.services.audience.results.message_results import MessageResults
from postroom.services.operations.health import Grade
from postroom.web.admin.audience.growth import AudienceGrowth, audience, audience_of
from postroom.web.admin.messages.under_way import MessageUnderWay, under_way
from postroom.web.admin.operations.first_steps import find_first_steps
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_SENDING: Final = 3
_SCHEDULED: Final = 3
_DRAFTS: Final = 3
_DRAFTS_READ: Final = 50
_LAST: Final = 10  # messages, among which the last one that was sent is looked for
_LISTS_LOOKED_AT: Final = 20
_FOLDER: Final = "admin/operations"


class LastMessage(msgspec.Struct, frozen=True):
    """The last message that was sent, with its results."""

    message: Message
    results: MessageResults


async def home(visit: Visit) -> Response:
    state, messages, figures, steps = await asyncio.gather(
        _state(visit), _messages(visit), _figures(visit), find_first_steps(visit)
    )
    return visit.render(
        f"{_FOLDER}/home.html",
        **state,
        **messages,
        **figures,
        steps=steps,
        name=first_name(visit.who.email),
    )


async def state(visit: Visit) -> Response:
    return visit.render(f"{_FOLDER}/home_state.html", **await _state(visit))


async def messages(visit: Visit) -> Response:
    return visit.render(f"{_FOLDER}/home_messages.html", **await _messages(visit))


async def figures(visit: Visit) -> Response:
    return visit.render(f"{_FOLDER}/home_figures.html", **await _figures(visit))


async def try_now(visit: Visit) -> Response:
    """Probe now what emails wait for, for all messages."""
    problems = await visit.services.system_state.problems()
    tried = await visit.services.holds.try_now([each.hold for each in problems if each.hold])
    await visit.audit("tried the mail server again")
    return visit.redirect("/", "Trying now." if tried else "Nothing is on hold any more.")


def first_name(email: str) -> str:
    """Return the name to greet someone with: "Ann" for ann.smith@example.com, or nothing."""
    name = email.partition("@")[0].replace("_", ".").replace("+", ".").partition(".")[0]
    return name.capitalize() if len(name) > 1 and name.isalpha() else ""


async def _state(visit: Visit) -> dict[str, Any]:
    if visit.access.is_limited:  # it names what they do not see
        return {"problems": [], "Grade": Grade}
    problems = await visit.services.system_state.problems()
    return {"problems": problems, "Grade": Grade}


async def _messages(visit: Visit) -> dict[str, Any]:
    times = visit.messages
    open_ones, scheduled, drafts = await asyncio.gather(
        times.under_way(limit=_SENDING + 1),
        times.upcoming(limit=_SCHEDULED),
        times.drafts(limit=_DRAFTS_READ),
    )
    sending = await under_way(visit, open_ones[:_SENDING])
    drafts.sort(key=lambda each: not each.ready_by)  # those that wait for a decision first
    return {
        "sending": sending,
        "sending_title": _sending_title(sending),
        "more": len(open_ones) > len(sending),
        "scheduled": scheduled,
        "drafts": drafts[:_DRAFTS],
        "has_more_drafts": len(drafts) > _DRAFTS,
    }


def _sending_title(sending: list[MessageUnderWay]) -> str:
    if not all(each.is_waiting for each in sending):
        return "Sending now"
    return "On hold" if any(each.held for each in sending) else "Paused"


async def _figures(visit: Visit) -> dict[str, Any]:
    everyone, last = await asyncio.gather(_audience(visit), _last(visit))
    return {"audience": everyone, "last": last}


async def _audience(visit: Visit) -> AudienceGrowth:
    if visit.access.is_limited:
        return await audience_of(visit, await visit.lists.names())
    lists = (await visit.lists.slice(limit=_LISTS_LOOKED_AT)).lists
    size = await visit.services.sizes.total([each.name for each in lists])
    return await audience(visit, size)


async def _last(visit: Visit) -> LastMessage | None:
    done = (await visit.messages.done(limit=_LAST)).messages
    last = next((each for each in done if each.status is MessageStatus.COMPLETED), None)
    if last is None or last.counts is None:
        return None
    return LastMessage(last, await visit.services.results.of_message(last))


VIEWS = (
    View("/", home, right=ListRight.VIEW),
    View("/home/state", state, right=ListRight.VIEW),
    View("/home/messages", messages, right=ListRight.VIEW),
    View("/home/figures", figures, right=ListRight.VIEW),
    View("/home/try-now", try_now, role=Role.EDITOR, methods=("POST",)),
)
