"""API keys and their scopes.

A key is `pr_ID_SECRET`. It is shown once, when it is created; the store keeps a hash of the secret,
which has 256 random bits, so that a fast hash is enough. Keys are cached for a few seconds, so that
requests cost no read; a revoked key works no longer than that.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import msgspec

from postroom import clock
from postroom.domain.audience.lists.list_rights import FULL_ACCESS, ListAccess
from postroom.domain.errors import Invalid, NoSuch
from postroom.domain.plain_text import one_line
from postroom.services import entities
from postroom.services.accounts.list_grants import ListGrants
from postroom.storage import Entity, KeyRange, NotFound, Store, StoreError, Value

KEYS = "apikeys"
LONGEST_NAME = 100
CACHE_SECONDS = 5.0
_PARTITION = "key"
_SHAPE = re.compile(r"pr_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_USE_RECORDED_EVERY = 60.0  # seconds, so that a busy key is not written with each call
_MOST_CACHED = 10_000  # invented keys must not fill the memory


class Scope(StrEnum):
    """What a key may do. A key without scopes has full access."""

    SUBSCRIBE = "subscribe"
    LISTS = "lists"
    SUBSCRIBERS = "subscribers"
    MESSAGES = "messages"
    QUEUES = "queues"
    READ = "read"


SCOPES: dict[Scope, str] = {
    Scope.SUBSCRIBE: "Sign addresses up, for a website's form.",
    Scope.LISTS: "Create, change and delete lists.",
    Scope.SUBSCRIBERS: "Add, change and remove subscribers; import and export.",
    Scope.MESSAGES: (
        "Schedule messages and see the outcome of each email; limit providers and plan warm-ups."
    ),
    Scope.QUEUES: "View queues, add and redrive messages; view, pause and configure applications.",
    Scope.READ: "Read everything except subscribers' GUIDs; change nothing.",
}


class ApiKey(msgspec.Struct, frozen=True):
    """An API key without its secret.

    With `only_lists` it may use its scopes only on lists that it was granted rights on; `access`
    has these rights for a key that calls.
    """

    id: str
    name: str
    scopes: frozenset[Scope]
    created_at: datetime
    last_used_at: datetime | None = None
    only_lists: bool = False
    access: ListAccess = FULL_ACCESS

    @property
    def principal(self) -> str:
        """Return the key's name in the audit log, in access rules and in grants."""
        return f"key:{self.id}"

    def may(self, scope: Scope, *, reading: bool = False) -> bool:
        return not self.scopes or scope in self.scopes or (reading and Scope.READ in self.scopes)


class NewApiKey(msgspec.Struct, frozen=True):
    """A new key, with the text that is shown once."""

    key: ApiKey
    secret: str


class _StoredKey(msgspec.Struct, frozen=True):
    key: ApiKey
    secret_hash: str


