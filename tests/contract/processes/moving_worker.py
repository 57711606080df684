"""A process that moves messages between queues until it is killed.

python -m tests.contract.processes.moving_worker URL

Each goes round in a circle of three queues, delayed now and then, with a note of how often.
"""

import asyncio
import os
import sys

from postroom.storage import LeaseLost, Store, open_store

QUEUES = ("circle/a", "circle/a;retry", "circle/a;poison")
LEASE = 1.0


async def move_on(store: Store, name: str) -> None:
    queue = store.queue(name)
    to = QUEUES[(QUEUES.index(name) + 1) % len(QUEUES)]
    for message in await queue.receive(8, lease=LEASE):
        moves = int(message.properties.get("moves", "0")) + 1
        try:
            await queue.move(
                message, to, delay=0.02 * (moves % 2), properties={"moves": str(moves)}
            )
        except LeaseLost:
            continue


async def main(url: str) -> None:
    async with await open_store(
        url, os.environ.get("POSTROOM_AZURE_CONNECTION_STRING", "")
    ) as store:
        while True:
            for name in await store.wait_for_messages(QUEUES, timeout=1):
                await move_on(store, name)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
