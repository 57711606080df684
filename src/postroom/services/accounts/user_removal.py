"""Taking a user away, with everything that could let the user in again."""

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
        """`NoSuch`; `NotNow` for the last administrator.

        Links go first: an interruption must not leave a way back in. Sessions go last: without
        their user they are worth nothing.
        """
        user = await self._users.get(email)
        await self._links.revoke_all_of(user.email)
        await self._users.remove(user.email)
        await self._sessions.end_all(user)
        return user
