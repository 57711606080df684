"""What the columns of a file mean, and what other tools' words for the state of an address mean."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from postroom.domain.audience.suppressions import SuppressionReason
from postroom.domain.errors import Invalid
from postroom.services.audience.files.cells import shown, squeezed


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


_LONGEST_WORD: Final = 100
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
    """Why an address must not receive email: from no list, or from the one that is imported to."""

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

# The words of Brevo, Buttondown, ConvertKit, Keila, listmonk, Mailchimp, MailerLite, Mailman,
# phpList and Sendy.
STATUS_WORDS: Final = {
    Standing.CONFIRMED: (
        "confirmed", "active", "enabled", "subscribed", "verified", "opted in", "double opt-in",
        "regular", "premium", "gifted", "trialed", "churning", "past due",
    ),
    Standing.PENDING: (
        "pending", "unconfirmed", "unverified", "not confirmed", "not verified", "inactive",
        "nonsubscribed", "not subscribed", "never subscribed", "transactional", "single opt-in",
        "unactivated",
    ),
    Standing.UNSUBSCRIBED: (
        "unsubscribed", "unsubscribe", "unsub", "opted out", "opt-out", "cancelled", "canceled",
        "removed", "left", "disabled", "archived", "by user",
        "paused", "churned",
    ),
    Standing.BLOCKED: (
        "blocklisted", "blacklisted", "blocked", "cleaned", "bounced", "hard bounce",
        "hard bounced", "soft bounced", "complained", "complaint", "spam", "spam complaint",
        "marked as spam", "abuse", "junk", "banned", "suppressed", "invalid", "by bounces",
        "by admin", "unreachable", "undeliverable", "spammy",
    ),
}  # fmt: skip

_COLUMN_NAMES: Final = {
    Meaning.STATUS: (
        "status", "subscription status", "subscriber status", "email status", "contact status",
        "member status", "marketing status", "opt-in status", "subscription state",
    ),
    Meaning.STATE: ("state",),
    Meaning.HAS_UNSUBSCRIBED: (
        "unsubscribed", "unsubscribed at", "unsubscribe date", "unsubscribe time", "unsub time",
        "opted out", "opt-out", "opted out at", "opt-out date", "opt-out time",
    ),
    Meaning.IS_BLOCKED: (
        "blocklisted", "blacklisted", "bounced", "bounced at", "complained", "cleaned",
        "clean time", "marked as spam", "suppressed", "email blacklisted", "email blocklisted",
        "blacklisted email", "is this subscriber blacklisted", "is this account disabled",
    ),
}  # fmt: skip
_NO: Final = frozenset({"", "0", "no", "n", "false", "f", "none", "null", "never", "nil", "na"})


MEANINGS: Final = {
    squeezed(name): meaning for meaning, names in _COLUMN_NAMES.items() for name in names
}
_STANDINGS: Final = {
    squeezed(word): standing for standing, words in STATUS_WORDS.items() for word in words
}


_KINDS: Final = {
    squeezed(word): reason
    for reason, words in {
        SuppressionReason.GONE: (
            "cleaned", "bounced", "hard bounce", "hard bounced", "by bounces", "unreachable",
            "undeliverable", "invalid", "bounced at", "clean time",
        ),
        SuppressionReason.COMPLAINT: (
            "complained", "complaint", "spam", "spam complaint", "marked as spam", "abuse", "junk",
        ),
    }.items()
    for word in words
}  # fmt: skip
"""Words for blocked addresses that say something about the mailbox, or its owner, for any list. The
others, such as `blocklisted`, are decisions of a team about one list."""


def blocking_of(word: str) -> Blocking:
    """Return how an address is to be suppressed that is blocked with this word."""
    reason = _KINDS.get(squeezed(word))
    if reason is not None:
        return Blocking(reason.value, everywhere=True)
    return Blocking(f"{shown(word, longest=_LONGEST_WORD)} in the imported file", everywhere=False)


def standing_of(meaning: Meaning, cell: str) -> Standing | None:
    """Return what a cell says about the state of its address. `Invalid` for an unknown word."""
    word = squeezed(cell)
    if meaning is Meaning.IS_SUBSCRIBED:
        if not word:
            return None
        return Standing.UNSUBSCRIBED if word in _NO else Standing.CONFIRMED
    if meaning in (Meaning.HAS_UNSUBSCRIBED, Meaning.IS_BLOCKED):
        if word in _NO:
            return None
        is_blocked = meaning is Meaning.IS_BLOCKED
        return Standing.BLOCKED if is_blocked else Standing.UNSUBSCRIBED
    if not word or word in _STANDINGS or meaning is Meaning.STATE:
        return _STANDINGS.get(word)
    raise Invalid(
        "status",
        f"unknown status {shown(cell.strip())!r}: use confirmed, pending, unsubscribed or blocked",
    )
