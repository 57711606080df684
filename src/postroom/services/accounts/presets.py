"""Roles as presets: the rights that each gives on every list."""

from __future__ import annotations

from typing import Final

from postroom.domain.audience.lists.list_rights import ALL_RIGHTS, NO_RIGHTS, ListRight, Rights
from postroom.services.accounts.users import Role

PRESETS: Final[dict[Role, Rights]] = {
    Role.MEMBER: NO_RIGHTS,
    Role.VIEWER: frozenset({ListRight.VIEW}),
    Role.WRITER: frozenset({ListRight.VIEW, ListRight.EDIT}),
    Role.EDITOR: ALL_RIGHTS,
    Role.ADMINISTRATOR: ALL_RIGHTS,
}


def role_with(right: ListRight) -> Role:
    """Return the lowest role that gives a right on every list."""
    return next(role for role in Role if right in PRESETS[role])
