"""Removing a user, with everything that gives access."""

from __future__ import annotations

from postroom.services.accounts.access_links import AccessLinks
from postroom.services.accounts.sessions import SessionService
from postroom.services.accounts.users import User, UserService


class UserRemoval:
    def __init__(self, users: UserService, sessions: SessionService, links: AccessLinks) -> None:
        self._users = users
        self._sessions = sessions
        self._links = links

    async def remove(self, email: str) -> User:
        """Remove a user. `NoSuch`; `NotNow` for the last administrator.

        Links go first, so that an interruption leaves no way back in. Sessions go last: they are
        not valid without their user.
        """
        user = await self._users.get(email)
        await self._links.revoke_all_of(user.email)
        await self._users.remove(user.email)
        await self._sessions.end_all(user)
        return user
