"""The domains that lists send from."""

from __future__ import annotations

from typing import Final

from postroom.domain.audience.addresses import domain_of
from postroom.domain.audience.lists.lists import ListName
from postroom.mail.wire_addresses import ascii_domain
from postroom.services.audience.lists import ListService

_AT_ONCE: Final = 100


async def from_domains(lists: ListService) -> dict[str, list[ListName]]:
    """Return the domains of From addresses, in order, with the lists that use each."""
    found: dict[str, list[ListName]] = {}
    after: str | None = None
    while True:
        part = await lists.slice(limit=_AT_ONCE, after=after)
        for each in part.lists:
            domain = ascii_domain(domain_of(each.from_address)).lower()
            found.setdefault(domain, []).append(each.name)
        if (after := part.next) is None:
            return dict(sorted(found.items()))
