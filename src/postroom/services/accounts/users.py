"""Users: each has a role, a password and optionally a second factor.

| table   | partition | row         | holds                                                        |
|---------|-----------|-------------|--------------------------------------------------------------|
| `users` | `user`    | the address | role, hash of the password, second factor, login attempts    |

The secret of a second factor is encrypted (`stored_secrets.py`).

`Epoch` changes with the password: sessions and links of an earlier epoch are invalid, even if an
interruption leaves other steps undone.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from postroom import clock
from postroom.domain.audience.addresses import parse_address
from postroom.domain.errors import Exists, Invalid, NoSuch, NotNow, Overtaken
from postroom.domain.rate_limits import RateLimit
from postroom.encryption import DecryptionError, Keyring
from postroom.services.accounts import second_factor
from postroom.services.accounts.passwords import Passwords, check_password
from postroom.services.accounts.second_factor import CODES, TooManyCodes
from postroom.services.concurrency import retry_on_conflict
from postroom.services.entities import read, read_optional
from postroom.services.events import EventService, Severity
from postroom.services.stored_secrets import SecretRows
from postroom.storage import AlreadyExists, Delete, Entity, KeyRange, Merge, Store, Value

log = logging.getLogger(__name__)

_USER = "user"
_DIGEST = "WeeklyDigest"
# A merge keeps properties that it does not name, so removed ones are set to an empty value.
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_TRIES, _CODES = "TriesMark", "CodesMark"  # `used_up` of a `RateLimit`
_NO_TRIES: dict[str, Value] = {_TRIES: _NO_TIME, _CODES: _NO_TIME}
_NOTED_EVERY = 3600.0  # seconds between two events about the same attack
_NO_SECOND_FACTOR: dict[str, Value] = {"TotpSecret": "", "TotpStep": 0, "RecoveryCodes": ""}

STRANGERS = RateLimit(25, 50)
"""Passwords for one user from all unknown devices together. They are slowed down, never locked out:
otherwise a stranger who enters wrong passwords could keep a user from logging in."""


class Role(StrEnum):
    """Each role includes the ones before it."""

    MEMBER = "member"
    VIEWER = "viewer"
    WRITER = "writer"
    EDITOR = "editor"
    ADMINISTRATOR = "administrator"

    def includes(self, other: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


ROLES: dict[Role, str] = {
    Role.MEMBER: "Can use the lists that they were given access to, and nothing else.",
    Role.VIEWER: "Can view everything except users, keys and settings.",
    Role.WRITER: "Can also write messages, which others send.",
    Role.EDITOR: "Can manage lists, subscribers and messages.",
    Role.ADMINISTRATOR: "Full access, including users and settings.",
}


class User(msgspec.Struct, frozen=True):
    email: str
    role: Role
    created_at: datetime
    has_second_factor: bool = False
    recovery_codes_left: int = 0
    wants_digest: bool = False
    tries_mark: datetime | None = None
    epoch: str = ""
    etag: str = ""

    @property
    def principal(self) -> str:
        """Return the user's name in grants."""
        return f"user:{self.email}"

    @property
    def is_slowed_down(self) -> bool:
        """Return whether unknown devices have to wait before the next attempt."""
        return STRANGERS.next_moment(self.tries_mark, clock.now()) is None


