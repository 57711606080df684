"""Suppressions: addresses that must not receive email, on every list or on one, and why."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final, NewType

import msgspec

from postroom.domain.audience.addresses import Address, address_key
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Invalid
from postroom.domain.messages.refs import MessageRef
from postroom.domain.plain_text import one_line

AddressDigest = NewType("AddressDigest", str)
"""Identifies an address without revealing it, the same for all spellings."""

LONGEST_REASON: Final = 200
LONGEST_SOURCE: Final = 100
_DIGITS: Final = 32  # hexadecimal: enough to rule out a collision


class SuppressionReason(StrEnum):
    """The usual reasons. Someone who suppresses an address by hand may give any other."""

    GONE = "hard bounce"
    UNDELIVERED = "repeated bounces"
    COMPLAINT = "complaint"
    REQUEST = "request"


class Suppression(msgspec.Struct, frozen=True):
    """An address that must not receive email.

    Without `list_name` it counts for every list. `source` says who or what suppressed it, `ref` and
    `diagnostic` are the message and the text of the bounce. An erased address is empty: its digest
    still protects it.
    """

    digest: AddressDigest
    address: Address
    reason: str
    source: str
    created_at: datetime
    list_name: ListName | None = None
    expires_at: datetime | None = None
    ref: MessageRef | None = None
    diagnostic: str = ""
    etag: str = ""

    def counts_at(self, now: datetime) -> bool:
        """Return whether it has not expired."""
        return self.expires_at is None or self.expires_at > now

    def counts_for(self, list_name: ListName, now: datetime) -> bool:
        """Return whether it keeps emails of a list from the address."""
        return self.list_name in (None, list_name) and self.counts_at(now)

    def is_at_least(self, other: Suppression) -> bool:
        """Return whether it lasts as long as another one of the same address."""
        if self.expires_at is None or other.expires_at is None:
            return self.expires_at is None
        return self.expires_at >= other.expires_at


def address_digest(address: Address) -> AddressDigest:
    return AddressDigest(hashlib.sha256(address_key(address).encode()).hexdigest()[:_DIGITS])


def parse_reason(text: str) -> str:
    return one_line("reason", text, longest=LONGEST_REASON)


def end_of_day(day: date, now: datetime) -> datetime:
    """Return when a suppression expires whose last day is `day`, in UTC. `Invalid`."""
    if not now.astimezone(UTC).date() <= day < date.max:
        raise Invalid("until", f"must be today or a later day, not {day.isoformat()}")
    return datetime.combine(day, time(), UTC) + timedelta(days=1)
