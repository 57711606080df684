"""Two people edit one draft at the same time, and the server is killed again and again."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest

from tests.long import sized
from tests.services.postroom import CommandLine
from tests.services.waiting import BUSY, LOOPBACK, accepts_connections, free_ports, until

SECONDS = sized(10, 60)
LEAST_KILLS = 2
MOST_LINES = 2000  # of each writer
BUSY_STATUSES = {429, 503}  # as good as no answer: the writer tries again
PAUSE = 0.2  # seconds at most between two changes of one writer, and before a kill


class KilledServer:
    """A server that is killed at random moments, and started again on the same port."""

    def __init__(self, cli: CommandLine) -> None:
        self._cli = cli
        [self.port] = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self._process = self._cli.start("web", "--port", str(self.port))
        await until(lambda: accepts_connections(self.port), "the server accepts connections")

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.communicate)


class Writer:
    """Adds lines to the text that was read last. After losing a race, or without an answer, reads
    it again: a line that is in it was saved."""

    def __init__(self, client: httpx2.AsyncClient, place: str, name: str) -> None:
        self._client = client
        self._place = place
        self._name = name
        self.saved: list[str] = []
        self.overtaken = 0

    async def write(self, chance: random.Random) -> None:
        for number in range(MOST_LINES):
            await asyncio.sleep(chance.uniform(0, PAUSE))
            try:
                await self._add(f"{self._name} {number}")
            except httpx2.TransportError:  # the server is down: nobody knows what became of it
                continue

    async def _add(self, line: str) -> None:
        read = await self._client.get(self._place)
        bodies = await self._client.get(f"{self._place}/bodies")
        if BUSY_STATUSES & {read.status_code, bodies.status_code}:
            return
        body = bodies.json()["body"]
        change = {"format": "markdown", "body": f"{body}{line}\n"}
        etag = {"If-Match": read.headers["etag"]}
        answer = await self._client.patch(self._place, json=change, headers=etag)
        if answer.status_code == 412:
            self.overtaken += 1
            return
        if answer.status_code in BUSY_STATUSES:
            return
        assert answer.status_code == 200, answer.text
        self.saved.append(line)


async def more_saved(writers: Sequence[Writer]) -> None:
    before = [len(each.saved) for each in writers]
    await until(
        lambda: all(len(each.saved) > had for each, had in zip(writers, before, strict=True)),
        "both writers save something",
    )


@pytest.mark.timeout(600)
async def test_what_two_writers_saved_survives_each_other_and_a_killed_server(
    tmp_path: Path,
) -> None:
    cli = CommandLine(tmp_path)
    cli.ok("list", "create", "news", "--description", "News", "--from", "news@example.com")
    key = cli.json("apikey", "create")["key"]
    server, chance = KilledServer(cli), random.Random(17)
    await server.start()
    try:
        async with httpx2.AsyncClient(
            base_url=f"http://{LOOPBACK}:{server.port}/api/v1",
            headers={"Authorization": f"Bearer {key}"},
            timeout=10 * BUSY,
        ) as client:
            new = {"draft": True, "list": "news", "format": "markdown", "body": "Begun\n"}
            made = await client.post("/messages", json=new)
            assert made.status_code == 201, made.text
            place = f"/messages/{made.json()['ref']}"
            writers = [Writer(client, place, name) for name in ("Ann", "Bob")]

            busy = [asyncio.create_task(each.write(chance)) for each in writers]
            kills, end = 0, time.monotonic() + SECONDS
            try:
                while time.monotonic() < end or kills < LEAST_KILLS:
                    kills += 1
                    await more_saved(writers)
                    await asyncio.sleep(chance.uniform(0, PAUSE))
                    await server.kill()
                    await server.start()
                await more_saved(writers)
            finally:
                for each in busy:
                    each.cancel()
                ended = await asyncio.gather(*busy, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
            final = (await client.get(f"{place}/bodies")).json()["body"].splitlines()
    finally:
        await server.kill()
    saved = [line for each in writers for line in each.saved]
    assert [line for line in saved if final.count(line) != 1] == []
    assert len(set(final)) == len(final), "a line is there twice"
    # A line without an answer may be there, too, and no other.
    assert len(final) - len(["Begun", *saved]) <= len(writers) * (kills + 1)
