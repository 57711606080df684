"""The rows of A/B tests.

| table    | partition | row         | holds                                                   |
|----------|-----------|-------------|---------------------------------------------------------|
| `abtest` | `test`    | `test:REF`  | Test: JSON of a test, by the reference of its variant A |
| `abtest` | `test`    | `of:REF`    | Test: the reference of the test that a message is in    |
| `abtest` | `test`    | `open:REF`  | a test that is started and has not ended                |

All are in one partition, so that a change of a test is one batch of the store.
"""

from __future__ import annotations

from typing import Final

import msgspec

from postroom.domain.errors import Exists, NoSuch, NotNow, Overtaken
from postroom.domain.messages.refs import MessageRef, is_ref
from postroom.domain.messages.waves.ab_tests import ENDED, AbState, AbTest
from postroom.services.entities import read
from postroom.storage import (
    AlreadyExists,
    Conflict,
    Delete,
    Entity,
    Insert,
    KeyRange,
    NotFound,
    Operation,
    Replace,
    Store,
    Upsert,
)

_TABLE: Final = "abtest"
_PARTITION: Final = "test"
_TEST, _OF, _OPEN = "test:", "of:", "open:"
_MOST_OPEN: Final = 1000


class AbTestRows:
    def __init__(self, store: Store) -> None:
        self._table = store.table(_TABLE)

    async def of(self, ref: str) -> AbTest | None:
        """Return the test that a message is in, as a variant or as the rest; None if there is
        none."""
        if not is_ref(ref):
            return None
        found = await self._table.get(_PARTITION, _OF + ref)
        return None if found is None else await self.get(MessageRef(read(found, "Test", str)))

    async def get(self, key: MessageRef) -> AbTest | None:
        found = await self._table.get(_PARTITION, _TEST + key)
        if found is None:
            return None
        test = msgspec.json.decode(read(found, "Test", str), type=AbTest)
        return msgspec.structs.replace(test, etag=found.etag)

    async def is_cancelled(self, key: str) -> bool:
        """Return whether a test was cancelled. A suspended process may have scheduled a message of
        it afterwards."""
        test = await self.get(MessageRef(key))
        return test is not None and test.state in (AbState.CANCELLING, AbState.CANCELLED)

    async def open_ones(self) -> list[MessageRef]:
        """Return the tests that are started and have not ended."""
        rows = KeyRange.prefix(_OPEN)
        found = await self._table.query(KeyRange.only(_PARTITION), rows, limit=_MOST_OPEN)
        return [MessageRef(each.row.removeprefix(_OPEN)) for each in found.entities]

    async def insert(self, test: AbTest) -> AbTest:
        """Add a test that is a draft. `Exists` if its message is in another one that has not
        ended."""
        other = await self.of(test.key)
        if other is not None and other.key == test.key and other.state in ENDED:
            await self.remove(other)  # cancelled before its variants were scheduled
        elif other is not None and other.state not in ENDED:
            raise Exists("A/B test of the message", test.key)
        try:
            etags = await self._table.apply([Insert(_entity(test)), Upsert(_of(test.key, test))])
        except AlreadyExists as exc:
            raise Exists("A/B test of the message", test.key) from exc
        return msgspec.structs.replace(test, etag=etags[0])

    async def save(self, test: AbTest) -> AbTest:
        """Replace a test under its ETag. `Overtaken`."""
        operations: list[Operation] = [Replace(_entity(test), test.etag)]
        members = {*test.variants, test.rest} - {MessageRef("")}
        operations += [Upsert(_of(ref, test)) for ref in sorted(members)]
        is_open = test.state is not AbState.DRAFT and test.state not in ENDED
        row = Entity(_PARTITION, _OPEN + test.key, {})
        operations += [Upsert(row)]
        if not is_open:  # in a batch, a row can be deleted only if it is there
            operations[-1:] = await self._closing(test)
        try:
            etags = await self._table.apply(operations)
        except (Conflict, NotFound) as exc:
            raise Overtaken("A/B test of the message", test.key) from exc
        return msgspec.structs.replace(test, etag=etags[0])

    async def remove(self, test: AbTest) -> None:
        """Delete a test that is a draft or has ended. `Overtaken`."""
        operations: list[Operation] = [Delete(_PARTITION, _TEST + test.key, test.etag)]
        rows = [_OF + ref for ref in sorted({*test.variants, test.rest})]
        found = [await self._table.get(_PARTITION, row) for row in rows]
        operations += [Delete(_PARTITION, each.row) for each in found if each is not None]
        try:
            await self._table.apply(operations)
        except (Conflict, NotFound) as exc:
            raise Overtaken("A/B test of the message", test.key) from exc

    async def forget(self, ref: MessageRef) -> None:
        """Remove the test of a message that is being removed, once all of them are ended. Can be
        repeated."""
        test = await self.of(ref)
        if test is not None and test.key == ref and test.state in ENDED:
            await self.remove(test)

    async def check_free(self, ref: MessageRef) -> None:
        """Raise `NotNow` if a draft is in a test, which schedules it together with others."""
        test = await self.of(ref)
        if test is not None and test.state not in ENDED:
            raise NotNow(
                f"the message {ref} is a variant of an A/B test: start the test, or remove it first"
            )

    async def _closing(self, test: AbTest) -> list[Operation]:
        found = await self._table.get(_PARTITION, _OPEN + test.key)
        return [] if found is None else [Delete(_PARTITION, _OPEN + test.key)]


def known_test(test: AbTest | None, ref: str) -> AbTest:
    """Return a test. `NoSuch` if there is none."""
    if test is None:
        raise NoSuch("A/B test of the message", ref)
    return test


def _entity(test: AbTest) -> Entity:
    text = msgspec.json.encode(msgspec.structs.replace(test, etag="")).decode()
    return Entity(_PARTITION, _TEST + test.key, {"Test": text, "State": test.state.value})


def _of(ref: MessageRef, test: AbTest) -> Entity:
    return Entity(_PARTITION, _OF + ref, {"Test": test.key})
