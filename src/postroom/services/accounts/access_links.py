"""Access links, which work once: invitations and password resets.

| table         | partition | row               | holds                                     |
|---------------|-----------|-------------------|-------------------------------------------|
| `accesslinks` | `link`    | hash of the token | user, purpose, expiry, and who created it |

The link itself is shown once. Revoking it deletes its row.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from postroom import clock
from postroom.domain.errors import Exists, NoSuch
from postroom.services.accounts.list_access import ListAccessService
from postroom.services.accounts.sessions import SessionService
from postroom.services.accounts.users import Role, User, UserService, parse_user
from postroom.services.entities import read
from postroom.storage import Entity, KeyRange, NotFound, Store, Value

INVITATION_AGE = timedelta(days=7)
RESET_AGE = timedelta(days=1)
_LINK = "link"


class LinkKind(StrEnum):
    INVITATION = "invitation"
    RESET = "reset"


class AccessLink(msgspec.Struct, frozen=True):
    """`id` is the hash of the token; only the link contains the token."""

    id: str
    kind: LinkKind
    email: str
    role: Role
    made_by: str
    made_at: datetime
    expires_at: datetime
    epoch: str = ""


class AccessLinks:
    def __init__(self, store: Store, users: UserService) -> None:
        self._links = store.table("accesslinks")
        self._users = users

    async def invite(self, email: str, role: Role, made_by: str) -> str:
        """Return the token of an invitation; an earlier one to the same address is revoked.
        `Invalid`, `Exists`."""
        address = parse_user(email)
        if await self._users.find(address) is not None:
            raise Exists("user", address)
        return await self._create(LinkKind.INVITATION, address, role, made_by, INVITATION_AGE, "")

    async def reset(self, email: str, made_by: str) -> str:
        """Return the token of a password reset; the old password works until then. `NoSuch`."""
        user = await self._users.get(email)
        return await self._create(
            LinkKind.RESET, user.email, user.role, made_by, RESET_AGE, user.epoch
        )

    async def find(self, token: str) -> AccessLink | None:
        """Return the link of this token, unless it has expired."""
        entity = await self._links.get(_LINK, _hashed(token))
        if entity is None:
            return None
        link = _link(entity)
        return link if link.expires_at > clock.now() else None

    async def use(self, token: str, password: str) -> User:
        """Create the user, or set the new password. `Invalid`, `NoSuch`, `Exists`, `NotNow`.

        Works once: a user is created once, and a reset is only valid for the old password's epoch.
        So the link may be deleted last, even if that is interrupted.
        """
        link = await self.find(token)
        if link is None:
            raise NoSuch("link", "of this kind")
        if link.kind is LinkKind.INVITATION:
            user = await self._users.create(link.email, password, link.role)
        else:
            user = await self._users.set_password(link.email, password, epoch=link.epoch)
        await self.revoke(link.id)
        return user

    async def all(self) -> list[AccessLink]:
        """Return all valid links, the soonest to expire first; expired ones are removed."""
        now = clock.now()
        found: list[AccessLink] = []
        async for entity in self._links.scan(KeyRange.only(_LINK)):
            link = _link(entity)
            if link.expires_at > now:
                found.append(link)
            else:
                await self.revoke(link.id)
        return sorted(found, key=lambda each: each.expires_at)

    async def revoke(self, link_id: str) -> None:
        """Revoke a link; no error if it does not exist."""
        with contextlib.suppress(NotFound):
            await self._links.delete(_LINK, link_id)

    async def revoke_all_of(self, email: str) -> None:
        for link in await self.all():
            if link.email == email:
                await self.revoke(link.id)

    async def _create(
        self, kind: LinkKind, email: str, role: Role, made_by: str, age: timedelta, epoch: str
    ) -> str:
        await self.revoke_all_of(email)
        token = secrets.token_urlsafe(32)
        now = clock.now()
        values: dict[str, Value] = {
            "Kind": kind.value,
            "Email": email,
            "Role": role.value,
            "MadeBy": made_by,
            "MadeAt": now,
            "ExpiresAt": now + age,
            "Epoch": epoch,
        }
        await self._links.insert(Entity(_LINK, _hashed(token), values))
        return token


def link_address(base_url: str, token: str) -> str:
    """Return the URL of a link."""
    return f"{base_url}/join?token={token}"


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _link(entity: Entity) -> AccessLink:
    return AccessLink(
        entity.row,
        LinkKind(read(entity, "Kind", str)),
        read(entity, "Email", str),
        Role(read(entity, "Role", str)),
        read(entity, "MadeBy", str),
        read(entity, "MadeAt", datetime),
        read(entity, "ExpiresAt", datetime),
        read(entity, "Epoch", str),
    )


class UserRemoval:
    def __init__(
        self,
        users: UserService,
        sessions: SessionService,
        links: AccessLinks,
        list_access: ListAccessService,
    ) -> None:
        self._users = users
        self._sessions = sessions
        self._links = links
        self._list_access = list_access

    async def remove(self, email: str) -> User:
        """Remove a user. `NoSuch`; `NotNow` for the last administrator.

        Links and rights go first, so that an interruption leaves no way back in, and nothing that
        a later user of this address would inherit. Sessions go last: they are not valid without
        their user.
        """
        user = await self._users.get(email)
        await self._links.revoke_all_of(user.email)
        await self._list_access.forget_user(user)
        await self._users.remove(user.email)
        await self._sessions.end_all(user)
        return user
