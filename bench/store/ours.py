"""The same work through the store's contract."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from bench.store import mail
from postroom.storage import Insert, KeyRange, Store

AT_ONCE = 16  # batches, as many as a sender has pages
TABLE = "bench"
QUEUE = "bench/items"


async def write_entities(store: Store, partitions: range) -> None:
    """Insert 100 entities per batch, each batch a partition."""
    table = store.table(TABLE)

    async def write(number: int) -> None:
        await table.apply([Insert(entity) for entity in mail.entities(number)])

    await _concurrently(write, partitions, AT_ONCE)


async def put_work_items(store: Store, pages: range) -> None:
    await store.queue(QUEUE).put_many([mail.work_item(page) for page in pages])


async def put_singly(store: Store, queue: str, tasks: int, count: int) -> None:
    """Put `count` messages durably, one at a time, from each of `tasks` tasks."""

    async def put(_: int) -> None:
        for _ in range(count):
            await store.queue(queue).put("GUID,LISTNAME")

    await asyncio.gather(*(put(task) for task in range(tasks)))


async def point_reads(store: Store, pages: int, count: int) -> None:
    table = store.table(TABLE)
    for number in range(count):
        page = number * 7919 % pages
        assert await table.get(mail.partition(page), mail.addresses(page)[number % mail.PAGE])


async def page_reads(store: Store, pages: int, count: int) -> None:
    table = store.table(TABLE)
    for number in range(count):
        partition = mail.partition(number * 7919 % pages)
        assert len((await table.query(KeyRange.only(partition))).entities) == mail.PAGE


async def claims(store: Store, count: int) -> None:
    """Receive a message and release it, so that the queue keeps its length."""
    queue = store.queue(QUEUE)
    for _ in range(count):
        [item] = await queue.receive(lease=60)
        await queue.release(item)


async def arrival_delays(putting: Store, waiting: Store, count: int) -> list[float]:
    """Return the seconds from the beginning of a put to the end of a wait in another store
    object."""
    delays = []
    queue = waiting.queue("bench/arrivals")
    for _ in range(count):
        waiter = asyncio.create_task(queue.wait(10))
        await asyncio.sleep(0.02)
        started = time.perf_counter()
        await putting.queue("bench/arrivals").put("hello")
        assert await waiter
        delays.append(time.perf_counter() - started)
        [message] = await queue.receive(lease=60)
        await queue.delete(message)
    return delays


async def _concurrently(
    work: Callable[[int], Awaitable[None]], numbers: Iterable[int], tasks: int
) -> None:
    source = iter(numbers)

    async def run() -> None:
        for number in source:
            await work(number)

    await asyncio.gather(*(run() for _ in range(tasks)))
