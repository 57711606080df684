"""The index of a list's subscribers: searched by any part of the address, filtered, sorted, paged.

A list of any length is searched, and sorted by age. If that takes longer than a moment, the page
says how far it is and continues by itself: its address carries whom it has found so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists import ListName, Subscriber
from postroom.services.accounts.users import Role
from postroom.services.audience.subscriber_search import SubscriberLine, SubscriberState
from postroom.web.rendering.sorting import A_PAGE, Column, Sortable, Sorting
from postroom.web.requests.routing import Page
from postroom.web.requests.visit import Visit

_SECONDS: Final = 0.7
"""Of one look through a long list: with it, a page comes within a second."""

_DIGITS: Final = 9


def _state_of(subscriber: SubscriberLine) -> str:
    """Return the state as the page says it."""
    if subscriber.blocked:
        return "blocked"
    return "confirmed" if subscriber.verified else "not confirmed"


_INDEX: Final = Sortable[SubscriberLine](
    {
        "address": Column("Address", lambda each: each.address),
        "state": Column("State", _state_of),
        "since": Column("Since", lambda each: each.created_at, largest_first=True),
    },
    natural="address",
    in_words="In the order of addresses",
    at_any_size=frozenset({"since"}),
)


class _Look(msgspec.Struct, frozen=True):
    """What is asked for, and what earlier looks of the same search have found."""

    list_name: ListName
    part: str
    state: SubscriberState | None
    after: str
    kept: list[str]
    seen: int


class _Found(msgspec.Struct, frozen=True):
    """What is shown. `seen` subscribers were looked at; `continues_at` leads on if not all were."""

    subscribers: Sequence[Subscriber | SubscriberLine]
    seen: int = 0
    continues_at: str = ""


async def index(visit: Visit) -> Response:
    mailing_list = await visit.services.lists.get(visit.parameter("name"))
    part = visit.parameter("q").strip()
    state = _state(visit.parameter("state"))
    filters = {"q": part, "state": state.value if state else ""}
    sorting = Sorting(visit, _INDEX, filters)
    size = (await visit.services.sizes.of([mailing_list.name]))[mailing_list.name]
    sorting.expect(size.subscribers)
    look = _Look(
        mailing_list.name,
        part,
        state,
        visit.parameter("after"),
        visit.request.query_params.getlist("kept")[:A_PAGE],
        _number(visit.parameter("seen")),
    )
    if not sorting.is_natural and size.subscribers <= sorting.most:
        whole = await visit.services.search.whole(
            mailing_list.name, state=state, contains=part, most=sorting.most
        )
        found = _Found(sorting.page_of(whole) or [])
    elif sorting.is_at_any_size:
        found = await _by_age(visit, sorting, look)
    else:
        if not sorting.is_natural:
            sorting.page_of(None)
        found = await _in_order(visit, sorting, look)
    return visit.page(
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
        sorting=sorting,
    )


async def _in_order(visit: Visit, sorting: Sorting[SubscriberLine], look: _Look) -> _Found:
    """Look for a page of subscribers in the order of addresses."""
    search = visit.services.search
    kept = await search.lines(look.list_name, look.kept) if look.kept else []
    found = await search.find(
        look.list_name,
        state=look.state,
        contains=look.part,
        limit=max(A_PAGE - len(kept), 1),
        after=visit.parameter("from") or look.after,
        seconds=_SECONDS,
    )
    shown: list[Subscriber | SubscriberLine] = [*kept, *found.subscribers]
    if found.is_cut_short and found.next:
        seen = look.seen + found.looked_at
        again = sorting.continued(
            after=look.after,
            back=visit.request.query_params.getlist("back"),
            seen=str(seen),
            kept=[each.address for each in shown],
            **{"from": found.next},
        )
        return _Found(shown, seen, again)
    sorting.in_key_order(found.next)
    return _Found(shown)


async def _by_age(visit: Visit, sorting: Sorting[SubscriberLine], look: _Look) -> _Found:
    """Look for a page of the newest or oldest; `after` is the last one of the page before."""
    search = visit.services.search
    kept = await search.lines(look.list_name, look.kept) if look.kept else []
    behind = await search.lines(look.list_name, [look.after]) if look.after else []
    found = await search.by_age(
        look.list_name,
        oldest_first=not sorting.asked.startswith("-"),
        contains=look.part,
        state=look.state,
        behind=behind[0] if behind else None,
        limit=A_PAGE + 1,
        after=visit.parameter("from"),
        kept=kept,
        seconds=_SECONDS,
    )
    shown = found.subscribers
    if found.next is not None:
        seen = look.seen + found.looked_at
        again = sorting.continued(
            after=look.after,
            back=visit.request.query_params.getlist("back"),
            seen=str(seen),
            kept=[each.address for each in shown],
            **{"from": found.next},
        )
        return _Found(shown[:A_PAGE], seen, again)
    sorting.in_key_order(shown[A_PAGE - 1].address if len(shown) > A_PAGE else None)
    return _Found(shown[:A_PAGE])


def _state(text: str) -> SubscriberState | None:
    return SubscriberState(text) if text in set(SubscriberState) else None


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0


PAGES = (Page("/lists/{name}/subscribers", index, role=Role.VIEWER),)
