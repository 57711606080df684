"""What the recipients of a message have in its merge fields: for how many each is empty, and how
long the longest value is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.field_texts import shown_value
from postroom.domain.audience.lists import ListName
from postroom.services import entities
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.targeting.merged_lists import PeopleReader
from postroom.storage import Store

_PREFIX: Final = len(entities.EMAIL_PREFIX)


class FieldGap(msgspec.Struct, frozen=True):
    """For how many recipients a field is empty, and its longest value as an email shows it."""

    empty: int = 0
    longest: str = ""


class FieldGaps:
    def __init__(self, store: Store, fields: FieldService) -> None:
        self._table = store.table(entities.LISTS)
        self._fields = fields

    async def count(self, lists: Sequence[ListName], names: Collection[str]) -> dict[str, FieldGap]:
        """Return for each field how many people who may receive emails have no value, and the
        longest value. All of these lists are read, some rows at a time."""
        fields = [(await self._fields.of(each)).fields for each in lists]
        gaps: Counter[str] = Counter(dict.fromkeys(names, 0))
        longest = dict.fromkeys(names, "")
        reader = PeopleReader(self._table, lists, entities.AttributeRow)
        while not reader.is_at_end:
            people = await reader.read()
            for row, each in people.rows.items():
                if not each.may_receive:
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
