"""What the columns of a file are used for, and the states that addresses have in other tools."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

import msgspec


class Meaning(StrEnum):
    """What a column is used for."""

    ADDRESS = "address"
    VERIFIED = "verified"
    BLOCKED = "blocked"
    STATUS = "status"
    STATE = "state"
    HAS_UNSUBSCRIBED = "has_unsubscribed"
    IS_BLOCKED = "is_blocked"
    IS_SUBSCRIBED = "is_subscribed"
    JOINED = "joined"
    CONFIRMED_AT = "confirmed_at"
    JOINED_FROM = "joined_from"
    CONFIRMED_FROM = "confirmed_from"
    NAME = "name"
    NOTE = "note"
    ATTRIBUTES = "attributes"
    FOREIGN_ID = "foreign_id"
    FIELD = "field"
    UNUSED = "unused"

    @property
    def text(self) -> str:
        """Return a label for a preview."""
        return _LABELS[self]


_LABELS: Final = {
    Meaning.ADDRESS: "Email address",
    Meaning.VERIFIED: "Confirmed: yes or no",
    Meaning.BLOCKED: "Reason for blocking",
    Meaning.STATUS: "Status",
    Meaning.STATE: "Status (if recognised)",
    Meaning.HAS_UNSUBSCRIBED: "Has unsubscribed",
    Meaning.IS_BLOCKED: "Is blocked",
    Meaning.IS_SUBSCRIBED: "Is subscribed",
    Meaning.JOINED: "Time of sign-up",
    Meaning.CONFIRMED_AT: "Time of confirmation",
    Meaning.JOINED_FROM: "IP address of sign-up",
    Meaning.CONFIRMED_FROM: "IP address of confirmation",
    Meaning.NAME: "First and last name",
    Meaning.NOTE: "Note",
    Meaning.ATTRIBUTES: "Fields as JSON",
    Meaning.FOREIGN_ID: "Id in old unsubscribe links",
    Meaning.FIELD: "Field",
    Meaning.UNUSED: "Not imported",
}


class Standing(IntEnum):
    """The state of an address in the tool that the file comes from; larger is stricter."""

    CONFIRMED = 1
    PENDING = 2
    UNSUBSCRIBED = 3
    BLOCKED = 4


class Blocking(msgspec.Struct, frozen=True):
    """Why an address must not receive email, from any list or from the list of the import."""

    reason: str
    everywhere: bool


STATUSES: Final = frozenset(
    {
        Meaning.STATUS,
        Meaning.STATE,
        Meaning.HAS_UNSUBSCRIBED,
        Meaning.IS_BLOCKED,
        Meaning.IS_SUBSCRIBED,
    }
)
"""What gives the status of an address in the other tool."""
