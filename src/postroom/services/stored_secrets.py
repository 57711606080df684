"""Encrypted secrets in rows of the store: where they are, and how they are converted.

A new kind of secret gets a line in `PLACES`. Then it is encrypted if it is in clear text (as
earlier versions wrote it), encrypted again when the secret key is replaced, and counted by
`postroom check`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from typing import Final

from postroom.encryption import DecryptionError, Keyring, is_encrypted
from postroom.services.concurrency import retry_on_conflict
from postroom.services.entities import read_optional
from postroom.storage import Entity, Store

PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "users": ("TotpSecret",),
    "hostapps": ("Environment",),
    "dkimkeys": ("PrivateKey",),
    "settings": ("Values",),
}
"""By table: properties that may hold a secret."""


class SecretState(StrEnum):
    """How a secret is stored."""

    CURRENT = "current"
    OLD_KEY = "old key"
    CLEAR = "clear text"
    UNREADABLE = "unreadable"  # its key is not set, or it was damaged


class SecretRows:
    """Reads and writes the secrets of one table."""

    def __init__(self, table: str, keyring: Keyring) -> None:
        self._table = table
        self._keyring = keyring

    def encrypted(self, partition: str, row: str, name: str, text: str) -> str:
        """Return the value to store for a secret of this row."""
        return self._keyring.encrypt(text, self._context(partition, row, name))

    def read(self, entity: Entity, name: str) -> str:
        """Return a secret, empty if the row has none. `DecryptionError`."""
        value = read_optional(entity, name, str) or ""
        if not is_encrypted(value):
            return value
        return self._keyring.decrypt(value, self._context(entity.partition, entity.row, name))

    def state(self, entity: Entity, name: str) -> SecretState:
        """Return the state of a secret; a missing one counts as current."""
        value = read_optional(entity, name, str) or ""
        if not value or self._keyring.is_current(value):
            return SecretState.CURRENT
        if not is_encrypted(value):
            return SecretState.CLEAR
        try:
            self.read(entity, name)
        except DecryptionError:
            return SecretState.UNREADABLE
        return SecretState.OLD_KEY

    def _context(self, partition: str, row: str, name: str) -> str:
        return f"{name} of {partition} {row} in the table {self._table}"


class StoredSecrets:
    """All secrets of a store."""

    def __init__(self, store: Store, keyring: Keyring) -> None:
        self._store = store
        self._keyring = keyring

    async def encrypt(self, *states: SecretState) -> Counter[SecretState]:
        """Encrypt secrets in these states under the current key; return how many were in which.

        It can be repeated, and interrupted at any moment.
        """
        counts: Counter[SecretState] = Counter()
        async for table, rows, entity, name in self._found():
            state = rows.state(entity, name)
            counts[state] += 1
            if state in states:
                await self._encrypt(table, rows, entity, name)
        return counts

    async def count(self) -> Counter[SecretState]:
        """Count secrets by their state; change nothing."""
        counts: Counter[SecretState] = Counter()
        async for _, rows, entity, name in self._found():
            counts[rows.state(entity, name)] += 1
        return counts

    async def _found(self) -> AsyncIterator[tuple[str, SecretRows, Entity, str]]:
        for table, names in PLACES.items():
            rows = SecretRows(table, self._keyring)
            async for entity in self._store.table(table).scan():
                for name in names:
                    if read_optional(entity, name, str):
                        yield table, rows, entity, name

    async def _encrypt(self, table: str, rows: SecretRows, entity: Entity, name: str) -> None:
        async def encrypt() -> None:
            found = await self._store.table(table).get(entity.partition, entity.row)
            if found is None or rows.state(found, name) is SecretState.CURRENT:
                return
            text = rows.read(found, name)
            value = rows.encrypted(found.partition, found.row, name, text)
            changed = Entity(found.partition, found.row, {name: value})
            await self._store.table(table).merge(changed, found.etag)

        await retry_on_conflict(encrypt, table, entity.row)
