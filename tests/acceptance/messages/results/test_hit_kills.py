"""People open and click while the web server and the process that counts are killed: everybody
counts once."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from postroom.domain.audience.lists.lists import ListName, SubscriberGuid
from postroom.domain.messages.hits import HIT_QUEUE, OPENED
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.services import entities
from postroom.services.audience.results.people import PeopleRows, PeopleSums
from postroom.services.audience.subscriber_rows import new_subscriber
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import SendingOptions
from postroom.storage import BulkInsert, Value
from postroom.wiring import Services
from tests.acceptance.harness import LIST, Postroom, address_of
from tests.acceptance.hosting import KILLED_LEASE, SECRET_KEY
from tests.contract.conftest import StoreAddress
from tests.integration.usecases.making import now
from tests.integration.usecases.pages import fan_out_whole
from tests.long import IS_LONG, sized
from tests.services.waiting import BUSY, free_ports, until

LINKS = 2
"""Three links of one person within two seconds would count as a program's."""
HITS = int(os.environ.get("POSTROOM_TEST_HITS", sized(1_500, 900_000)))
"""Different ones: an open and two clicks by each person; with those that are repeated, a million,
which takes about an hour."""
AZURE_HITS = int(os.environ.get("POSTROOM_TEST_AZURE_HITS", sized(300, 9_000)))
HOSTED_HITS = sized(1_500, 30_000)
KILLS = sized(2, 10)  # of web server and worker, each
REPEATED = 0.11  # of the different hits: a tenth of all
CONNECTIONS = 8
PATIENCE = sized(120, 3600)
HTML = "".join(f'<a href="https://www.example.com/{each}">Read</a>' for each in range(LINKS))
LOOPBACK = "127.0.0.1"
ROOT = Path(__file__).parents[4]

Hit = tuple[SubscriberGuid, int]


