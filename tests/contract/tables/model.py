"""A store in plain dictionaries: what every engine must agree with, operation by operation."""

from dataclasses import dataclass, field

from postroom.storage import (
    AlreadyExists,
    Conflict,
    Delete,
    Filter,
    Insert,
    KeyRange,
    Merge,
    NotFound,
    Replace,
    SingleOperation,
    StaleETag,
    Upsert,
    Value,
)
from postroom.storage.checked_tables import key_of
from postroom.storage.filters import matches

Key = tuple[str, str]


@dataclass
class ModelRow:
    properties: dict[str, Value]
    etag: str


@dataclass
class ModelTable:
    """Rows by key, with the ETags that the engine gave."""

    rows: dict[Key, ModelRow] = field(default_factory=dict)

    def expected_error(
        self, operations: list[SingleOperation]
    ) -> tuple[type[Conflict], int] | None:
        """The error of the first operation that fails, and its position."""
        for position, operation in enumerate(operations):
            row = self.rows.get(key_of(operation))
            match operation:
                case Insert():
                    if row is not None:
                        return AlreadyExists, position
                case Upsert():
                    pass
                case Replace(etag=etag) | Merge(etag=etag) | Delete(etag=etag):
                    if row is None:
                        return NotFound, position
                    if etag is not None and etag != row.etag:
                        return StaleETag, position
        return None

    def apply(self, operations: list[SingleOperation], etags: list[str]) -> None:
        for operation, etag in zip(operations, etags, strict=True):
            key = key_of(operation)
            match operation:
                case Delete():
                    del self.rows[key]
                case Merge(entity):
                    merged = {**self.rows[key].properties, **entity.properties}
                    self.rows[key] = ModelRow(merged, etag)
                case Insert(entity) | Upsert(entity) | Replace(entity):
                    self.rows[key] = ModelRow(dict(entity.properties), etag)

    def query(self, partitions: KeyRange, rows: KeyRange, where: Filter | None) -> list[Key]:
        return [
            key
            for key in sorted(self.rows)
            if _within(partitions, key[0])
            and _within(rows, key[1])
            and (where is None or matches(where, self.rows[key].properties))
        ]


@dataclass
class ModelMessage:
    body: str
    attempts: int = 0


@dataclass
class ModelQueue:
    """Messages by id. Order is promised only until something is released."""

    ready: list[str] = field(default_factory=list)
    leased: set[str] = field(default_factory=set)
    messages: dict[str, ModelMessage] = field(default_factory=dict)
    in_order: bool = True

    def put(self, bodies: list[str], identities: list[str]) -> None:
        for body, identity in zip(bodies, identities, strict=True):
            self.messages[identity] = ModelMessage(body)
            self.ready.append(identity)

    def check_received(self, received: list[tuple[str, str, int]], limit: int) -> None:
        """Compare (id, body, dequeue count) of what the engine gave, and take it over."""
        identities = [identity for identity, _, _ in received]
        assert len(identities) == len(set(identities)) == min(limit, len(self.ready))
        if self.in_order:
            assert identities == self.ready[:limit]
        for identity, body, attempts in received:
            self._lease(identity, body, attempts)

    def take(self, identity: str, body: str, attempts: int) -> None:
        """One was asked for by its id. An engine may disturb the order of the others."""
        self.in_order = False
        self._lease(identity, body, attempts)

    def _lease(self, identity: str, body: str, attempts: int) -> None:
        self.ready.remove(identity)
        self.leased.add(identity)
        message = self.messages[identity]
        message.attempts += 1
        assert (body, attempts) == (message.body, message.attempts)

    def reset(self, identity: str) -> None:
        self.messages[identity].attempts = 0
        self.release(identity, count_attempt=True)

    def release(self, identity: str, count_attempt: bool) -> None:
        self.leased.remove(identity)
        self.messages[identity].attempts -= 0 if count_attempt else 1
        self.in_order = self.in_order and not self.ready
        self.ready.append(identity)

    def delete(self, identity: str) -> None:
        self.leased.remove(identity)
        del self.messages[identity]

    def purge(self) -> None:
        self.ready.clear()
        self.leased.clear()
        self.messages.clear()
        self.in_order = True


def _within(keys: KeyRange, key: str) -> bool:
    if keys.start is not None and key < keys.start:
        return False
    if keys.stop is None:
        return True
    return key <= keys.stop if keys.including_stop else key < keys.stop
