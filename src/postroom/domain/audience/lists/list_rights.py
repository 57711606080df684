"""Rights on lists: what someone may do with which list.

A role gives rights on every list. In addition, users, groups and API keys can have rights on
individual lists. What has not been granted is denied: a list that someone may not view does not
exist for them, and neither does a message that has such a list in its audience.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.errors import Invalid


class ListRight(StrEnum):
    """What one may do with a list. Each right includes `view`."""

    VIEW = "view"
    EDIT = "edit"
    SEND = "send"
    MANAGE = "manage"


LIST_RIGHTS: Final[dict[ListRight, str]] = {
    ListRight.VIEW: "See the list, its subscribers and its messages.",
    ListRight.EDIT: "Write messages to the list.",
    ListRight.SEND: "Schedule, pause, cancel and retry messages to the list.",
    ListRight.MANAGE: "Change the list, its subscribers, fields, segments and sign-up page.",
}

Rights = frozenset[ListRight]
NO_RIGHTS: Final[Rights] = frozenset()
ALL_RIGHTS: Final[Rights] = frozenset(ListRight)


class ListAccess(msgspec.Struct, frozen=True):
    """What someone may do: `everywhere` on every list, and `lists` on individual ones."""

    everywhere: Rights = NO_RIGHTS
    lists: Mapping[str, Rights] = {}

    @property
    def is_limited(self) -> bool:
        """Whether there may be lists that do not exist for this person or key."""
        return ListRight.VIEW not in self.everywhere

    def may(self, right: ListRight, *names: str) -> bool:
        """Return whether they have the right on each of these lists.

        Without a list, they need the right on every list: what belongs to no list, such as a draft
        that has none yet, is for those with a role.
        """
        if right in self.everywhere:
            return True
        return bool(names) and all(right in self.lists.get(name, NO_RIGHTS) for name in names)

    def may_somewhere(self, right: ListRight) -> bool:
        """Return whether they have the right on at least one list."""
        return right in self.everywhere or any(right in each for each in self.lists.values())

    def with_right(self, right: ListRight) -> list[ListName]:
        """Return the individual lists on which the right was granted, sorted by name."""
        return sorted(ListName(name) for name, rights in self.lists.items() if right in rights)


FULL_ACCESS: Final = ListAccess(ALL_RIGHTS)
NO_ACCESS: Final = ListAccess()


def together(grants: Iterable[Mapping[str, Rights]]) -> dict[str, Rights]:
    """Return the rights of several grants on each list, such as those of a user's groups."""
    found: dict[str, Rights] = {}
    for each in grants:
        for name, rights in each.items():
            found[name] = found.get(name, NO_RIGHTS) | rights
    return found


def parse_rights(texts: Iterable[str]) -> Rights:
    """Return rights, with `view` if there are any. `Invalid`."""
    found: set[ListRight] = set()
    for text in texts:
        try:
            found.add(ListRight(text))
        except ValueError as exc:
            known = ", ".join(ListRight)
            raise Invalid("right", f"must be one of {known}, not {text[:40]!r}") from exc
    return frozenset({*found, ListRight.VIEW} if found else ())


def sorted_rights(rights: Rights) -> list[ListRight]:
    """Return rights in the order in which they are shown."""
    return [each for each in ListRight if each in rights]
