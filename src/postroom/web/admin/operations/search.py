"""Search (Ctrl-K): jump to a page, a list, a message or a subscriber, or start something."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import Response

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import NoSuch
from postroom.services.accounts.users import Role
from postroom.web.rendering.navigation import NEW_MESSAGE, NavigationEntry, places_for
from postroom.web.rendering.templating import status_label
from postroom.web.requests.views import View
from postroom.web.requests.visit import Visit

_LONGEST_QUERY: Final = 200
_SHOWN: Final = 5  # of each kind
_MESSAGES_SEARCHED: Final = 100  # the newest ones
_LISTS_SEARCHED: Final = 100  # each is a separate read
_LISTS_WITH_ADDRESSES: Final = 25  # each is a separate query
_FEWEST_LETTERS: Final = 2  # of an address
_ACTIONS: Final = (
    NEW_MESSAGE,
    NavigationEntry("/lists/new", "New list", "plus", Role.EDITOR, "create"),
    NavigationEntry("/users", "Invite someone", "plus", Role.ADMINISTRATOR, "user team"),
    NavigationEntry("/keys", "Create API key", "plus", Role.ADMINISTRATOR, "token"),
)


class SearchHit(msgspec.Struct, frozen=True):
    """A result: where it leads, and what it is."""

    url: str
    text: str
    icon: str
    detail: str = ""


class HitGroup(msgspec.Struct, frozen=True):
    label: str
    hits: list[SearchHit]


async def search(visit: Visit) -> Response:
    query = visit.parameter("q").strip()[:_LONGEST_QUERY]
    groups = await _find(visit, query)
    template = "search_results.html" if visit.is_partial else "search.html"
    return visit.render(
        f"admin/operations/{template}",
        query=query,
        groups=[each for each in groups if each.hits],
    )


async def _find(visit: Visit, query: str) -> list[HitGroup]:
    words = query.casefold().split()
    actions = [each for each in _ACTIONS if visit.may(each.needs)]
    pages = places_for(visit.may)
    places = [
        HitGroup("Start", _of_places(actions, words)),
        HitGroup("Go to", _of_places(pages, words)),
    ]
    if not words:
        return places
    if any(_has(each.label, words) for each in pages):  # a page has this name
        places.reverse()
    lists, messages, subscribers = await asyncio.gather(
        _lists(visit, words), _messages(visit, words), _subscribers(visit, query)
    )
    return [
        *places,
        HitGroup("Lists", lists),
        HitGroup("Messages", messages),
        HitGroup("Subscribers", subscribers),
    ]


def _of_places(places: Sequence[NavigationEntry], words: list[str]) -> list[SearchHit]:
    """Return the places that match the query, those that match by name first."""
    found = [each for each in places if _has(f"{each.label} {each.words}", words)]
    found.sort(key=lambda each: not _has(each.label, words))
    return [SearchHit(each.path, each.label, each.icon) for each in found]


def _has(text: str, words: list[str]) -> bool:
    """Return whether each of the words begins a word of the text."""
    parts = text.casefold().replace("-", " ").split()
    return all(any(part.startswith(word) for part in parts) for word in words)


async def _lists(visit: Visit, words: list[str]) -> list[SearchHit]:
    first = await visit.lists.slice(limit=_LISTS_SEARCHED)
    # Names beyond the first ones are found by how they begin.
    named = await visit.lists.slice(prefix=words[0], limit=_SHOWN) if first.next else first
    lists = {each.name: each for each in (*first.lists, *named.lists)}
    found = [
        each
        for each in lists.values()
        if all(word in f"{each.name} {each.description}".casefold() for word in words)
    ]
    return [
        SearchHit(f"/lists/{each.name}", each.description, "list", each.name)
        for each in found[:_SHOWN]
    ]


async def _messages(visit: Visit, words: list[str]) -> list[SearchHit]:
    newest, drafts = await asyncio.gather(
        visit.messages.all(limit=_MESSAGES_SEARCHED),
        visit.messages.drafts(limit=_MESSAGES_SEARCHED),
    )
    found = [
        each
        for each in (*drafts, *newest.messages)
        if all(word in f"{each.subject} {each.ref}".casefold() for word in words)
    ]
    return [
        SearchHit(
            f"/messages/{each.ref}",
            each.subject or "(no subject)",
            "mail",
            status_label(each.status),
        )
        for each in found[:_SHOWN]
    ]


async def _subscribers(visit: Visit, query: str) -> list[SearchHit]:
    """Find addresses that start with the query; anything with an @ can be traced, too."""
    if len(query) < _FEWEST_LETTERS or " " in query:
        return []
    names = await visit.lists.names(limit=_LISTS_WITH_ADDRESSES)
    found = await asyncio.gather(*(_of_list(visit, name, query) for name in names))
    hits = [hit for of_list in found for hit in of_list][:_SHOWN]
    if "@" in query:
        url = f"/trace?{urlencode({'email': query})}"
        hits.append(SearchHit(url, f"Trace {query}", "trace"))
    return hits


async def _of_list(visit: Visit, name: ListName, query: str) -> list[SearchHit]:
    try:
        found = await visit.services.subscriptions.slice(name, prefix=query, limit=_SHOWN)
    except NoSuch:  # the list is being deleted
        return []
    return [
        SearchHit(f"/lists/{name}/subscribers/{quote(each.address)}", each.address, "user", name)
        for each in found.subscribers
    ]


VIEWS = (View("/search", search, right=ListRight.VIEW),)
