"""The places that the navigation leads to, for the sidebar, the bar on a phone and the search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from postroom.domain.audience.lists.list_rights import ListRight
from postroom.services.accounts.users import Role


class NavigationEntry(msgspec.Struct, frozen=True):
    """A page in the navigation, and the role or right that its view requires.

    `words` are other names under which people search for it. `also` are paths that belong to it.
    `is_alone`: paths below it belong to other places.
    """

    path: str
    label: str
    icon: str
    needs: Role | ListRight = Role.VIEWER
    words: str = ""
    also: tuple[str, ...] = ()
    is_alone: bool = False

    def holds(self, path: str) -> bool:
        """Return whether a page belongs to this place."""
        if self.path == "/" or self.is_alone:
            return path == self.path
        own = (self.path, *self.also)
        return any(path == each or path.startswith(f"{each}/") for each in own)


class PlaceGroup(msgspec.Struct, frozen=True):
    """Places that are collapsed under a heading until one of them is open."""

    name: str
    label: str
    places: tuple[NavigationEntry, ...]

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
    NavigationEntry("/", "Home", "home", ListRight.VIEW, words="dashboard"),
    NavigationEntry(
        "/messages",
        "Messages",
        "mail",
        ListRight.VIEW,
        words="newsletter campaign drafts scheduled sending sent",
    ),
    NavigationEntry(
        "/lists",
        "Lists",
        "list",
        ListRight.VIEW,
        words="subscribers audience",
        also=("/fields", "/field"),
    ),
    NavigationEntry("/templates", "Templates", "panel", ListRight.VIEW, words="designs layouts"),
    NavigationEntry(
        "/pictures", "Pictures", "picture", ListRight.VIEW, words="images photos media upload"
    ),
    NavigationEntry(
        "/results",
        "Results",
        "chart",
        ListRight.VIEW,
        words="statistics reports opens clicks bounces growth",
    ),
)
GROUPS: Final = (
    PlaceGroup(
        "system",
        "System",
        (
            NavigationEntry(
                "/queues", "Queues", "queue", words="jobs failed poison", also=("/queue",)
            ),
            NavigationEntry("/apps", "Applications", "apps", words="workers processes hosts"),
            NavigationEntry("/outbox", "Outbox", "outbox", words="emails kept"),
            NavigationEntry(
                "/trace",
                "Trace an address",
                "trace",
                ListRight.VIEW,
                words="history of a subscriber",
            ),
            NavigationEntry("/events", "Activity", "events", words="log errors warnings"),
            NavigationEntry(
                "/explorer", "Explorer", "explorer", Role.ADMINISTRATOR, "tables blobs store"
            ),
            NavigationEntry("/audit", "Audit log", "audit", Role.ADMINISTRATOR, "who changed what"),
        ),
    ),
    PlaceGroup(
        "settings",
        "Settings",
        (
            NavigationEntry(
                "/settings/mail-server",
                "Mail server",
                "send",
                Role.ADMINISTRATOR,
                "smtp email provider gmail ses test email",
            ),
            NavigationEntry(
                "/domains",
                "Sending domains",
                "globe",
                Role.ADMINISTRATOR,
                "dkim spf dmarc dns signing",
            ),
            NavigationEntry(
                "/settings/bounces",
                "Bounces",
                "return",
                Role.ADMINISTRATOR,
                "returned mail complaints webhook imap verp",
            ),
            NavigationEntry(
                "/suppressions", "Suppression", "block", words="bounces complaints blocklist"
            ),
            NavigationEntry(
                "/providers", "Providers", "gauge", words="rates limits throttling gmail outlook"
            ),
            NavigationEntry(
                "/settings/alerts",
                "Alerts",
                "warning",
                Role.ADMINISTRATOR,
                "notify errors warnings webhook",
            ),
            NavigationEntry(
                "/embed",
                "Embed & API",
                "code",
                ListRight.VIEW,
                words="form website",
                also=("/api/docs",),
            ),
            NavigationEntry(
                "/users",
                "Team",
                "users",
                Role.ADMINISTRATOR,
                "people invite roles groups rights",
                also=("/groups",),
            ),
            NavigationEntry("/keys", "API keys", "key", Role.ADMINISTRATOR, "token scope"),
            NavigationEntry(
                "/settings",
                "All settings",
                "settings",
                Role.ADMINISTRATOR,
                "environment configuration",
                is_alone=True,
            ),
        ),
    ),
)
NEW_MESSAGE: Final = NavigationEntry(
    "/messages/new", "New message", "plus", ListRight.EDIT, "write compose"
)
ACCOUNT: Final = NavigationEntry(
    "/account", "Your account", "user", Role.MEMBER, words="password two-factor sessions"
)

SHORTCUTS: Final = {"g h": MAIN[0], "g m": MAIN[1], "g l": MAIN[2], "n": NEW_MESSAGE}
"""Keys that are pressed one after the other, and where they lead."""


def places_for(may: Callable[[Role | ListRight], bool]) -> tuple[NavigationEntry, ...]:
    """Return all places that someone may open, main ones first."""
    every = (*MAIN, *(each for group in GROUPS for each in group.places), ACCOUNT)
    return tuple(each for each in every if may(each.needs))


def place_of(path: str, may: Callable[[Role | ListRight], bool]) -> NavigationEntry | None:
    """Return the place that a page belongs to, if someone may open it."""
    return next((each for each in places_for(may) if each.holds(path)), None)


def groups_for(may: Callable[[Role | ListRight], bool]) -> tuple[PlaceGroup, ...]:
    """Return the groups with the places that someone may open; none is empty."""
    allowed = [
        msgspec.structs.replace(
            group, places=tuple(each for each in group.places if may(each.needs))
        )
        for group in GROUPS
    ]
    return tuple(group for group in allowed if group.places)