@pytest.fixture(params=["sqlite", "postgres", "azure"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@dataclass
class People:
    """Those who open and click, each time with another browser, and again if nobody answers."""

    port: int
    paths: dict[Hit, str]
    waiting: deque[Hit]
    agents: Iterator[int] = field(default_factory=lambda: iter(range(sys.maxsize)))
    underway: int = 0

    @property
    def are_done(self) -> bool:
        return not self.waiting and not self.underway

    async def act(self) -> None:
        """Be one of them for ever."""
        while True:
            try:
                reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            try:
                while True:
                    await self._act_once(reader, writer)
            except (OSError, EOFError):
                await asyncio.sleep(0.1)
            finally:
                writer.close()

    async def _act_once(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.waiting:
            await asyncio.sleep(0.02)
            return
        hit = self.waiting.popleft()
        self.underway += 1
        try:
            await self._request(reader, writer, self.paths[hit])
        except (OSError, EOFError):
            self.waiting.append(hit)
            raise
        finally:
            self.underway -= 1

    async def _request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str
    ) -> None:
        agent = f"Mozilla/5.0 (X11; Linux x86_64; {next(self.agents)}) Firefox/140.0"
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {agent}\r\n\r\n"
        writer.write(request.encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split()[1])
        assert status in (200, 302), head
        length = head.partition(b"content-length:")[2].split(b"\r\n")[0]
        await reader.readexactly(int(length or 0))


@dataclass
class Counting:
    """The process that counts hits."""

    address: StoreAddress
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        module = "tests.acceptance.messages.results.hit_worker_process"
        environment = {**os.environ, **self.address.environment}
        command = [sys.executable, "-m", module, self.address.url]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def assert_alive(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, "it counts until it is killed"


async def sent(services: Services, people: int) -> tuple[Message, dict[Hit, str]]:
    """Return a message that was planned for people who agree to tracking, and its links."""
    await services.lists.create(LIST, "News", "news@contoso.example")
    name = ListName(LIST)
    table = services.store.table(entities.LISTS)
    guids: list[SubscriberGuid] = []
    for start in range(0, people, 50):
        made = [
            new_subscriber(name, address_of(number), verified=True)
            for number in range(start, min(start + 50, people))
        ]
        rows: dict[str, dict[str, str]] = {}
        for each in made:
            lookup = entities.lookup_entity(each)
            rows[lookup.row] = {"EmailAddress": each.address}
            rows[entities.email_row(each.address)] = {"SubscriberGUID": each.guid}
            guids.append(each.guid)
        shared: dict[str, Value] = {"Verified": True, "Tracking": True, "CreatedAt": now()}
        await table.apply([BulkInsert(name, rows, shared)])
    message = await services.messages.create(
        LIST, "News", NewBodies(HTML), now(), options=SendingOptions(track=Track.PERSONAL)
    )
    message = await fan_out_whole(services.store, message.ref)
    await services.link_tables.tracking(message, HTML, "http://localhost:8420")
    tokens = services.link_tables.tokens.of_message(message.ref)
    paths: dict[Hit, str] = {}
    for guid in guids:
        token = tokens.token(guid, agreed=True)
        paths[guid, OPENED] = f"/o/{token}.gif"
        paths |= {(guid, number): f"/r/{token}/{number}" for number in range(1, LINKS + 1)}
    return message, paths


@dataclass
class Reading:
    """People with their hits on one message, the web server, and what has been counted."""

    services: Services
    message: Message
    count: int
    people: People
    postroom: Postroom
    acting: list[asyncio.Task[None]]
    web: subprocess.Popen[bytes]

    async def until_left(self, hits: int) -> None:
        await until(lambda: len(self.people.waiting) <= hits, self.postroom.logs, PATIENCE)

    async def counted(self) -> int:
        sums = await PeopleRows(self.services.store).sums(self.message.ref)
        return sum(sums.links.values()) + sums.opened

    async def is_counted(self) -> bool:
        failed = [each.exception() for each in self.acting if each.done()]
        assert not failed, failed
        queue = self.services.store.queue(HIT_QUEUE)
        return self.people.are_done and not (await queue.info()).length

    def kill_web(self) -> None:
        self.web.kill()
        self.web.wait()
        self.web = self.postroom.start("web")

    async def finish(self) -> None:
        """Wait until everything is counted."""
        await until(lambda: self.people.are_done, self.postroom.logs, PATIENCE)
        files = self.postroom.folder / "data" / "hits"
        await until(lambda: not list(files.iterdir()), "the web server has queued all hits")
        await until(self.is_counted, self.postroom.logs, PATIENCE)

    async def assert_everybody_counted_once(self) -> None:
        rows = PeopleRows(self.services.store)
        everyone = dict.fromkeys(range(1, LINKS + 1), self.count)
        assert await rows.sums(self.message.ref) == PeopleSums(self.count, self.count, everyone)
        found = await rows.some(self.message.ref, limit=1000)
        assert len(found) == min(self.count, 1000)
        assert {each.guid for each in found} <= {guid for guid, _ in self.people.paths}
        assert all(each.opened_at and each.links == tuple(everyone) for each in found)


@asynccontextmanager
async def reading(
    address: StoreAddress, services: Services, folder: Path, hits: int
) -> AsyncIterator[Reading]:
    """Let people open a message and follow its links, and a tenth of them do so again."""
    count = hits // (LINKS + 1)
    message, paths = await sent(services, count)
    luck = random.Random(1)
    waiting = list(paths)
    waiting += luck.choices(waiting, k=int(len(waiting) * REPEATED))
    luck.shuffle(waiting)
    [port] = free_ports(1)
    people = People(port, paths, deque(waiting))
    settings = {"secret_key": SECRET_KEY, "port": str(port), "host_lease": KILLED_LEASE}
    postroom = Postroom(address, "outbox:", folder, settings)
    web = postroom.start("web")
    acting = [asyncio.create_task(people.act()) for _ in range(CONNECTIONS)]
    try:
        yield Reading(services, message, count, people, postroom, acting, web)
    finally:
        for each in acting:
            each.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*acting)
        postroom.kill_all()


async def kill_web_server(them: Reading) -> None:
    """Kill it again and again, from the first hits to the last."""
    waiting = len(them.people.waiting)
    for part in range(1, KILLS + 1):
        await them.until_left(waiting * (KILLS + 1 - part) // (KILLS + 1))
        them.kill_web()


async def kill_worker(them: Reading, counting: Counting) -> None:
    """Kill it again and again, from the first hits that are counted to the last."""
    everything = (LINKS + 1) * them.count
    for part in range(1, KILLS + 1):

        async def has_counted(part: int = part) -> bool:
            counting.assert_alive()
            return await them.counted() >= everything * part // (KILLS + 1)

        await until(has_counted, them.postroom.logs, PATIENCE)
        counting.kill()
        counting.start()


@pytest.mark.timeout(sized(240, 7200) * BUSY)
async def test_everyone_counts_once_although_web_server_and_worker_are_killed(
    address: StoreAddress, services: Services, tmp_path: Path, engine: str
) -> None:
    hits = AZURE_HITS if engine == "azure" else HITS
    counting = Counting(address)
    async with reading(address, services, tmp_path, hits) as them:
        counting.start()
        try:
            await asyncio.gather(kill_web_server(them), kill_worker(them, counting))
            await them.finish()
        finally:
            counting.kill()
        await them.assert_everybody_counted_once()


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.timeout(sized(240, 1200) * BUSY)
async def test_everyone_counts_once_in_the_hosted_application(
    address: StoreAddress, services: Services, tmp_path: Path
) -> None:
    """The real one, which judges after a minute."""
    async with reading(address, services, tmp_path, HOSTED_HITS) as them:
        host = them.postroom.start("host")
        waiting = len(them.people.waiting)
        for part in (3, 2, 1):
            await them.until_left(waiting * part // 4)
            them.kill_web()
        await until(lambda: them.people.are_done, them.postroom.logs, PATIENCE)
        if IS_LONG:  # what a killed process held waits for five minutes
            host.kill()
            host.wait()
        else:
            them.postroom.stop(host)
        them.postroom.start("host")
        await them.finish()
        await them.assert_everybody_counted_once()
