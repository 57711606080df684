"""A process that puts or takes queue messages until it is done or killed.

    python -m tests.contract.processes.torture_worker URL LOG put FIRST COUNT
    python -m tests.contract.processes.torture_worker URL LOG take SECONDS

It writes to its log, a line at a time, what it is about to do and then what it has done. A line is
one `write` to a file opened for appending: SIGKILL leaves it whole or not there.
"""

import asyncio
import os
import sys
import time

from postroom.storage import LeaseLost, Queue, open_store

QUEUE = "torture/queue"
BATCH = 25
LEASE = 2.0


class Log:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def write(self, what: str, bodies: list[str]) -> None:
        os.write(self._file, f"{what} {' '.join(bodies)}\n".encode())


async def put(queue: Queue, log: Log, first: int, count: int) -> None:
    for start in range(first, first + count, BATCH):
        bodies = [str(number) for number in range(start, min(start + BATCH, first + count))]
        log.write("putting", bodies)
        await queue.put_many(bodies)
        log.write("put", bodies)


async def take(queue: Queue, log: Log, seconds: float) -> None:
    """Until `seconds` have passed without a message."""
    last = time.monotonic()
    while time.monotonic() - last < seconds:
        messages = await queue.receive(BATCH, lease=LEASE)
        if not messages:
            await queue.wait(0.5)
            continue
        last = time.monotonic()
        log.write("finishing", [m.body for m in messages])
        finished = await asyncio.gather(
            *(queue.delete(m) for m in messages), return_exceptions=True
        )
        for message, answer in zip(messages, finished, strict=True):
            if answer is None:
                log.write("finished", [message.body])
            elif isinstance(answer, LeaseLost):
                log.write("late", [message.body])
            else:
                raise answer


async def main(url: str, log: str, what: str, *numbers: str) -> None:
    async with await open_store(
        url, os.environ.get("POSTROOM_AZURE_CONNECTION_STRING", "")
    ) as store:
        queue = store.queue(QUEUE)
        if what == "put":
            await put(queue, Log(log), int(numbers[0]), int(numbers[1]))
        else:
            await take(queue, Log(log), float(numbers[0]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