class ApiKeyService:
    def __init__(self, store: Store, grants: ListGrants) -> None:
        self._keys = store.table(KEYS)
        self._grants = grants
        self._cache: dict[str, tuple[float, _StoredKey | None]] = {}
        self._use_recorded: dict[str, float] = {}
        self._writing: set[asyncio.Task[None]] = set()

    async def create(
        self, name: str = "", scopes: Iterable[str] = (), *, only_lists: bool = False
    ) -> NewApiKey:
        """Create a key; without scopes it has full access. With `only_lists`, it has access to no
        list until it is granted rights. `Invalid`."""
        key = ApiKey(
            id=secrets.token_hex(6),
            name=one_line("name", name, longest=LONGEST_NAME, required=False),
            scopes=frozenset(map(parse_scope, scopes)),
            created_at=clock.now(),
            only_lists=only_lists,
        )
        secret = secrets.token_urlsafe(32)
        await self._keys.insert(_entity(key, _hashed(secret)))
        return NewApiKey(key, f"pr_{key.id}_{secret}")

    async def all(self) -> list[ApiKey]:
        """Return all keys, oldest first."""
        found = [_known(entity).key async for entity in self._keys.scan(KeyRange.only(_PARTITION))]
        return sorted(found, key=lambda key: key.created_at)

    async def get(self, key_id: str) -> ApiKey:
        """Return a key. `NoSuch`."""
        found = await self._keys.get(_PARTITION, _checked_id(key_id))
        if found is None:
            raise NoSuch("API key", key_id)
        return _known(found).key

    async def limit(self, key_id: str, only_lists: bool) -> None:
        """Let a key use only the lists that it was granted rights on, or every list. `NoSuch`.

        Other processes know after a few seconds.
        """
        row = Entity(_PARTITION, _checked_id(key_id), {"OnlyLists": only_lists})
        try:
            await self._keys.merge(row)
        except NotFound as exc:
            raise NoSuch("API key", key_id) from exc
        self.forget_cached(key_id)

    def forget_cached(self, key_id: str) -> None:
        """Read a key again with its next call: its rights have changed."""
        self._cache.pop(key_id, None)

    async def revoke(self, key_id: str) -> None:
        """Revoke a key; other processes refuse it after a few seconds. `NoSuch`."""
        _checked_id(key_id)
        try:
            await self._grants.forget(f"key:{key_id}")
            await self._keys.delete(_PARTITION, key_id)
        except NotFound as exc:
            raise NoSuch("API key", key_id) from exc
        finally:
            self._cache.pop(key_id, None)

    async def find(self, text: str) -> ApiKey | None:
        """Return the key, or None if it is not valid. Its use is recorded in the background."""
        shape = _SHAPE.fullmatch(text)
        if shape is None:
            return None
        known = await self._look_up(shape[1])
        if known is None or not hmac.compare_digest(known.secret_hash, _hashed(shape[2])):
            return None
        self._record_use(known.key.id)
        return known.key

    async def settle(self) -> None:
        """Wait for pending writes, before shutdown."""
        await asyncio.gather(*self._writing)

    async def _look_up(self, key_id: str) -> _StoredKey | None:
        now = clock.monotonic()
        remembered = self._cache.get(key_id)
        if remembered is not None and now < remembered[0]:
            return remembered[1]
        found = await self._keys.get(_PARTITION, key_id)
        known = None if found is None else await self._with_access(_known(found))
        if len(self._cache) >= _MOST_CACHED:
            self._cache.clear()
        self._cache[key_id] = (now + CACHE_SECONDS, known)
        return known

    async def _with_access(self, known: _StoredKey) -> _StoredKey:
        if not known.key.only_lists:
            return known
        access = ListAccess(lists=await self._grants.of(known.key.principal))
        return _StoredKey(msgspec.structs.replace(known.key, access=access), known.secret_hash)

    def _record_use(self, key_id: str) -> None:
        now = clock.monotonic()
        if now - self._use_recorded.get(key_id, -_USE_RECORDED_EVERY) < _USE_RECORDED_EVERY:
            return
        self._use_recorded[key_id] = now
        task = asyncio.create_task(self._write_use(key_id))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write_use(self, key_id: str) -> None:
        # Not worth failing for: the key may be revoked, or the store unavailable.
        with contextlib.suppress(StoreError):
            await self._keys.merge(Entity(_PARTITION, key_id, {"LastUsedAt": clock.now()}))


def parse_scope(text: str) -> Scope:
    try:
        return Scope(text)
    except ValueError as exc:
        known = ", ".join(Scope)
        raise Invalid("scope", f"must be one of {known}, not {text[:40]!r}") from exc


def _checked_id(key_id: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{12}", key_id, re.ASCII):
        raise NoSuch("API key", key_id[:100])
    return key_id


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _entity(key: ApiKey, secret_hash: str) -> Entity:
    properties: dict[str, Value] = {
        "Name": key.name,
        "SecretHash": secret_hash,
        "Scopes": ",".join(sorted(key.scopes)),
        "CreatedAt": key.created_at,
        "OnlyLists": key.only_lists,
    }
    return Entity(_PARTITION, key.id, properties)


def _known(entity: Entity) -> _StoredKey:
    scopes = entities.read(entity, "Scopes", str)
    key = ApiKey(
        id=entity.row,
        name=entities.read(entity, "Name", str),
        scopes=frozenset(map(Scope, scopes.split(",") if scopes else ())),
        created_at=entities.read(entity, "CreatedAt", datetime),
        last_used_at=entities.read_optional(entity, "LastUsedAt", datetime),
        only_lists=entities.read_optional(entity, "OnlyLists", bool) or False,
    )
    return _StoredKey(key, entities.read(entity, "SecretHash", str))
