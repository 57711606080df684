"""Counts for how many recipients the merge fields of a message are empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

import msgspec

from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists import ListName
from postroom.services import entities
from postroom.services.audience.list_fields import FieldService
from postroom.storage import KeyRange, Store

_AT_ONCE: Final = 1000
_PREFIX: Final = len(entities.EMAIL_PREFIX)


class FieldGaps:
    def __init__(self, store: Store, fields: FieldService) -> None:
        self._table = store.table(entities.LISTS)
        self._fields = fields

    async def count(self, list_name: ListName, names: Collection[str]) -> dict[str, int]:
        """Return for each field how many subscribers who may receive emails have no value. The
        whole list is read, some rows at a time."""
        fields = (await self._fields.of(list_name)).fields
        gaps: Counter[str] = Counter(dict.fromkeys(names, 0))
        within = KeyRange.prefix(entities.EMAIL_PREFIX)
        start = within.start
        while True:
            rows = await self._table.read(
                entities.AttributeRow, list_name, KeyRange(start, within.stop), limit=_AT_ONCE
            )
            for row, each in rows.items():
                if not each.may_receive:
                    continue
                attributes = msgspec.json.decode(each.Attributes) if each.Attributes else {}
                address = Address(each.EmailAddress or row[_PREFIX:])
                values = fields.values(address, each.CreatedAt, attributes)
                gaps.update(name for name in names if values.get(name) in (None, "", ()))
            if len(rows) < _AT_ONCE:
                return dict(gaps)
            start = entities.behind(next(reversed(rows)))
