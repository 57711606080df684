"""Other workers, each in a separate process.

python -m bench.host.workers procrastinate URL CONCURRENCY
python -m bench.host.workers huey FILE
python -m bench.host.workers polling URL SECONDS
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable

import huey  # type: ignore[import-untyped]
import procrastinate
from huey.consumer import Consumer  # type: ignore[import-untyped]

from bench.host.handlers import note
from postroom.storage import open_store

QUEUE = "bench/queue"


def procrastinate_app(url: str) -> procrastinate.App:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    app.task(name="noop")(_noop)
    return app


async def _noop(body: str) -> None:
    note(body)


def huey_app(file: str) -> tuple[huey.SqliteHuey, Callable[[str], object]]:
    app = huey.SqliteHuey(filename=file, results=False)
    return app, app.task(name="noop")(note)


async def _procrastinate(url: str, concurrency: int) -> None:
    app = procrastinate_app(url)
    async with app.open_async():
        await app.run_worker_async(concurrency=concurrency, delete_jobs="always")


async def _polling(url: str, seconds: float) -> None:
    """Poll as people do in a first version: look, sleep, look again."""
    async with await open_store(url) as store:
        queue = store.queue(QUEUE)
        while True:
            while messages := await queue.receive(32, lease=60):
                for message in messages:
                    note(message.body)
                    await queue.delete(message)
            await asyncio.sleep(seconds)


def main(kind: str, where: str, how: str = "0") -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if kind == "procrastinate":
        asyncio.run(_procrastinate(where, int(how)))
    elif kind == "huey":
        app, _ = huey_app(where)
        Consumer(app, workers=1, periodic=False, check_worker_health=False).run()
    else:
        asyncio.run(_polling(where, float(how)))


if __name__ == "__main__":
    main(*sys.argv[1:])
