"""The matrix of lists and rights, on the pages of a user, a group and an API key.

It shows all lists if there are few. Of many, it shows those with rights and those that a search
finds. Saving it changes the lists that it shows, and leaves all others alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from postroom.domain.audience.lists.list_rights import (
    LIST_RIGHTS,
    NO_RIGHTS,
    ListAccess,
    ListRight,
    Rights,
    parse_rights,
)
from postroom.domain.audience.lists.lists import ListName
from postroom.services.accounts.list_grants import describe_rights
from postroom.web.requests.visit import Visit

_FEW: Final = 50  # lists that are shown without a search
_FOUND: Final = 25
_LONGEST_SEARCH: Final = 100
SHOWN: Final = "shown"
"""The form's field with the names of the lists that it shows, separated by spaces."""
_PREFIX: Final = "rights "


class MatrixRow(msgspec.Struct, frozen=True):
    """A list with the rights that were granted, and those that come from a role or a group."""

    name: ListName
    granted: Rights
    implied: Rights


class Matrix(msgspec.Struct, frozen=True):
    rows: list[MatrixRow]
    total: int
    query: str

    @property
    def is_searched(self) -> bool:
        """Whether there are too many lists to show them all."""
        return self.total > _FEW

    @property
    def rights(self) -> dict[ListRight, str]:
        return LIST_RIGHTS


async def find_matrix(visit: Visit, principal: str, implied: ListAccess | None = None) -> Matrix:
    """Return the matrix of a user, a group or a key. `implied` is what they may do anyway."""
    implied = implied or ListAccess()
    query = visit.parameter("q").strip()[:_LONGEST_SEARCH]
    names = await visit.services.lists.names()
    granted = await visit.services.list_grants.of(principal)
    shown = names
    if len(names) > _FEW:
        chosen = {*map(ListName, granted), *map(ListName, implied.lists)}
        shown = sorted(chosen | await _found(visit, names, query))
    rows = [
        MatrixRow(
            name,
            granted.get(name, NO_RIGHTS),
            implied.everywhere | implied.lists.get(name, NO_RIGHTS),
        )
        for name in shown
    ]
    return Matrix(rows, len(names), query)


async def _found(visit: Visit, names: list[ListName], query: str) -> set[ListName]:
    """Return lists whose names contain the query; beyond the first thousand, begin with it."""
    if not query:
        return set()
    found = [each for each in names if query.casefold() in each.casefold()]
    part = await visit.services.lists.slice(prefix=query, limit=_FOUND)
    return {*found[:_FOUND], *(each.name for each in part.lists)}


async def save_matrix(visit: Visit, principal: str, whose: str) -> int:
    """Save the rights in the form; return on how many lists they changed. `Invalid`, `NoSuch`."""
    form = await visit.form()
    wanted = {
        ListName(name): parse_rights(_texts(form.getlist(_PREFIX + name)))
        for name in (await visit.text(SHOWN)).split()
    }
    await _check_lists(visit, wanted)
    changed = await visit.services.list_grants.change(principal, wanted)
    for each in changed:
        text = f"{whose} on {each.list_name}: {describe_rights(each.rights)}"
        await visit.audit("changed rights", text)
    if not changed:
        visit.skip_audit()
    return len(changed)


async def _check_lists(visit: Visit, wanted: Mapping[ListName, Rights]) -> None:
    for name, rights in wanted.items():
        if rights:
            await visit.services.lists.get(name)


def _texts(values: Iterable[object]) -> list[str]:
    return [each for each in values if isinstance(each, str)]
