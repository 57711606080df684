"""What a dry run would have written, so that later lines about the same address find it.

A file may name an address many times, in lines far apart or in several files of an archive. So the
report of a dry run is that of the real run only if each line sees what those before it would have
done. That is kept in a temporary database on disk, which takes no more memory for a larger file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Final, Self

import msgspec

from postroom.domain.audience.addresses import AddressKey
from postroom.domain.audience.lists.lists import Subscriber
from postroom.domain.audience.suppressions import Suppression

_REMOVED: Final = b""
_SUBSCRIBER, _DEPARTURE, _SUPPRESSION = "subscriber", "unsubscribe", "suppression"


class PlannedRows:
    """Rows that a dry run would have written. Close it, or use it as a context."""

    def __init__(self) -> None:
        import sqlite3  # only for dry runs

        self._rows = sqlite3.connect("", isolation_level=None)  # on disk, and deleted when closed
        self._rows.execute("PRAGMA journal_mode = OFF")
        self._rows.execute("PRAGMA synchronous = OFF")
        self._rows.execute(
            "CREATE TABLE planned (kind TEXT, address TEXT, value BLOB,"
            " PRIMARY KEY (kind, address)) WITHOUT ROWID"
        )
        self._subscriber = msgspec.msgpack.Decoder(Subscriber)
        self._suppression = msgspec.msgpack.Decoder(Suppression)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._rows.close()

    def over(
        self, there: Mapping[AddressKey, Subscriber], addresses: Collection[AddressKey]
    ) -> dict[AddressKey, Subscriber]:
        """Return the subscribers with these addresses; `there` are those on the list now."""
        found = dict(there)
        for address, value in self._values(_SUBSCRIBER, addresses):
            if value == _REMOVED:
                found.pop(address, None)
            else:
                found[address] = self._subscriber.decode(value)
        return found

    def has(self, address: AddressKey) -> bool | None:
        """Return whether the address would be on the list; None if nothing is planned for it."""
        return next((value != _REMOVED for _, value in self._values(_SUBSCRIBER, [address])), None)

    def put(self, subscribers: Iterable[Subscriber]) -> None:
        self._write((_SUBSCRIBER, each.key, msgspec.msgpack.encode(each)) for each in subscribers)

    def remove(self, addresses: Collection[AddressKey]) -> None:
        """Remove subscribers who have unsubscribed."""
        self._write((_SUBSCRIBER, each, _REMOVED) for each in addresses)
        self._write((_DEPARTURE, each, _REMOVED) for each in addresses)

    def departed(self, addresses: Collection[AddressKey]) -> set[AddressKey]:
        return {address for address, _ in self._values(_DEPARTURE, addresses)}

    def suppress(self, suppressions: Mapping[AddressKey, Suppression]) -> None:
        self._write(
            (_SUPPRESSION, address, msgspec.msgpack.encode(each))
            for address, each in suppressions.items()
        )

    def suppressions(self, addresses: Collection[AddressKey]) -> dict[AddressKey, Suppression]:
        found = self._values(_SUPPRESSION, addresses)
        return {address: self._suppression.decode(value) for address, value in found}

    def _values(
        self, kind: str, addresses: Collection[AddressKey]
    ) -> Iterable[tuple[AddressKey, bytes]]:
        for address in addresses:
            row = self._rows.execute(
                "SELECT value FROM planned WHERE kind = ? AND address = ?", (kind, address)
            ).fetchone()
            if row is not None:
                yield address, row[0]

    def _write(self, rows: Iterable[tuple[str, AddressKey, bytes]]) -> None:
        self._rows.execute("BEGIN")
        self._rows.executemany("INSERT OR REPLACE INTO planned VALUES (?, ?, ?)", rows)
        self._rows.execute("COMMIT")
