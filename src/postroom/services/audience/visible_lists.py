"""Lists as one person or API key sees them: others do not exist."""

from __future__ import annotations

import asyncio

from postroom.domain.audience.lists.list_rights import ListAccess, ListRight
from postroom.domain.audience.lists.lists import ListName, MailingList
from postroom.domain.errors import NoSuch
from postroom.services.audience.lists import ListService, ListSlice


class VisibleLists:
    def __init__(self, lists: ListService, access: ListAccess) -> None:
        self._lists = lists
        self._access = access

    async def slice(
        self, *, prefix: str = "", limit: int = 100, after: str | None = None
    ) -> ListSlice:
        """Return lists in the order of their names, all or those that begin with `prefix`."""
        if not self._access.is_limited:
            return await self._lists.slice(prefix=prefix, limit=limit, after=after)
        names = [
            name
            for name in self._access.with_right(ListRight.VIEW)
            if name.startswith(prefix) and (after is None or name > after)
        ]
        shown, more = names[:limit], len(names) > limit
        found = await asyncio.gather(*map(self._find, shown))
        lists = [each for each in found if each is not None]
        return ListSlice(lists, shown[-1] if more else None)

    async def names(
        self, *, right: ListRight = ListRight.VIEW, limit: int = 1000
    ) -> list[ListName]:
        """Return the first names in order of the lists on which there is this right."""
        if self._access.may(right):
            return await self._lists.names(limit=limit)
        found = await asyncio.gather(*map(self._find, self._access.with_right(right)[:limit]))
        return [each.name for each in found if each is not None]

    async def _find(self, name: ListName) -> MailingList | None:
        try:
            return await self._lists.get(name)
        except NoSuch:  # just deleted
            return None
