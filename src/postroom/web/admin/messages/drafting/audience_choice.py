"""Who a message can go to: what the editor offers for the chosen list."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.errors import Invalid, NoSuch
from postroom.web.admin.messages.drafting.message_drafts import Draft, audience_from
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_MOST_SEGMENTS: Final = 200
_MOST_LISTS: Final = 200


class AudienceChoice(msgspec.Struct, frozen=True):
    """The segments of a list, and the other lists, whose subscribers can be added or left out."""

    segments: list[str] = []
    lists: list[str] = []


async def audience_choice(visit: Visit, draft: Draft) -> AudienceChoice:
    """Return what can be chosen. What the draft has is in it, even if it no longer exists."""
    try:
        found = await visit.services.segments.slice(draft.list, limit=_MOST_SEGMENTS)
        segments = [each.name for each in found.segments]
    except (NoSuch, Invalid):
        segments = []  # no list is chosen yet, or it was deleted
    lists = await visit.lists.names(right=ListRight.EDIT, limit=_MOST_LISTS)
    return AudienceChoice(
        _with(segments, (draft.segment, *draft.exclude_segments)),
        _with(
            [each for each in lists if each != draft.list],
            (*draft.more_lists, *draft.exclude_lists),
        ),
    )


def _with(offered: list[str], chosen: tuple[str, ...]) -> list[str]:
    return [*offered, *(each for each in dict.fromkeys(chosen) if each and each not in offered)]


async def audience(visit: Visit) -> Response:
    """Show what can be chosen for another list. Segments of the previous one are dropped."""
    draft = Draft(list=visit.parameter("list"))
    offered = await audience_choice(visit, draft)
    given = audience_from(visit.request.query_params)
    draft.segment = given.segment if given.segment in offered.segments else ""
    draft.exclude_segments = tuple(
        each for each in given.exclude_segments if each in offered.segments
    )
    draft.exclude_lists = tuple(each for each in given.exclude_lists if each in offered.lists)
    draft.more_lists = tuple(each for each in given.more_lists if each in offered.lists)
    return visit.render(
        "admin/messages/editor_audience.html", draft=draft, audience=offered, problems={}
    )


VIEWS = (View("/messages/audience", audience, right=ListRight.EDIT, uses_rules=False),)
