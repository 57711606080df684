"""Copies all data from one store to another, between any two engines, and compares the result.

- Nothing may be sent in the meantime: outcomes would be recorded in the old store only.
- The source is not changed. The target must be empty, or have an interrupted copy of the same
  source, which continues: the target records the progress.
- At the end both are read side by side and must be equal: keys and values of every entity, bytes of
  every blob, bodies and properties of every queue message. ETags, and how often a queue message was
  received, belong to the engine and differ.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable

import msgspec

from postroom import clock
from postroom.domain.errors import NotNow
from postroom.domain.messages.messages import MessageStatus
from postroom.domain.queues.queue_names import is_internal
from postroom.errors import PostroomError
from postroom.services.entities import read
from postroom.services.messages.message_rows import MessageRows
from postroom.services.queues import hosts
from postroom.storage import (
    Container,
    Entity,
    KeyRange,
    MessageToPut,
    QueueMessage,
    Store,
    Table,
    Upsert,
)

PROGRESS = "storecopy"
_WHOLE = ("progress", "everything")
# Hosts write their status and bells again.
_NOT_COPIED = (PROGRESS, hosts.TABLE)
_BATCH = 100
_AT_ONCE = 8
_RECORDED_EVERY = 50  # batches: at most as many are repeated after an interruption
_PUT_MANY = 500


class CopyFailed(PostroomError):
    """The copy differs from the source; the text says where."""


class CopyReport(msgspec.Struct):
    """What was copied and compared so far."""

    entities: int = 0
    messages: int = 0
    blobs: int = 0
    bytes: int = 0
    compared: int = 0


async def refuse_unfinished_copy(store: Store) -> None:
    """Raise `NotNow` if a copy into this store is unfinished: it would look complete."""
    progress = store.table(PROGRESS)
    if await progress.get("copy", "source") is None:
        return
    whole = await progress.get(*_WHOLE)
    if whole is None or whole.properties["State"] != "done":
        raise NotNow(
            "this store holds an unfinished copy of another one: run `postroom store copy` again to"
            " finish it, or use another store"
        )


CopyProgress = Callable[[str, CopyReport], None]
"""Called with what is being copied or compared, and the report so far."""


class StoreCopy:
    def __init__(
        self, source: Store, target: Store, progress: CopyProgress = lambda _, __: None
    ) -> None:
        self._source = source
        self._target = target
        self._on_progress = progress
        self._progress = target.table(PROGRESS)
        self._report = CopyReport()

    async def run(self) -> CopyReport:
        """Copy and compare everything. `NotNow`, `CopyFailed`."""
        if not await self._source.tables():
            raise NotNow("the source is empty: check its URL")
        await self._check_nothing_is_sent()
        await self._check_target()
        for name in await self._source.tables():
            if name not in _NOT_COPIED:
                await self._copy_table(name)
        for name in await self._source.containers():
            await self._copy_container(name)
        for info in await self._source.queues():
            if not is_internal(info.name):
                await self._copy_queue(info.name)
        await self._compare()
        await self._check_nothing_is_sent()
        await self._record("", "done", "")
        return self._report

    # -- conditions --------------------------------------------------------------------------

    async def _check_nothing_is_sent(self) -> None:
        async for message in MessageRows(self._source).open_messages():
            if message.status in (MessageStatus.QUEUING, MessageStatus.PROCESSING):
                raise NotNow(
                    f"message {message.ref} is being sent: wait until it is finished, or pause it"
                    " (postroom message pause), stop all schedulers, and copy again"
                )

    async def _check_target(self) -> None:
        source = (await self._source.info()).location
        begun = await self._progress.get("copy", "source")
        if begun is not None:
            other = read(begun, "Location", str)
            if other != source:
                raise NotNow(
                    f"the target contains part of another store ({other}): use an empty one"
                )
            return
        held = [f"table {name}" for name in await self._target.tables() if name != PROGRESS]
        held += [f"queue {info.name}" for info in await self._target.queues()]
        held += [f"container {name}" for name in await self._target.containers()]
        if held:
            raise NotNow(f"the target is not empty, it has {held[0]}: use an empty one")
        await self._progress.upsert(Entity("copy", "source", {"Location": source}))

    # -- copying -----------------------------------------------------------------------------

    async def _copy_table(self, name: str) -> None:
        what = f"table {name}"
        reached, is_done = await self._recorded(what)
        if is_done:
            return
        source, target = self._source.table(name), self._target.table(name)
        waiting: list[list[Entity]] = []
        batches = 0
        async for batch in _batches(source, reached):
            waiting.append(batch)
            if len(waiting) == _AT_ONCE:
                await self._write(target, waiting)
                batches += len(waiting)
                if batches % _RECORDED_EVERY < _AT_ONCE:
                    last = waiting[-1][-1]
                    await self._record(what, "reached", f"{last.partition}\t{last.row}")
                waiting = []
                self._on_progress(what, self._report)
        await self._write(target, waiting)
        await self._record(what, "done", "")
        self._on_progress(what, self._report)

    async def _write(self, target: Table, batches: list[list[Entity]]) -> None:
        await asyncio.gather(
            *(target.apply([Upsert(entity) for entity in batch]) for batch in batches)
        )
        self._report.entities += sum(map(len, batches))

    async def _copy_container(self, name: str) -> None:
        what = f"container {name}"
        reached, is_done = await self._recorded(what)
        if is_done:
            return
        source, target = self._source.container(name), self._target.container(name)
        async for blob, size in _blobs(source):
            if reached and blob <= reached:
                continue
            await target.put(blob, source.stream(blob))
            self._report.blobs += 1
            self._report.bytes += size
            await self._record(what, "reached", blob)
            self._on_progress(what, self._report)
        await self._record(what, "done", "")

    async def _copy_queue(self, name: str) -> None:
        """Copy a queue, from the start after an interruption: messages have no keys."""
        what = f"queue {name}"
        if (await self._recorded(what))[1]:
            return
        target = self._target.queue(name)
        await target.purge()
        waiting: list[MessageToPut] = []
        async for stored in self._source.queue(name).scan():
            now = clock.now()
            delay = max(0.0, (stored.ready_at - now).total_seconds())
            ttl = None
            if stored.expires_at is not None:
                ttl = max(1.0, (stored.expires_at - now).total_seconds())
            message = stored.message
            waiting.append(MessageToPut(message.body, delay, ttl, message.properties))
            if len(waiting) == _PUT_MANY:
                await self._put(name, waiting)
                waiting = []
        await self._put(name, waiting)
        await self._record(what, "done", "")
        self._on_progress(what, self._report)

    async def _put(self, name: str, messages: list[MessageToPut]) -> None:
        await self._target.queue(name).put_many(messages)
        self._report.messages += len(messages)

    # -- comparing ---------------------------------------------------------------------------

    async def _compare(self) -> None:
        for name in await self._source.tables():
            if name not in _NOT_COPIED:
                await self._compare_table(name)
        for name in await self._source.containers():
            await self._compare_container(name)
        for info in await self._source.queues():
            if not is_internal(info.name):
                await self._compare_queue(info.name)

    async def _compare_table(self, name: str) -> None:
        copied = self._target.table(name).scan()
        async for ours in self._source.table(name).scan():
            theirs = await anext(copied, None)
            if theirs is None or not _is_same(ours, theirs):
                raise CopyFailed(
                    f"table {name} differs at {ours.partition!r}, {ours.row!r}: was the source in"
                    " use? Stop everything that writes to it, and copy to an empty store"
                )
            self._report.compared += 1
            if self._report.compared % 1000 == 0:
                self._on_progress(f"comparing table {name}", self._report)
        if (more := await anext(copied, None)) is not None:
            raise CopyFailed(
                f"table {name} of the target has an extra row: {more.partition!r}, {more.row!r}"
            )

    async def _compare_container(self, name: str) -> None:
        source, target = self._source.container(name), self._target.container(name)
        copied = [blob async for blob, _ in _blobs(target)]
        expected = [blob async for blob, _ in _blobs(source)]
        if sorted(copied) != sorted(expected):
            raise CopyFailed(f"container {name} of the target has different blobs from the source")
        for blob in expected:
            if await _digest(source, blob) != await _digest(target, blob):
                raise CopyFailed(f"blob {name}/{blob} differs")
            self._report.compared += 1
            self._on_progress(f"comparing container {name}", self._report)

    async def _compare_queue(self, name: str) -> None:
        source, target = self._source.queue(name), self._target.queue(name)
        seen = Counter([_fingerprint(each.message) async for each in source.scan()])
        hidden = (await source.info()).length - seen.total()
        if hidden > 0 and not await _shows_all(self._source):
            raise CopyFailed(
                f"queue {name} has {hidden} messages that are delayed or leased, which Azure does"
                " not show: wait until they are ready, and copy again"
            )
        if not await _shows_all(self._target):
            return  # it does not show delayed messages
        if seen != Counter([_fingerprint(each.message) async for each in target.scan()]):
            raise CopyFailed(f"queue {name} of the target has different messages from the source")

    # -- progress ----------------------------------------------------------------------------

    async def _recorded(self, what: str) -> tuple[str, bool]:
        found = await self._progress.get("progress", what)
        if found is None:
            return "", False
        return str(found.properties["Reached"]), found.properties["State"] == "done"

    async def _record(self, what: str, state: str, reached: str) -> None:
        await self._progress.upsert(
            Entity("progress", what or "everything", {"State": state, "Reached": reached})
        )


async def _batches(table: Table, reached: str) -> AsyncIterator[list[Entity]]:
    """Yield up to 100 entities of one partition at a time, after those copied before."""
    partition, _, row = reached.partition("\t")
    start = KeyRange(start=partition or None)
    batch: list[Entity] = []
    async for entity in table.scan(start):
        if reached and entity.partition == partition and entity.row <= row:
            continue
        if batch and (len(batch) == _BATCH or batch[0].partition != entity.partition):
            yield batch
            batch = []
        batch.append(entity)
    if batch:
        yield batch


async def _blobs(container: Container) -> AsyncIterator[tuple[str, int]]:
    after: str | None = None
    while True:
        listing = await container.list(after=after)
        for blob in listing.blobs:
            yield blob.name, blob.size
        if (after := listing.next) is None:
            return


def _is_same(ours: Entity, theirs: Entity) -> bool:
    return (ours.partition, ours.row, dict(ours.properties)) == (
        theirs.partition,
        theirs.row,
        dict(theirs.properties),
    )


async def _digest(container: Container, blob: str) -> bytes:
    digest = hashlib.sha256()
    async for piece in container.stream(blob):
        digest.update(piece)
    return digest.digest()


def _fingerprint(message: QueueMessage) -> bytes:
    content = [message.body, sorted(message.properties.items())]
    return hashlib.sha256(msgspec.json.encode(content)).digest()


async def _shows_all(store: Store) -> bool:
    """Return whether a scan of a queue also finds delayed and leased messages."""
    return not (await store.info()).engine.startswith("Azure")
