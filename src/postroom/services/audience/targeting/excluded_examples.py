"""Some of those who will not receive a message, for each reason, so that authors can check the
numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from postroom import clock
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.audiences import Audience, Exclusion
from postroom.services import entities
from postroom.services.audience.targeting.audiences import AudienceService

_MOST: Final = 3
_SECONDS: Final = 2.0
_PREFIX: Final = len(entities.EMAIL_PREFIX)


async def excluded_examples(
    audiences: AudienceService,
    list_name: ListName,
    audience: Audience,
    reasons: Collection[str],
) -> dict[str, list[Address]]:
    """Return up to three addresses for each of these reasons, in the order of the list, as far as
    they are found within two seconds. `Invalid`."""
    found: dict[str, list[Address]] = {each: [] for each in reasons}
    begun = clock.monotonic()
    async for people, exclusions in audiences.people(list_name, audience):
        duplicates = [(each, Exclusion.DUPLICATE) for each in people.duplicates]
        for row, reason in (*exclusions.items(), *duplicates):
            some = found.get(reason or "")
            if some is not None and len(some) < _MOST:
                some.append(Address(people.rows[row].EmailAddress or row[_PREFIX:]))
        is_complete = all(len(some) >= _MOST for some in found.values())
        if is_complete or clock.monotonic() - begun > _SECONDS:
            break
    return {reason: some for reason, some in found.items() if some}
