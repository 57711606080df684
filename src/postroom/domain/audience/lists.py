"""Mailing lists and their subscribers."""

from __future__ import annotations

import re
import secrets
import uuid
from datetime import datetime
from typing import NewType

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.appearance import Colour
from postroom.domain.errors import Invalid
from postroom.domain.languages import LANGUAGES

ListName = NewType("ListName", str)
SubscriberGuid = NewType("SubscriberGuid", str)

_LIST_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")

# RFC 9562 5.4: the version in the first half of byte 6, the variant in two bits of byte 8.
_RANDOM_BITS = bytes.fromhex("ffffffffffff0fff3fffffffffffffff")
_FIXED_BITS = bytes.fromhex("00000000000040008000000000000000")


class MailingList(msgspec.Struct, frozen=True):
    """A list, as the store keeps it. The ETag guards an edit.

    `list_properties` describes the properties. If the list is not `public`, only administrators and
    programs with a key can add subscribers. `logo` names the picture on the list's public pages.
    """

    name: ListName
    description: str
    from_address: Address
    created_at: datetime
    etag: str = ""
    public: bool = True
    signup_text: str = ""
    welcome_text: str = ""
    colour: Colour = Colour("")
    logo: str = ""
    language: str = LANGUAGES[0]
    postal_address: str = ""


class Subscriber(msgspec.Struct, frozen=True):
    """An address on a list. The GUID is the secret in its links.

    `merged_guids` belonged to subscribers whose addresses differed from this one only in case,
    before such addresses were one subscriber: their links still work.
    """

    list_name: ListName
    address: Address
    guid: SubscriberGuid
    verified: bool
    created_at: datetime
    verified_at: datetime | None = None
    blocked: str = ""
    etag: str = ""
    merged_guids: tuple[SubscriberGuid, ...] = ()

    @property
    def key(self) -> AddressKey:
        return address_key(self.address)

    @property
    def may_receive(self) -> bool:
        return self.verified and not self.blocked


def parse_list_name(text: str, field: str = "list") -> ListName:
    if not isinstance(text, str) or not _LIST_NAME.fullmatch(text):
        raise Invalid(field, "must have 1 to 100 letters, digits, '_', '-' or '.'")
    if text in (".", ".."):
        raise Invalid(field, f"must not be {text!r}")
    return ListName(text)


def parse_new_list_name(text: str, field: str = "name") -> ListName:
    """Parse the name of a list to be created; `new` is reserved for the form `/lists/new`."""
    if text == "new":
        raise Invalid(field, "must not be 'new', which is reserved")
    return parse_list_name(text, field)


def new_guid() -> SubscriberGuid:
    """Return an unguessable GUID (version 4)."""
    return SubscriberGuid(str(uuid.UUID(bytes=secrets.token_bytes(16), version=4)))


def new_guids(count: int) -> list[SubscriberGuid]:
    """Return many GUIDs in order, in a tenth of the time that single ones take.

    They share their first 16 random bits, so that rows written together are stored together: a list
    of a million grows nearly twice as fast. Each has 106 more random bits.
    """
    number = int.from_bytes(secrets.token_bytes(16 * count))
    number &= int.from_bytes(_RANDOM_BITS * count)
    number |= int.from_bytes(_FIXED_BITS * count)
    digits = number.to_bytes(16 * count).hex()
    begin = secrets.token_hex(2)
    ends = sorted(digits[start + 4 : start + 32] for start in range(0, 32 * count, 32))
    return [SubscriberGuid(f"{begin}{g[:4]}-{g[4:8]}-{g[8:12]}-{g[12:16]}-{g[16:]}") for g in ends]


def parse_guid(text: str, field: str = "id") -> SubscriberGuid:
    try:
        return SubscriberGuid(str(uuid.UUID(text)))
    except (ValueError, AttributeError, TypeError) as exc:
        raise Invalid(field, "is not a valid identifier") from exc
