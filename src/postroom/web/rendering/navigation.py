"""The places that the navigation leads to, for the sidebar, the bar on a phone and the search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from postroom.services.accounts.users import Role


class Place(msgspec.Struct, frozen=True):
    """A page in the navigation, and the role that its view requires.

    `words` are other names under which people search for it. `also` are paths that belong to it.
    """

    path: str
    label: str
    icon: str
    role: Role = Role.VIEWER
    words: str = ""
    also: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        """Return whether a page belongs to this place."""
        if self.path == "/":
            return path == "/"
        own = (self.path, *self.also)
        return any(path == each or path.startswith(f"{each}/") for each in own)


class PlaceGroup(msgspec.Struct, frozen=True):
    """Places that are collapsed under a heading until one of them is open."""

    name: str
    label: str
    places: tuple[Place, ...]

    def holds(self, path: str) -> bool:
        return any(each.holds(path) for each in self.places)


class TabLink(msgspec.Struct, frozen=True):
    """A tab of a page. A count of "" is not shown; `is_bad` marks one that needs attention."""

    url: str
    text: str
    is_current: bool
    count: str = ""
    is_bad: bool = False


MAIN: Final = (
    Place("/", "Home", "home", words="dashboard"),
    Place(
        "/messages", "Messages", "mail", words="newsletter campaign drafts scheduled sending sent"
    ),
    Place("/lists", "Lists", "list", words="subscribers audience"),
    Place("/templates", "Templates", "panel", words="designs layouts"),
    Place("/pictures", "Pictures", "picture", words="images photos media upload"),
)
GROUPS: Final = (
    PlaceGroup(
        "system",
        "System",
        (
            Place("/queues", "Queues", "queue", words="jobs failed poison", also=("/queue",)),
            Place("/apps", "Applications", "apps", words="workers processes hosts"),
            Place("/outbox", "Outbox", "outbox", words="emails kept"),
            Place("/trace", "Trace an address", "trace", words="history of a subscriber"),
            Place("/events", "Activity", "events", words="log errors warnings"),
            Place("/explorer", "Explorer", "explorer", Role.ADMINISTRATOR, "tables blobs store"),
            Place("/audit", "Audit log", "audit", Role.ADMINISTRATOR, "who changed what"),
        ),
    ),
    PlaceGroup(
        "settings",
        "Settings",
        (
            Place("/embed", "Embed & API", "code", words="form website", also=("/api/docs",)),
            Place("/users", "Team", "users", Role.ADMINISTRATOR, "people invite roles"),
            Place("/keys", "API keys", "key", Role.ADMINISTRATOR, "token scope"),
            Place("/settings", "All settings", "settings", Role.ADMINISTRATOR, "mail server smtp"),
        ),
    ),
)
NEW_MESSAGE: Final = Place("/messages/new", "New message", "plus", Role.WRITER, "write compose")
ACCOUNT: Final = Place("/account", "Your account", "user", words="password two-factor sessions")

SHORTCUTS: Final = {"g h": MAIN[0], "g m": MAIN[1], "g l": MAIN[2], "n": NEW_MESSAGE}
"""Keys that are pressed one after the other, and where they lead."""


def places_for(may: Callable[[Role], bool]) -> tuple[Place, ...]:
    """Return all places that someone may open, main ones first."""
    every = (*MAIN, *(each for group in GROUPS for each in group.places), ACCOUNT)
    return tuple(each for each in every if may(each.role))


def groups_for(may: Callable[[Role], bool]) -> tuple[PlaceGroup, ...]:
    """Return the groups with the places that someone may open; none is empty."""
    allowed = [
        msgspec.structs.replace(
            group, places=tuple(each for each in group.places if may(each.role))
        )
        for group in GROUPS
    ]
    return tuple(group for group in allowed if group.places)