class UserService:
    def __init__(self, store: Store, events: EventService, keyring: Keyring) -> None:
        self._users = store.table("users")
        self._events = events
        self._secrets = SecretRows("users", keyring)
        self._passwords = Passwords()
        self._noted: dict[str, float] = {}

    # — Users —

    async def is_first_start(self) -> bool:
        """Return whether there are no users yet."""
        found = await self._users.query(KeyRange.only(_USER), limit=1)
        return not found.entities

    async def create(self, email: str, password: str, role: Role) -> User:
        """Create a user. `Invalid`, `Exists`."""
        address = parse_user(email)
        values: dict[str, Value] = {
            "Role": role.value,
            "Password": await self._passwords.hash(check_password(password, email=address)),
            "Epoch": _new_epoch(),
            "CreatedAt": clock.now(),
            **_NO_TRIES,
            **_NO_SECOND_FACTOR,
        }
        entity = Entity(_USER, address, values)
        try:
            etag = await self._users.insert(entity)
        except AlreadyExists as exc:
            raise Exists("user", address) from exc
        return _user(msgspec.structs.replace(entity, etag=etag))

    async def get(self, email: str) -> User:
        """Return a user. `NoSuch`."""
        return _user(await self._entity(email))

    async def find(self, email: str) -> User | None:
        """Return the user with this address, written as in the store."""
        entity = await self._users.get(_USER, email)
        return None if entity is None else _user(entity)

    async def all(self) -> list[User]:
        """Return all users, sorted by address; there are few."""
        return [_user(entity) async for entity in self._users.scan(KeyRange.only(_USER))]

    async def set_role(self, email: str, role: Role) -> User:
        """Change a user's role. `NoSuch`; `NotNow` for the last administrator."""
        address = (await self.get(email)).email

        def change(user: User) -> Merge:
            return Merge(Entity(_USER, address, {"Role": role.value}), user.etag)

        await self._keeping_an_administrator(address, change, role is not Role.ADMINISTRATOR)
        return await self.get(address)

    async def choose_digest(self, email: str, wanted: bool) -> None:
        """Say whether a user gets the weekly digest. `NoSuch`."""
        await self._merge(email, lambda _: {_DIGEST: wanted})

    async def remove(self, email: str) -> User:
        """Remove a user's row. `NoSuch`; `NotNow` for the last administrator. Sessions are no
        longer valid; `access_links.py` removes everything else."""
        user = await self.get(email)
        await self._keeping_an_administrator(
            user.email, lambda now: Delete(_USER, now.email, now.etag), True
        )
        return user

    # — Logging in —

    async def authenticate(
        self, email: str, password: str, *, is_known_device: bool = False
    ) -> User | None:
        """Return the user with this password, or None. A wrong password, an unknown user and too
        many attempts look alike and take equally long. A second factor is checked by `check_code`.

        The caller limits attempts from known devices; all others together are limited here.
        """
        entity = await self._found(email) if is_known_device else await self._count_attempt(email)
        hashed = None if entity is None else read(entity, "Password", str)
        if not await self._passwords.matches(hashed, password) or entity is None:
            return None
        user = _user(entity)
        if not user.has_second_factor and not is_known_device:
            await self._merge(user.email, lambda _: {_TRIES: _NO_TIME})
        return user

    async def check_password(self, email: str, password: str) -> bool:
        """Return whether it is this user's password. For users who are logged in: the caller
        limits how often someone may try."""
        entity = await self._entity(email)
        return await self._passwords.matches(read(entity, "Password", str), password)

    async def check_code(self, email: str, code: str) -> bool:
        """Return whether it is a code from the user's app or a recovery code. Each works once.
        `TooManyCodes`, `NoSuch`."""
        if await self._merge(email, lambda row: _one_more(row, _CODES, CODES)) is None:
            raise TooManyCodes(CODES.interval)

        def use(entity: Entity) -> Mapping[str, Value] | None:
            if not read_optional(entity, "TotpSecret", str):
                return None
            step = self._matching_step(entity, code)
            if step is not None:
                return {"TotpStep": step, _CODES: _NO_TIME}
            left = second_factor.without_code(_recovery_hashes(entity), code)
            return None if left is None else {"RecoveryCodes": " ".join(left), _CODES: _NO_TIME}

        return await self._merge(email, use) is not None

    # — Passwords and second factors —

    async def set_password(self, email: str, password: str, *, epoch: str | None = None) -> User:
        """Set a password, which ends all sessions and any slow-down. `Invalid`, `NoSuch`.

        With `epoch`, only if the password has not been changed since: otherwise `NotNow`.
        """
        hashed = await self._passwords.hash(check_password(password, email=email))

        def change(entity: Entity) -> Mapping[str, Value] | None:
            if epoch is not None and read(entity, "Epoch", str) != epoch:
                return None
            return {"Password": hashed, "Epoch": _new_epoch(), **_NO_TRIES}

        if await self._merge(email, change) is None:
            raise NotNow("the password has been changed in the meantime")
        return await self.get(email)

    async def turn_on_second_factor(self, email: str, secret: str, code: str) -> list[str]:
        """Require a code at login from now on; return the recovery codes.
        `Invalid` if the code is wrong, `NotNow` if there is already a second factor."""
        step = second_factor.matching_step(secret, code, 0, clock.now())
        if step is None:
            raise Invalid("code", "is wrong: enter the one that the app shows now")
        codes = second_factor.new_recovery_codes()

        def change(entity: Entity) -> Mapping[str, Value] | None:
            if read_optional(entity, "TotpSecret", str):
                return None
            encrypted = self._secrets.encrypted(_USER, entity.row, "TotpSecret", secret)
            return {
                "TotpSecret": encrypted,
                "TotpStep": step,
                "RecoveryCodes": second_factor.hashed_codes(codes),
            }

        if await self._merge(email, change) is None:
            raise NotNow("two-factor authentication is already on: turn it off first")
        return codes

    def _matching_step(self, entity: Entity, code: str) -> int | None:
        """Return the time step that a code belongs to. If the secret cannot be decrypted there is
        none, but recovery codes still work."""
        try:
            secret = self._secrets.read(entity, "TotpSecret")
        except DecryptionError as exc:
            log.error("the code of an authenticator app cannot be checked: %s", exc)
            return None
        last = read(entity, "TotpStep", int)
        return second_factor.matching_step(secret, code, last, clock.now())

    async def turn_off_second_factor(self, email: str) -> None:
        await self._merge(email, lambda _: _NO_SECOND_FACTOR)

    async def renew_recovery_codes(self, email: str) -> list[str]:
        """Replace the recovery codes and return the new ones. `NotNow`."""
        codes = second_factor.new_recovery_codes()

        def change(entity: Entity) -> Mapping[str, Value] | None:
            has_one = read_optional(entity, "TotpSecret", str)
            return {"RecoveryCodes": second_factor.hashed_codes(codes)} if has_one else None

        if await self._merge(email, change) is None:
            raise NotNow("two-factor authentication is off: turn it on first")
        return codes

    async def _entity(self, email: str) -> Entity:
        try:
            address = parse_user(email)
        except Invalid as exc:
            raise NoSuch("user", email[:320]) from exc
        entity = await self._users.get(_USER, address)
        if entity is None:
            raise NoSuch("user", address)
        return entity

    async def _merge(
        self, email: str, change: Callable[[Entity], Mapping[str, Value] | None]
    ) -> Entity | None:
        """Change a user's current row; return the row before, or None if `change` returns None.
        `NoSuch`."""

        async def attempt() -> Entity | None:
            entity = await self._entity(email)
            values = change(entity)
            if values is None:
                return None
            await self._users.merge(Entity(_USER, entity.row, values), entity.etag)
            return entity

        return await retry_on_conflict(attempt, "user", email)

    async def _count_attempt(self, email: str) -> Entity | None:
        """Count an attempt and return the user's row; None for an unknown user or if too early."""
        try:
            entity = await self._merge(email, lambda row: _one_more(row, _TRIES, STRANGERS))
        except (NoSuch, Overtaken):
            return None
        if entity is None:
            self._note_slowed_down(email)
        return entity

    async def _found(self, email: str) -> Entity | None:
        try:
            return await self._entity(email)
        except NoSuch:
            return None

    def _note_slowed_down(self, email: str) -> None:
        user, now = parse_user(email), clock.monotonic()
        if now - self._noted.get(user, -_NOTED_EVERY) < _NOTED_EVERY:
            return
        self._noted[user] = now
        self._events.note(
            "accounts",
            f"many failed attempts to log in as {user}: unknown devices may try once per minute",
            severity=Severity.WARNING,
            subject=f"user:{user}",
        )

    async def _keeping_an_administrator(
        self, email: str, change: Callable[[User], Merge | Delete], loses: bool
    ) -> None:
        """Change a user's row in one batch with a check that another administrator remains: two who
        remove each other at the same time cannot both succeed."""

        async def attempt() -> None:
            user = await self.get(email)
            operations: list[Merge | Delete] = [change(user)]
            if loses and user.role is Role.ADMINISTRATOR:
                operations.append(await self._other_administrator(user))
            await self._users.apply(operations)

        await retry_on_conflict(attempt, "user", email)

    async def _other_administrator(self, user: User) -> Merge:
        for each in await self.all():
            if each.role is Role.ADMINISTRATOR and each.email != user.email:
                return Merge(Entity(_USER, each.email, {"Role": each.role.value}), each.etag)
        raise NotNow(
            f"{user.email} is the last administrator: make someone else an administrator first"
        )


