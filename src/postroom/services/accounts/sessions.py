"""Login sessions.

| table      | partition              | row               | holds       |
|------------|------------------------|-------------------|-------------|
| `sessions` | hash of the address    | hash of the token | one session |

The cookie is `PARTITION.TOKEN`: a session is a point read, and a user's sessions are one partition.
The store has only hashes, with which nobody can log in.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
from datetime import datetime, timedelta

import msgspec

from postroom import clock
from postroom.domain.plain_text import printable
from postroom.services.accounts.users import User, UserService
from postroom.services.entities import read, read_optional
from postroom.storage import Conflict, Delete, Entity, Insert, KeyRange, NotFound, Store, Value

SESSION_AGE = timedelta(days=14)
# The minimum time between two updates of `SeenAt`.
_SEEN_EVERY = timedelta(minutes=5)
_SHAPE = re.compile(r"([0-9a-f]{32})\.([A-Za-z0-9_-]{43})", re.ASCII)


class Session(msgspec.Struct, frozen=True):
    """One login. `id` is the hash of the token. `confirmed_at` is when the user last entered the
    password. CSRF tokens are made for `forms_id`, which stays the same when the session gets a new
    token, so that open forms stay valid."""

    id: str
    email: str
    started_at: datetime
    seen_at: datetime
    place: str
    browser: str
    confirmed_at: datetime | None = None
    forms_id: str = ""


class SessionService:
    def __init__(self, store: Store, users: UserService) -> None:
        self._sessions = store.table("sessions")
        self._users = users

    async def start(
        self, user: User, place: str, browser: str, *, confirmed_at: datetime | None = None
    ) -> str:
        """Return the token for the browser's cookie.

        `confirmed_at` is when the user last proved everything that a login asks for, if that was
        not just now.
        """
        await self._remove_old(user)
        secret = secrets.token_urlsafe(32)
        now = clock.now()
        values: dict[str, Value] = {
            "Email": user.email,
            "Epoch": user.epoch,
            "StartedAt": now,
            "SeenAt": now,
            "ConfirmedAt": confirmed_at or now,
            "Place": printable(place, longest=100),
            "Browser": printable(browser, longest=300),
        }
        await self._sessions.insert(Entity(_partition(user.email), _hashed(secret), values))
        return f"{_partition(user.email)}.{secret}"

    async def find(self, token: str) -> tuple[User, Session] | None:
        """Return the user and session of a token, unless the session is too old or was ended."""
        shape = _SHAPE.fullmatch(token)
        if shape is None:
            return None
        entity = await self._sessions.get(shape[1], _hashed(shape[2]))
        if entity is None:
            return None
        session = _session(entity)
        user = await self._users.find(session.email)
        now = clock.now()
        if user is None or not _is_valid(entity, user, now):
            return None
        if now - session.seen_at > _SEEN_EVERY:
            with contextlib.suppress(NotFound):  # ended at the same moment
                await self._sessions.merge(Entity(shape[1], session.id, {"SeenAt": now}))
        return user, session

    async def renew(self, session: Session) -> tuple[str, Session] | None:
        """Give a session a new token, because its user has just entered the password again.

        Return the token for the cookie, and the session; None if the session was ended at the same
        moment. The former token is no longer valid.
        """
        partition = _partition(session.email)
        found = await self._sessions.get(partition, session.id)
        if found is None:
            return None
        secret, now = secrets.token_urlsafe(32), clock.now()
        values = {**found.properties, "ConfirmedAt": now, "FormsId": session.forms_id}
        renewed = Entity(partition, _hashed(secret), values)
        try:
            await self._sessions.apply([Insert(renewed), Delete(partition, session.id)])
        except Conflict:
            return None
        return f"{partition}.{secret}", _session(renewed)

    async def of(self, user: User) -> list[Session]:
        """Return the user's sessions, newest first."""
        now = clock.now()
        found = [_session(each) for each in await self._all(user) if _is_valid(each, user, now)]
        return sorted(found, key=lambda each: each.started_at, reverse=True)

    async def end(self, email: str, session_id: str) -> None:
        """End a session; no error if it does not exist."""
        with contextlib.suppress(NotFound):
            await self._sessions.delete(_partition(email), session_id)

    async def end_all(self, user: User, *, but: str = "") -> int:
        """End all sessions of the user except one; return how many."""
        ended = 0
        for session in await self._all(user):
            if session.row != but:
                await self.end(user.email, session.row)
                ended += 1
        return ended

    async def _remove_old(self, user: User) -> None:
        """Delete the user's sessions that are no longer valid."""
        now = clock.now()
        for each in await self._all(user):
            if not _is_valid(each, user, now):
                await self.end(user.email, each.row)

    async def _all(self, user: User) -> list[Entity]:
        return [each async for each in self._sessions.scan(KeyRange.only(_partition(user.email)))]


def _is_valid(entity: Entity, user: User, now: datetime) -> bool:
    return (
        read(entity, "Epoch", str) == user.epoch
        and now - read(entity, "StartedAt", datetime) <= SESSION_AGE
    )


def _partition(email: str) -> str:
    return _hashed(email)[:32]


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _session(entity: Entity) -> Session:
    return Session(
        entity.row,
        read(entity, "Email", str),
        read(entity, "StartedAt", datetime),
        read(entity, "SeenAt", datetime),
        read(entity, "Place", str),
        read(entity, "Browser", str),
        read_optional(entity, "ConfirmedAt", datetime),
        read_optional(entity, "FormsId", str) or entity.row,
    )
