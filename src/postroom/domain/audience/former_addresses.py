"""The addresses that a subscription had before its owner changed them.

Records of emails name the address that an email went to. So the emails of someone who has changed
their address are found by their former ones, and only those that have their GUID: someone else may
own the address now.
"""

from __future__ import annotations

from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address, AddressKey, address_key
from postroom.domain.audience.lists.lists import ListName, Subscriber, SubscriberGuid
from postroom.domain.errors import NotNow

MOST_FORMER: Final = 20
"""Bounds the row of a subscriber. None is ever forgotten to make room, because erasing a person
would no longer find the emails to it; so the next change of the address is refused."""


class FormerAddress(msgspec.Struct, frozen=True):
    """An address that a subscription to a list had, and the GUIDs of its emails."""

    list_name: ListName
    key: AddressKey
    guids: tuple[SubscriberGuid, ...]


def former_of(subscriber: Subscriber) -> list[FormerAddress]:
    name, guids = subscriber.list_name, subscriber.guids
    return [FormerAddress(name, key, guids) for key in subscriber.former_addresses]


def moved_to(subscriber: Subscriber, address: Address) -> Subscriber:
    """Return the subscriber with another address. `NotNow` if they have had too many."""
    new = address_key(address)
    former = dict.fromkeys((*subscriber.former_addresses, subscriber.key))
    former.pop(new, None)
    if len(former) > MOST_FORMER:
        raise NotNow(
            f"{subscriber.address} has changed its address {MOST_FORMER} times, the maximum:"
            " add the new address as a new subscriber instead"
        )
    return msgspec.structs.replace(
        subscriber, address=address, former_addresses=tuple(former), etag=""
    )
