"""The work that every measurement does: pages of emails, as the mail service stores them."""

from __future__ import annotations

from collections.abc import Iterator

from postroom.storage import Entity

PAGE = 100
DAY = "2026-11-15"
REF = "638987654321000000"

# What an email's row holds while it waits.
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


def email_page(page: int) -> Iterator[Entity]:
    key = partition(page)
    return (Entity(key, address, PROPERTIES) for address in addresses(page))


def work_item(page: int) -> str:
    return f"{DAY},{REF},{page:06},0"
