"""What the recipients of a message have in its merge fields: for how many each is empty, and how
long the longest value is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_texts import shown_value
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.audiences import EVERYBODY, Audience
from postroom.services import entities
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.targeting.audiences import AudienceService

_PREFIX: Final = len(entities.EMAIL_PREFIX)


class FieldGap(msgspec.Struct, frozen=True):
    """For how many recipients a field is empty, and its longest value as an email shows it."""

    empty: int = 0
    longest: str = ""


class FieldGaps:
    def __init__(self, fields: FieldService, audiences: AudienceService) -> None:
        self._fields = fields
        self._audiences = audiences

    async def count(
        self, list_name: ListName, names: Collection[str], audience: Audience = EVERYBODY
    ) -> dict[str, FieldGap]:
        """Return for each field how many of those who would receive a message have no value, and
        their longest value. All of its lists are read, some rows at a time. `Invalid`."""
        lists = (list_name, *audience.more_lists)
        fields = [(await self._fields.of(each)).fields for each in lists]
        gaps: Counter[str] = Counter(dict.fromkeys(names, 0))
        longest = dict.fromkeys(names, "")
        async for people, exclusions in self._audiences.people(list_name, audience):
            for row, each in people.rows.items():
                if exclusions[row] is not None:
                    continue
                address = Address(each.EmailAddress or row[_PREFIX:])
                known = fields[people.numbers.get(row, 0)]
                values = known.values(address, each.CreatedAt, each.known)
                gaps.update(name for name in names if values.get(name) in (None, "", ()))
                for name in names:
                    shown = shown_value(values.get(name))
                    if len(shown) > len(longest[name]):
                        longest[name] = shown
        return {name: FieldGap(gaps[name], longest[name]) for name in names}
