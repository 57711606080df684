"""Which tables and containers the explorer shows, and which of them it changes.

Deny by default: a table that is named here is open to exactly what this file says, and a new one
stays closed until somebody decides about it. No table may be changed that decides what runs, who
may do what, or how we sign: a stolen cookie would be enough to run programs.
"""

from __future__ import annotations

from postroom.domain.errors import NotNow
from postroom.services import entities

CHANGEABLE = frozenset(
    {
        entities.LISTS,
        entities.LIST_INDEX,
        entities.DEPARTED,
        entities.MESSAGES,
        entities.ARCHIVE,
        entities.PAGES,
        entities.INDEX,
        "growth",
    }
)
"""Tables of the mail itself: lists, subscribers, messages and their outcomes."""

READABLE = CHANGEABLE | {
    "audit",  # what people did is not rewritten
    "events",
    "hoststatus",
    "idempotency",
    "proxies",
    "queueaccess",  # who may use which queue
    "queueexpiry",
    "queuehistory",
    "queuestate",
    "signuplimit",
    "storecopy",
    "storeinfo",  # the version of the data
    "throttle",
}
"""Tables whose rows are shown as they are."""

CLOSED_BECAUSE = {
    "hostapps": "It contains the environments of applications. Use Applications instead.",
    "users": "It contains passwords and second factors. Use Team instead.",
    "sessions": "It contains the sessions of all users. Users see their own under Account.",
    "apikeys": "It contains the hashes of API keys. Use API keys instead.",
    "accesslinks": "It contains invitations and password links. Use Team instead.",
}
"""The reasons why known tables are closed, and where to look instead."""

_CLOSED = "It is not on the list of tables that can be shown."

CHANGEABLE_CONTAINERS = frozenset({entities.BODIES, entities.LOGOS})
"""Containers whose blobs can be deleted. Any blob can be downloaded: none holds a secret."""


def reason_closed(table: str) -> str:
    """Return why a table's values are hidden; empty for a table that is shown."""
    return "" if table in READABLE else CLOSED_BECAUSE.get(table, _CLOSED)


def check_readable(table: str) -> None:
    """Raise `NotNow` for a table whose values are hidden."""
    if reason := reason_closed(table):
        raise NotNow(f"the table {table} is closed here. {reason}")


def check_changeable(table: str) -> None:
    """Raise `NotNow` for a table that must not be changed here."""
    check_readable(table)
    if table not in CHANGEABLE:
        raise NotNow(f"the table {table} can be read here, but not changed")


def check_container_changeable(container: str) -> None:
    """Raise `NotNow` for a container whose blobs must not be deleted here."""
    if container not in CHANGEABLE_CONTAINERS:
        raise NotNow(f"the container {container} can be read here, but not changed")
