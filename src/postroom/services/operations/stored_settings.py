"""Settings that were made in the browser, kept in the store for all processes.

| table      | partition | row      | holds                                                     |
|------------|-----------|----------|-----------------------------------------------------------|
| `settings` | `setting` | `stored` | Values: names and texts as JSON, encrypted; Version: a    |
|            |           |          | random text that every change replaces; ChangedBy,        |
|            |           |          | ChangedAt; TestedAt: when a test email was last accepted  |

All of them are in one row, so that a change is written completely or not at all, and a process sees
with one point read whether anything has changed. Which settings may be stored, and what their texts
mean, is declared in `settings/`; options, environment and file take precedence.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from postroom import clock
from postroom.domain.errors import Invalid, Overtaken
from postroom.encryption import Keyring
from postroom.services.concurrency import retry_on_conflict
from postroom.services.entities import read, read_optional
from postroom.services.stored_secrets import SecretRows
from postroom.storage import Entity, Store, StoreDamaged, Value

TABLE: Final = "settings"
PARTITION, ROW = "setting", "stored"
_VALUES, _VERSION, _TESTED_AT = "Values", "Version", "TestedAt"
_TESTED: Final = "transport"  # the setting that a test email is about
_NAMED: Final = ("row of settings", ROW)  # for errors
_LARGEST: Final = 60_000  # bytes of the encrypted values: a property may have 65,000
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)  # a merge cannot remove a property


class StoredValues(msgspec.Struct, frozen=True):
    """What is stored: texts by name of the setting. `version` is empty if nothing ever was."""

    texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    version: str = ""
    changed_by: str = ""
    changed_at: datetime | None = None
    tested_at: datetime | None = None

    @property
    def mark(self) -> tuple[str, datetime | None]:
        return self.version, self.tested_at


class StoredSettingService:
    def __init__(self, store: Store, keyring: Keyring) -> None:
        self._table = store.table(TABLE)
        self._secrets = SecretRows(TABLE, keyring)

    async def mark(self) -> tuple[str, datetime | None]:
        """Return a mark that differs after every change and test (`StoredValues.mark`)."""
        entity = await self._table.get(PARTITION, ROW)
        return ("", None) if entity is None else (read(entity, _VERSION, str), _tested_at(entity))

    async def get(self) -> StoredValues:
        """Return the stored settings. `DecryptionError` if this machine does not have their key."""
        entity = await self._table.get(PARTITION, ROW)
        return StoredValues() if entity is None else self._values(entity)

    async def change(
        self, changes: Mapping[str, str | None], *, by: str, version: str | None = None
    ) -> None:
        """Store these texts, and remove those that are None. All of them or none are written.

        With a `version`, raise `Overtaken` if someone else has changed something since it was read.
        The texts must have been checked (`check_stored`). `Invalid` if they are too much.
        """

        async def attempt() -> bool:
            entity = await self._table.get(PARTITION, ROW)
            before = StoredValues() if entity is None else self._values(entity)
            if version not in (None, before.version):
                return False
            merged = {**before.texts, **changes}
            texts = {name: text for name, text in merged.items() if text is not None}
            row = Entity(PARTITION, ROW, self._changed(texts, by, _TESTED in changes))
            if entity is None:
                await self._table.insert(row)
            else:
                await self._table.merge(row, entity.etag)
            return True

        if not await retry_on_conflict(attempt, *_NAMED):
            raise Overtaken(*_NAMED)

    async def note_test(self) -> None:
        """Note that the mail server has just accepted a test email."""

        async def attempt() -> None:
            entity = await self._table.get(PARTITION, ROW)
            if entity is not None:
                values: dict[str, Value] = {_TESTED_AT: clock.now()}
                await self._table.merge(Entity(PARTITION, ROW, values), entity.etag)

        await retry_on_conflict(attempt, *_NAMED)

    def _changed(self, texts: Mapping[str, str], by: str, forgets_test: bool) -> dict[str, Value]:
        text = msgspec.json.encode(texts, order="sorted").decode()
        encrypted = self._secrets.encrypted(PARTITION, ROW, _VALUES, text)
        if len(encrypted) > _LARGEST:
            raise Invalid("settings", "are too long together: shorten some of them")
        values: dict[str, Value] = {
            _VALUES: encrypted,
            _VERSION: secrets.token_hex(8),
            "ChangedBy": by,
            "ChangedAt": clock.now(),
        }
        return {**values, _TESTED_AT: _NEVER} if forgets_test else values

    def _values(self, entity: Entity) -> StoredValues:
        try:
            texts = msgspec.json.decode(self._secrets.read(entity, _VALUES), type=dict[str, str])
        except msgspec.DecodeError as exc:
            raise StoreDamaged("the stored settings cannot be read") from exc
        return StoredValues(
            texts=texts,
            version=read(entity, _VERSION, str),
            changed_by=read(entity, "ChangedBy", str),
            changed_at=read(entity, "ChangedAt", datetime),
            tested_at=_tested_at(entity),
        )


def _tested_at(entity: Entity) -> datetime | None:
    found = read_optional(entity, _TESTED_AT, datetime)
    return None if found == _NEVER else found
