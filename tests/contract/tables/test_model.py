"""Random sequences of operations give the same answers on an engine as on plain dictionaries."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from postroom.storage import (
    EVERY_KEY,
    AlreadyExists,
    Conflict,
    Delete,
    Entity,
    Filter,
    Insert,
    KeyRange,
    LeaseLost,
    Merge,
    NotFound,
    QueueMessage,
    Replace,
    SingleOperation,
    StaleETag,
    Store,
    Upsert,
    Value,
    eq,
    ge,
    gt,
    le,
    lt,
    ne,
)
from tests.contract.conftest import StoreAddress, open_at
from tests.contract.tables.model import ModelQueue, ModelTable
from tests.long import sized

T = TypeVar("T")
EXAMPLES = {"sqlite": sized(30, 60), "postgres": sized(20, 40), "azure": sized(6, 12)}
STEPS = 30

# Few keys, so that operations meet; each with something that an engine could get wrong.
partitions = st.sampled_from(["p", "q/2", "r,3"])
rows = st.sampled_from(["a", "A", "b/#?", "o'b", "é", "🎉", "\uffee"])
values: st.SearchStrategy[Value] = st.one_of(
    st.sampled_from(["", "a", "b", "é", "2026-01-01T00:00:00.000000Z", "x" * 2000]),
    st.sampled_from([0, 1, -1, 2**62, 0.0, 1.0, 2.5, True, False, b"", b"\x00a"]),
    st.just(datetime(2026, 1, 1, tzinfo=UTC)),
)
properties = st.dictionaries(st.sampled_from(["A", "B", "C"]), values, max_size=3)
comparable = st.sampled_from(["", "a", "é", 0, 1, 2.5, 1.0, datetime(2026, 1, 1, tzinfo=UTC)])
ranges = st.one_of(
    st.just(EVERY_KEY),
    rows.map(KeyRange.only),
    rows.map(KeyRange.prefix),
    st.builds(KeyRange, st.none() | rows, st.none() | rows, st.booleans()),
)
comparisons: st.SearchStrategy[Filter] = st.one_of(
    st.builds(
        lambda compare, name, value: compare(name, value),
        st.sampled_from([eq, ne, lt, le, gt, ge]),
        st.sampled_from(["A", "B"]),
        comparable,
    ),
    st.builds(
        lambda compare, name, value: compare(name, value),
        st.sampled_from([eq, ne]),
        st.sampled_from(["A", "B"]),
        st.booleans(),
    ),
)
filters = st.one_of(
    st.none(),
    comparisons,
    st.builds(lambda one, two: one & two, comparisons, comparisons),
    st.builds(lambda one, two: one | two, comparisons, comparisons),
)


class AgainstModel(RuleBasedStateMachine):
    """Each run uses its own names in one store, so that runs do not see each other."""

    store: Store
    runner: asyncio.Runner
    runs = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).runs += 1

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)


class TableAgainstModel(AgainstModel):
    def __init__(self) -> None:
        super().__init__()
        self.table = self.store.table(f"table{self.runs}")
        self.model = ModelTable()
        self.stale = "0"

    def etag(self, partition: str, row: str, which: str) -> str | None:
        found = self.model.rows.get((partition, row))
        if which == "none":
            return None
        return self.stale if which == "stale" or found is None else found.etag

    def apply(self, operations: list[SingleOperation]) -> None:
        before = {key: row.etag for key, row in self.model.rows.items()}
        expected = self.model.expected_error(operations)
        if expected is None:
            etags = self.run(self.table.apply(operations))
            self.model.apply(operations, etags)
            changed = [etag for key, etag in before.items() if self.now(key) != etag]
            self.stale = changed[0] if changed else self.stale
            return
        error, position = expected
        with pytest.raises(error) as failure:
            self.run(self.table.apply(operations))
        assert failure.value.operation == position

    def now(self, key: tuple[str, str]) -> str | None:
        found = self.model.rows.get(key)
        return None if found is None else found.etag

    @rule(partition=partitions, data=st.data())
    def write(self, partition: str, data: st.DataObject) -> None:
        names = data.draw(st.lists(rows, min_size=1, max_size=5, unique=True))
        operations: list[SingleOperation] = []
        for row in names:
            entity = Entity(partition, row, data.draw(properties))
            etag = self.etag(
                partition, row, data.draw(st.sampled_from(["none", "current", "stale"]))
            )
            possible: list[SingleOperation] = [
                Insert(entity),
                Upsert(entity),
                Replace(entity, etag),
                Merge(entity, etag),
                Delete(partition, row, etag),
            ]
            operations.append(data.draw(st.sampled_from(possible)))
        self.apply(operations)

    @rule(partition=partitions, row=rows)
    def get(self, partition: str, row: str) -> None:
        found = self.run(self.table.get(partition, row))
        expected = self.model.rows.get((partition, row))
        if expected is None:
            assert found is None
        else:
            assert found == Entity(partition, row, expected.properties, expected.etag)
            assert found is not None
            assert [type(v) for _, v in sorted(found.properties.items())] == [
                type(v) for _, v in sorted(expected.properties.items())
            ]

    @rule(
        within=ranges | partitions.map(KeyRange.only),
        rows=ranges,
        where=filters,
        limit=st.sampled_from([1, 3, 1000]),
    )
    def query(self, within: KeyRange, rows: KeyRange, where: Filter | None, limit: int) -> None:
        found: list[Entity] = []
        after: str | None = None
        for _ in range(50):
            result = self.run(self.table.query(within, rows, where=where, limit=limit, after=after))
            found += result.entities
            after = result.next
            if after is None:
                break
            assert len(result.entities) == limit
        assert [(e.partition, e.row) for e in found] == self.model.query(within, rows, where)
        for entity in found:
            row = self.model.rows[entity.partition, entity.row]
            assert (entity.properties, entity.etag) == (row.properties, row.etag)


class QueueAgainstModel(AgainstModel):
    def __init__(self) -> None:
        super().__init__()
        self.queue = self.store.queue(f"queue/{self.runs}")
        self.queued = ModelQueue()
        self.held: dict[str, QueueMessage] = {}
        self.lost: list[QueueMessage] = []

    @rule(bodies=st.lists(st.sampled_from(["", "a", "b\x01", "é🎉"]), max_size=4))
    def put(self, bodies: list[str]) -> None:
        self.queued.put(bodies, self.run(self.queue.put_many(bodies)))

    @rule(limit=st.integers(1, 5))
    def receive(self, limit: int) -> None:
        received = self.run(self.queue.receive(limit, lease=600))
        self.queued.check_received([(m.id, m.body, m.dequeue_count) for m in received], limit)
        self.held |= {m.id: m for m in received}

    @precondition(lambda self: self.queued.ready)
    @rule(data=st.data())
    def receive_by_id(self, data: st.DataObject) -> None:
        identity = data.draw(st.sampled_from(self.queued.ready))
        message = self.run(self.queue.receive_by_id(identity, lease=600))
        assert message is not None
        self.queued.take(identity, message.body, message.dequeue_count)
        self.held[identity] = message

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        how=st.sampled_from(["delete", "away", "again", "release", "uncounted", "renew"]),
    )
    def settle(self, data: st.DataObject, how: str) -> None:
        message = self.held.pop(data.draw(st.sampled_from(sorted(self.held))))
        if how == "renew":
            self.held[message.id] = self.run(self.queue.renew(message, lease=600))
            return
        self.lost.append(message)
        if how == "delete":
            self.run(self.queue.delete(message))
            self.queued.delete(message.id)
        elif how == "away":
            self.run(self.queue.move(message, f"{self.queue.name};away"))
            self.queued.delete(message.id)
        elif how == "again":
            assert self.run(self.queue.move(message, self.queue.name)) == message.id
            self.queued.reset(message.id)
        else:
            self.run(self.queue.release(message, count_attempt=how == "release"))
            self.queued.release(message.id, count_attempt=how == "release")

    def late(self) -> list[QueueMessage]:
        return [m for m in self.lost if m.id not in self.queued.ready]

    @precondition(lambda self: self.late())
    @rule(data=st.data(), how=st.sampled_from(["delete", "move", "release", "renew"]))
    def settle_late(self, data: st.DataObject, how: str) -> None:
        message = data.draw(st.sampled_from(self.late()))
        calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "delete": lambda: self.queue.delete(message),
            "move": lambda: self.queue.move(message, self.queue.name),
            "release": lambda: self.queue.release(message),
            "renew": lambda: self.queue.renew(message, lease=600),
        }
        with pytest.raises(LeaseLost):
            self.run(calls[how]())

    @rule(limit=st.integers(1, 5))
    def peek(self, limit: int) -> None:
        peeked = [m.id for m in self.run(self.queue.peek(limit))]
        assert len(peeked) == min(limit, len(self.queued.ready))
        if self.queued.in_order:
            assert peeked == self.queued.ready[:limit]
        assert self.run(self.queue.info()).length == len(self.queued.messages)
        assert self.run(self.queue.wait(0)) == bool(self.queued.ready)

    @rule()
    def purge(self) -> None:
        self.run(self.queue.purge())
        self.queued.purge()
        self.lost += self.held.values()
        self.held.clear()


class ContainerAgainstModel(AgainstModel):
    def __init__(self) -> None:
        super().__init__()
        self.container = self.store.container(f"container{self.runs}")
        self.blobs: dict[str, tuple[bytes, str]] = {}

    @rule(
        name=st.sampled_from(["a", "a/b", "é"]),
        content=st.sampled_from([b"", b"x", b"y" * 300_000]),
        condition=st.sampled_from(["none", "new", "current", "stale"]),
    )
    def put_blob(self, name: str, content: bytes, condition: str) -> None:
        existing = self.blobs.get(name)
        new = condition == "new"
        etag = {"current": existing[1] if existing else "0", "stale": "0"}.get(condition)
        error: type[Conflict] | None = None
        if existing is None and etag is not None:
            error = NotFound
        elif existing is not None and new:
            error = AlreadyExists
        elif existing is not None and etag == "0":
            error = StaleETag
        call = self.container.put(name, content, etag=etag, new=new)
        if error is None:
            self.blobs[name] = (content, self.run(call))
        else:
            with pytest.raises(error):
                self.run(call)

    @rule(name=st.sampled_from(["a", "a/b", "é"]))
    def delete_blob(self, name: str) -> None:
        if self.blobs.pop(name, None) is None:
            with pytest.raises(NotFound):
                self.run(self.container.delete(name))
        else:
            self.run(self.container.delete(name))

    @rule(prefix=st.sampled_from(["", "a", "a/"]))
    def look_at_blobs(self, prefix: str) -> None:
        listed = self.run(self.container.list(prefix)).blobs
        assert {b.name: (b.size, b.etag) for b in listed} == {
            name: (len(content), etag)
            for name, (content, etag) in self.blobs.items()
            if name.startswith(prefix)
        }
        for blob in listed:
            assert self.run(self.container.read(blob.name)) == self.blobs[blob.name][0]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", [TableAgainstModel, QueueAgainstModel, ContainerAgainstModel])
def test_random_operations_agree_with_the_model(
    engine: str, address: StoreAddress, part: type[AgainstModel]
) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(open_at(address))
        machine = type(part.__name__, (part,), {"store": store, "runner": runner})
        try:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=EXAMPLES[engine],
                    stateful_step_count=STEPS,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                    phases=[Phase.generate, Phase.shrink],
                ),
            )
        finally:
            runner.run(store.close())
