"""DKIM keys in the store.

| table      | partition | row      | holds                                                      |
|------------|-----------|----------|------------------------------------------------------------|
| `dkimkeys` | domain    | selector | the key: Algorithm, State, PublicKey, PrivateKey           |
|            |           |          | (encrypted), CreatedAt, ChangedAt                          |

At most one key of each algorithm signs for a domain. The change from one to the next is a single
batch, so that there is never a moment without a signature.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from postroom import clock
from postroom.domain.errors import Exists, NoSuch, NotNow
from postroom.domain.messages.delivery.dkim_keys import (
    DkimAlgorithm,
    DkimKey,
    DkimKeyState,
    parse_algorithm,
    parse_domain,
    parse_selector,
)
from postroom.encryption import Keyring
from postroom.mail.dkim import RSA_BITS, DkimSigner
from postroom.mail.wire_addresses import ascii_domain
from postroom.services.concurrency import retry_on_conflict
from postroom.services.entities import read
from postroom.services.stored_secrets import SecretRows
from postroom.storage import (
    AlreadyExists,
    Delete,
    Entity,
    KeyRange,
    Merge,
    Operation,
    Store,
    StoreOutage,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

log = logging.getLogger(__name__)

TABLE: Final = "dkimkeys"
EFFECTIVE_SECONDS: Final = 10.0
"""How long senders may continue with the keys that they know."""

_SUFFIXES: Final = {DkimAlgorithm.RSA: "", DkimAlgorithm.ED25519: "-ed"}
_MOST_KEYS: Final = 20  # of one domain: each rotation adds one or two, and old ones are removed


class DkimKeyService:
    def __init__(self, store: Store, keyring: Keyring) -> None:
        self._keys = store.table(TABLE)
        self._secrets = SecretRows(TABLE, keyring)

    async def all(self) -> list[DkimKey]:
        """Return all keys, by domain; of each domain, the newest first."""
        found = [_key(entity) async for entity in self._keys.scan()]
        found.sort(key=lambda key: key.created_at, reverse=True)
        return sorted(found, key=lambda key: key.domain)

    async def of_domain(self, domain: str) -> list[DkimKey]:
        """Return the keys of a domain, newest first. `Invalid`."""
        rows = await self._rows(_checked_domain(domain))
        return sorted(map(_key, rows), key=lambda key: key.created_at, reverse=True)

    async def get(self, domain: str, selector: str) -> DkimKey:
        """Return a key. `NoSuch`, `Invalid`."""
        return _key(await self._row(_checked_domain(domain), parse_selector(selector)))

    async def create(
        self, domain: str, algorithm: str = DkimAlgorithm.RSA, selector: str = ""
    ) -> DkimKey:
        """Create a key, which does not sign until it is activated. Without a selector, it gets one
        of its month. `Invalid`, `Exists`, `NotNow`."""
        checked, kind = _checked_domain(domain), parse_algorithm(algorithm)
        known = {row.row for row in await self._rows(checked)}
        if len(known) >= _MOST_KEYS:
            raise NotNow(f"{checked} has {len(known)} keys: remove old ones first")
        chosen = parse_selector(selector) if selector.strip() else _free_selector(kind, known)
        entity = await asyncio.to_thread(self._new_row, checked, chosen, kind)
        try:
            await self._keys.insert(entity)
        except AlreadyExists as exc:
            raise Exists("DKIM key", f"{chosen} of {checked}") from exc
        return _key(entity)

    async def rotate(self, domain: str) -> list[DkimKey]:
        """Create a successor of each key that signs. `NotNow` if none does."""
        signing = [each for each in await self.of_domain(domain) if _signs(each)]
        if not signing:
            raise NotNow(f"no key signs for {domain}: create one")
        return [await self.create(domain, each.algorithm) for each in signing]

    async def activate(self, domain: str, selector: str) -> DkimKey:
        """Sign with this key from now on. Another of the same algorithm is retired. `NoSuch`."""
        checked, chosen = _checked_domain(domain), parse_selector(selector)

        async def attempt() -> DkimKey:
            row = await self._row(checked, chosen)
            key = _key(row)
            if _signs(key):
                return key
            changes: list[Operation] = [_changed(row, DkimKeyState.SIGNING)]
            for other in await self._rows(checked):
                if other.row != chosen and _key(other).algorithm is key.algorithm:
                    # Written even if it does not sign: someone may be activating it right now.
                    retired = DkimKeyState.RETIRED if _signs(_key(other)) else _key(other).state
                    changes.append(_changed(other, retired))
            await self._keys.apply(changes)
            return await self.get(checked, chosen)

        return await retry_on_conflict(attempt, "DKIM key", chosen)

    async def deactivate(self, domain: str, selector: str) -> DkimKey:
        """Stop signing with this key. `NoSuch`, `NotNow`."""
        checked, chosen = _checked_domain(domain), parse_selector(selector)

        async def attempt() -> DkimKey:
            row = await self._row(checked, chosen)
            if not _signs(_key(row)):
                raise NotNow(f"the key {chosen} of {checked} does not sign")
            await self._keys.apply([_changed(row, DkimKeyState.RETIRED)])
            return await self.get(checked, chosen)

        return await retry_on_conflict(attempt, "DKIM key", chosen)

    async def remove(self, domain: str, selector: str) -> DkimKey:
        """Delete a key that does not sign, and its private part. `NoSuch`, `NotNow`."""
        checked, chosen = _checked_domain(domain), parse_selector(selector)

        async def attempt() -> DkimKey:
            row = await self._row(checked, chosen)
            key = _key(row)
            if _signs(key):
                raise NotNow(
                    f"the key {chosen} signs for {checked}: activate another one or stop signing"
                    " with it first"
                )
            await self._keys.apply([Delete(checked, chosen, row.etag)])
            return key

        return await retry_on_conflict(attempt, "DKIM key", chosen)

    async def signer(self, domain: str, selector: str) -> DkimSigner:
        """Return the signer of a key. `NoSuch`, `DecryptionError`."""
        row = await self._row(_checked_domain(domain), parse_selector(selector))
        return await asyncio.to_thread(self._signer, row)  # checking an RSA key takes a while

    async def signing(self) -> dict[str, list[DkimKey]]:
        """Return the keys that sign now, by domain, RSA first."""
        found: dict[str, list[DkimKey]] = {}
        async for row in self._keys.scan():
            if _signs(key := _key(row)):
                found.setdefault(key.domain, []).append(key)
        for keys in found.values():
            keys.sort(key=lambda each: each.algorithm is not DkimAlgorithm.RSA)
        return found

    async def _rows(self, domain: str) -> list[Entity]:
        return [entity async for entity in self._keys.scan(KeyRange.only(domain))]

    async def _row(self, domain: str, selector: str) -> Entity:
        found = await self._keys.get(domain, selector)
        if found is None:
            raise NoSuch("DKIM key", f"{selector} of {domain}")
        return found

    def _new_row(self, domain: str, selector: str, algorithm: DkimAlgorithm) -> Entity:
        private, public = _new_pair(algorithm)
        now = clock.now()
        return Entity(
            domain,
            selector,
            {
                "Algorithm": algorithm.value,
                "State": DkimKeyState.NEW.value,
                "PublicKey": public,
                "PrivateKey": self._secrets.encrypted(domain, selector, "PrivateKey", private),
                "CreatedAt": now,
                "ChangedAt": now,
            },
        )

    def _signer(self, row: Entity) -> DkimSigner:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        text = self._secrets.read(row, "PrivateKey")
        private_key: PrivateKeyTypes = load_pem_private_key(text.encode("ascii"), password=None)
        return DkimSigner(row.partition, row.row, private_key)


class SigningKeys:
    """The keys that sign, as they were a few seconds ago: the store is not asked for each email."""

    def __init__(self, keys: DkimKeyService) -> None:
        self._keys = keys
        self._known: dict[str, list[DkimKey]] | None = None
        self._read_at = 0.0
        self._signers: dict[str, tuple[list[DkimKey], list[DkimSigner]]] = {}

    async def of_domain(self, domain: str) -> Sequence[DkimSigner]:
        """Return the signers of a domain, usually none: the same object until they change.
        `DecryptionError`, or `StoreOutage` if the keys were never read."""
        now = clock.monotonic()
        if self._known is None or now - self._read_at > EFFECTIVE_SECONDS:
            self._read_at = now
            try:
                self._known = await self._keys.signing()
            except StoreOutage as exc:
                if self._known is None:
                    raise
                log.warning("DKIM keys cannot be read now; using the known ones: %s", exc)
        wanted = self._known.get(domain)
        if not wanted:
            return ()
        keys, signers = self._signers.get(domain, ([], []))
        if keys != wanted:
            signers = [await self._keys.signer(domain, each.selector) for each in wanted]
            self._signers[domain] = wanted, signers
        return signers


def _checked_domain(domain: str) -> str:
    return parse_domain(ascii_domain(domain.strip()))


def _free_selector(algorithm: DkimAlgorithm, known: set[str]) -> str:
    base = f"postroom-{clock.now():%Y%m}{_SUFFIXES[algorithm]}"
    names = [base, *(f"{base}-{number}" for number in range(2, _MOST_KEYS + 2))]
    return next(each for each in names if each not in known)


def _new_pair(algorithm: DkimAlgorithm) -> tuple[str, str]:
    """Return a private key as PEM, and its public part as in the DNS record."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

    encoding, form = serialization.Encoding, serialization.PublicFormat
    private: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
    if algorithm is DkimAlgorithm.RSA:
        private = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
        public = private.public_key().public_bytes(encoding.DER, form.SubjectPublicKeyInfo)
    else:
        private = ed25519.Ed25519PrivateKey.generate()
        public = private.public_key().public_bytes(encoding.Raw, form.Raw)
    pem = private.private_bytes(
        encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem.decode("ascii"), b64encode(public).decode("ascii")


def _signs(key: DkimKey) -> bool:
    return key.state is DkimKeyState.SIGNING


def _changed(row: Entity, state: DkimKeyState) -> Merge:
    """Return the change to a state; a key that is in it already keeps its time."""
    changed_at = _key(row).changed_at if _key(row).state is state else clock.now()
    changes = Entity(row.partition, row.row, {"State": state.value, "ChangedAt": changed_at})
    return Merge(changes, row.etag)


def _key(entity: Entity) -> DkimKey:
    return DkimKey(
        domain=entity.partition,
        selector=entity.row,
        algorithm=DkimAlgorithm(read(entity, "Algorithm", str)),
        state=DkimKeyState(read(entity, "State", str)),
        public_key=read(entity, "PublicKey", str),
        created_at=read(entity, "CreatedAt", datetime),
        changed_at=read(entity, "ChangedAt", datetime),
    )