def parse_user(email: str) -> str:
    """Return the address in lower case, as users are stored. `Invalid`."""
    return parse_address(email).lower()


def parse_role(text: str) -> Role:
    """Parse a role. `Invalid`."""
    try:
        return Role(text)
    except ValueError as exc:
        raise Invalid("role", f"must be one of {', '.join(Role)}, not {text[:40]!r}") from exc


def _new_epoch() -> str:
    return secrets.token_hex(8)


def _recovery_hashes(entity: Entity) -> list[str]:
    return (read_optional(entity, "RecoveryCodes", str) or "").split()


def _one_more(row: Entity, name: str, limit: RateLimit) -> Mapping[str, Value] | None:
    """Return the change that counts one more attempt; None if it is too early for one."""
    used_up = limit.next_moment(_moment(row, name), clock.now())
    return None if used_up is None else {name: used_up}


def _moment(entity: Entity, name: str) -> datetime | None:
    found = read_optional(entity, name, datetime)
    return None if found == _NO_TIME else found


def _user(entity: Entity) -> User:
    return User(
        email=entity.row,
        role=Role(read(entity, "Role", str)),
        created_at=read(entity, "CreatedAt", datetime),
        has_second_factor=bool(read_optional(entity, "TotpSecret", str)),
        recovery_codes_left=len(_recovery_hashes(entity)),
        wants_digest=read_optional(entity, _DIGEST, bool) or False,
        tries_mark=_moment(entity, _TRIES),
        epoch=read(entity, "Epoch", str),
        etag=entity.etag,
    )
