"""The work done through the store's contract."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from bench.store import mail
from postroom.storage import Delete, Entity, Insert, KeyRange, Queue, QueueMessage, Store

AT_ONCE = 16  # pages in hand, as a sender has
QUEUE = "mail/send"


async def write_pages(store: Store, pages: range) -> None:
    """Fan-out: 100 entities a batch, each page a partition."""
    table = store.table("message")

    async def write(page: int) -> None:
        await table.apply([Insert(entity) for entity in mail.email_page(page)])

    await _concurrently(write, pages, AT_ONCE)


async def put_work_items(store: Store, pages: range) -> None:
    await store.queue(QUEUE).put_many([mail.work_item(page) for page in pages])


async def settle_pages(store: Store) -> int:
    """A sender's bookkeeping: claim, read the page, archive it, delete it, delete the item.

    As a sender does: 8 pages a claim, at most 16 in hand.
    """
    queue, settled = store.queue(QUEUE), 0
    in_hand: set[asyncio.Task[None]] = set()
    while items := await queue.receive(AT_ONCE // 2, lease=60):
        settled += len(items)
        in_hand |= {asyncio.create_task(_settle(store, queue, item)) for item in items}
        while len(in_hand) > AT_ONCE // 2:
            done, in_hand = await asyncio.wait(in_hand, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    await asyncio.gather(*in_hand)
    return settled


async def _settle(store: Store, queue: Queue, item: QueueMessage) -> None:
    day, ref, page, _ = item.body.split(",")
    partition = f"{day},{ref},{page}"
    table, archive = store.table("message"), store.table("messagearchive")
    emails = (await table.query(KeyRange.only(partition))).entities
    assert len(emails) == mail.PAGE
    await archive.apply([Insert(_accepted(email)) for email in emails])
    await table.apply([Delete(partition, email.row) for email in emails])
    await queue.delete(item)


def _accepted(email: Entity) -> Entity:
    return Entity(
        email.partition, email.row, {**email.properties, "Status": "accepted", "EmailSent": True}
    )


async def put_singly(store: Store, queue: str, tasks: int, count: int) -> None:
    """`count` durable puts, one at a time, from each of `tasks` tasks."""

    async def put(_: int) -> None:
        for _ in range(count):
            await store.queue(queue).put("GUID,LISTNAME")

    await asyncio.gather(*(put(task) for task in range(tasks)))


async def point_reads(store: Store, pages: int, count: int) -> None:
    table = store.table("message")
    for number in range(count):
        page = number * 7919 % pages
        assert await table.get(mail.partition(page), mail.addresses(page)[number % mail.PAGE])


async def page_reads(store: Store, pages: int, count: int) -> None:
    table = store.table("message")
    for number in range(count):
        partition = mail.partition(number * 7919 % pages)
        assert len((await table.query(KeyRange.only(partition))).entities) == mail.PAGE


async def claims(store: Store, count: int) -> None:
    """Take a message and give it back, so that the queue keeps its length."""
    queue = store.queue(QUEUE)
    for _ in range(count):
        [item] = await queue.receive(lease=60)
        await queue.release(item)


async def arrival_delays(putting: Store, waiting: Store, count: int) -> list[float]:
    """Seconds from the beginning of a put to the end of a wait in another store object."""
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
