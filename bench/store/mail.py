"""The work that every measurement does: entities in partitions of 100, and pages of emails."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import cache

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import SubscriberGuid
from postroom.domain.messages.page_emails import PageEmails
from postroom.storage import Entity

PAGE = 100
DAY = "2026-11-15"
REF = "638987654321000000"

# About what a subscriber's row holds.
PROPERTIES: dict[str, str | bool] = {
    "EmailAddress": "somebody@example.com",
    "SubscriberGUID": "5a2e4a1e7d3f4d6f9b0c1d2e3f405162",
    "ListName": "contoso1",
    "Status": "pending",
    "EmailSent": False,
}


def partition(page: int) -> str:
    return f"{DAY},{REF},{page:06}"


def addresses(page: int) -> list[str]:
    return [f"user{page:06}-{number:02}@example.com" for number in range(PAGE)]


def entities(page: int) -> Iterator[Entity]:
    key = partition(page)
    return (Entity(key, address, PROPERTIES) for address in addresses(page))


@cache
def packed_page() -> bytes:
    """Return the emails of a page as one value, as they are stored."""
    guids = (str(uuid.UUID(int=number)) for number in range(PAGE))
    planned = {Address(to): SubscriberGuid(next(guids)) for to in addresses(0)}
    return PageEmails.planned(planned).packed()


def work_item(page: int) -> str:
    return f"{DAY},{REF},{page:06},0"
