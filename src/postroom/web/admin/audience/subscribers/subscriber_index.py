"""The index of a list's subscribers: search by any part of the address, filter, sort.

Lists of any length can be searched, and sorted by age. If that takes longer than a moment, the page
shows its progress and continues automatically: its URL carries the results so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from starlette.responses import Response

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.fields import Field, Fields, value_text
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.services.audience.subscriber_search import SubscriberLine, SubscriberState
from postroom.web.rendering.sorting import ROWS_SHOWN, Sortable, SortColumn, Sorting
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_FIRST_SECONDS: Final = 0.04
"""Time limit of the search before the page is shown, so that it is there within 100 ms."""

_SECONDS: Final = 0.7
"""Time limit of each further step, while the page shows its progress."""

_DIGITS: Final = 9
_MOST_COLUMNS: Final = 5
_SEGMENTS_OFFERED: Final = 100


_STATES: Final = {
    SubscriberState.VERIFIED.value: "confirmed",
    SubscriberState.UNVERIFIED.value: "not confirmed",
    SubscriberState.BLOCKED.value: "blocked",
}
"""How pages name the states that can be filtered by."""


def _state_of(subscriber: SubscriberLine) -> str:
    """Return the state as pages show it."""
    if subscriber.blocked:
        return "blocked"
    return "confirmed" if subscriber.verified else "not confirmed"


_INDEX: Final = Sortable[SubscriberLine](
    {
        "address": SortColumn("Address", lambda each: each.address),
        "state": SortColumn("State", _state_of),
        "since": SortColumn("Joined", lambda each: each.created_at, largest_first=True),
    },
    key_order="address",
    order_label="Sorted by address",
    at_any_size=frozenset({"since"}),
)


class _Search(msgspec.Struct, frozen=True):
    """A search, and the results of its earlier steps."""

    list_name: ListName
    part: str
    state: SubscriberState | None
    segment: str
    after: str
    kept: list[str]
    seen: int
    seconds: float


class _Found(msgspec.Struct, frozen=True):
    """The results to show. `continues_at` is the next step if the search is not finished."""

    subscribers: Sequence[Subscriber | SubscriberLine]
    seen: int = 0
    continues_at: str = ""


async def index(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    part = visit.parameter("q").strip()
    state = _state(visit.parameter("state"))
    segment = visit.parameter("segment")
    fields = (await visit.services.fields.of(mailing_list.name)).fields
    columns = _columns(visit, fields)
    filters = {
        "q": part,
        "state": state.value if state else "",
        "segment": segment,
        "columns": ",".join(each.name for each in columns),
    }
    sorting = Sorting(visit, _INDEX, filters)
    size = (await visit.services.sizes.of([mailing_list.name]))[mailing_list.name]
    sorting.expect(size.subscribers)
    search = _Search(
        mailing_list.name,
        part,
        state,
        segment,
        visit.parameter("after"),
        visit.request.query_params.getlist("kept")[:ROWS_SHOWN],
        _number(visit.parameter("seen")),
        _SECONDS if visit.parameter("from") else _FIRST_SECONDS,
    )
    if segment:
        if not sorting.is_key_order:
            sorting.select(None)
        found = await _in_order(visit, sorting, search)
    elif not sorting.is_key_order and size.subscribers <= sorting.max_rows:
        whole = await visit.services.search.whole(
            mailing_list.name, state=state, contains=part, most=sorting.max_rows
        )
        found = _Found(sorting.select(whole) or [])
    elif sorting.is_at_any_size:
        found = await _by_age(visit, sorting, search)
    else:
        if not sorting.is_key_order:
            sorting.select(None)
        found = await _in_order(visit, sorting, search)
    return visit.render(
        "admin/audience/subscriber_rows.html"
        if visit.is_partial
        else "admin/audience/subscribers.html",
        list=mailing_list,
        size=size,
        subscribers=found.subscribers,
        seen=min(found.seen, size.subscribers),
        continues_at=found.continues_at,
        part=part,
        state=filters["state"],
        states=_STATES,
        sorting=sorting,
        segment=segment,
        segments=await _segment_names(visit, mailing_list.name),
        fields=fields.all,
        columns=columns,
        cells=await _cells(visit, mailing_list.name, found.subscribers, columns),
    )


def _columns(visit: Visit, fields: Fields) -> list[Field]:
    """Return the fields to show as columns: those that are ticked, or those of the URL."""
    ticked = visit.request.query_params.getlist("column")
    wanted = {*ticked, *("" if ticked else visit.parameter("columns")).split(",")}
    return [each for each in fields.all if each.name in wanted][:_MOST_COLUMNS]


async def _segment_names(visit: Visit, name: ListName) -> list[str]:
    found = await visit.services.segments.slice(name, limit=_SEGMENTS_OFFERED)
    return [each.name for each in found.segments]


async def _cells(
    visit: Visit,
    name: ListName,
    subscribers: Sequence[Subscriber | SubscriberLine],
    columns: list[Field],
) -> dict[Address, list[str]]:
    """Return the texts of the columns for each subscriber that is shown."""
    if not columns:
        return {}
    shown = [each.address for each in subscribers]
    found = await visit.services.search.attributes(name, shown)
    return {
        email: [value_text(found.get(email, {}).get(each.name)) for each in columns]
        for email in shown
    }


async def _in_order(visit: Visit, sorting: Sorting[SubscriberLine], step: _Search) -> _Found:
    """Search in the order of addresses."""
    search = visit.services.search
    kept = await search.lines(step.list_name, step.kept) if step.kept else []
    look = partial(search.find, step.list_name)
    if step.segment:
        look = partial(visit.services.segments.find, step.list_name, step.segment)
    found = await look(
        state=step.state,
        contains=step.part,
        limit=max(ROWS_SHOWN - len(kept), 1),
        after=visit.parameter("from") or step.after,
        seconds=step.seconds,
    )
    shown: list[Subscriber | SubscriberLine] = [*kept, *found.subscribers]
    if found.is_cut_short and found.next:
        seen = step.seen + found.looked_at
        again = sorting.continue_url(
            after=step.after,
            back=visit.request.query_params.getlist("back"),
            seen=str(seen),
            kept=[each.address for each in shown],
            **{"from": found.next},
        )
        return _Found(shown, seen, again)
    sorting.continue_after(found.next)
    return _Found(shown)


async def _by_age(visit: Visit, sorting: Sorting[SubscriberLine], step: _Search) -> _Found:
    """Search for the newest or oldest; `after` is the last one of the previous results."""
    search = visit.services.search
    kept = await search.lines(step.list_name, step.kept) if step.kept else []
    behind = await search.lines(step.list_name, [step.after]) if step.after else []
    found = await search.by_age(
        step.list_name,
        oldest_first=not sorting.requested.startswith("-"),
        contains=step.part,
        state=step.state,
        behind=behind[0] if behind else None,
        limit=ROWS_SHOWN + 1,
        after=visit.parameter("from"),
        kept=kept,
        seconds=step.seconds,
    )
    shown = found.subscribers
    if found.next is not None:
        seen = step.seen + found.looked_at
        again = sorting.continue_url(
            after=step.after,
            back=visit.request.query_params.getlist("back"),
            seen=str(seen),
            kept=[each.address for each in shown],
            **{"from": found.next},
        )
        return _Found(shown[:ROWS_SHOWN], seen, again)
    sorting.continue_after(shown[ROWS_SHOWN - 1].address if len(shown) > ROWS_SHOWN else None)
    return _Found(shown[:ROWS_SHOWN])


def _state(text: str) -> SubscriberState | None:
    return SubscriberState(text) if text in set(SubscriberState) else None


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0


VIEWS = (View("/lists/{name}/subscribers", index, right=ListRight.VIEW),)
