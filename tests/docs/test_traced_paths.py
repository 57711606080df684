"""What runs when someone signs up, and when a message is sent, is what the documentation traces.

The web server, the scheduler and the senders run in the event loop of the test, so that every
function they enter is recorded. What the host does is left out: it starts other processes.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType

import httpx2
import pytest

from postroom.domain.messages.messages import MessageStatus
from postroom.watchdog import WatchedPart
from postroom.wiring.opening import opened_shared_transport
from postroom.wiring.processes import make_confirmations, make_scheduler, make_sender
from tests.docs.paths import SOURCE, Hop, traced_paths
from tests.integration.usecases.making import fill, make_list
from tests.services.waiting import until
from tests.web.site import Site, running_site

_IN_OTHER_PROCESSES = ("host/", "hosted.py", "watchdog.py")
_ONLY_IF_OLD = "Leases.renew"
_ENGINES = {"storage/contract/store.py": "storage/", "transport/contract.py": "transport/"}
"""Where the methods are that these contracts declare."""


class Recording:
    """The functions of Postroom that were entered, in this order."""

    def __init__(self) -> None:
        self.entered: list[tuple[str, str]] = []

    def note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{SOURCE}/"):
            self.entered.append((code.co_filename[len(f"{SOURCE}/") :], code.co_qualname))

    async def has(self, function: str) -> bool:
        return any(name == function for _, name in self.entered)

    def check(self, hops: list[Hop]) -> None:
        """The hops were taken, in their order; other functions may be in between."""
        entered = iter(self.entered)
        for hop in hops:
            if not hop.file.startswith(_IN_OTHER_PROCESSES) and hop.function != _ONLY_IF_OLD:
                assert any(_is_taken(hop, *each) for each in entered), f"{hop}: not in this order"


def _is_taken(hop: Hop, file: str, name: str) -> bool:
    if (folder := _ENGINES.get(hop.file)) is not None:
        return file.startswith(folder) and name.endswith(f".{hop.function.partition('.')[2]}")
    return file == hop.file and name.split(".<locals>")[0] == hop.function


@contextmanager
def recording() -> Iterator[Recording]:
    recorded = Recording()
    sys.setprofile(recorded.note)
    try:
        yield recorded
    finally:
        sys.setprofile(None)


@asynccontextmanager
async def running(part: WatchedPart) -> AsyncIterator[None]:
    """A scheduler or sender, until the block ends."""
    stopping = asyncio.Event()
    task = asyncio.create_task(part.run(stopping))
    try:
        yield
    finally:
        stopping.set()
        await task


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running_site(tmp_path, {"rate_per_domain": "*=1000"}) as found:
        await fill(found.services.store, await make_list(found.services), 3)
        yield found


@pytest.fixture
async def program(site: Site) -> AsyncIterator[httpx2.AsyncClient]:
    """A program with an API key."""
    key = (await site.services.keys.create("of the tests")).secret
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "once"}
    async with httpx2.AsyncClient(
        base_url=f"{site.url}/api/v1", headers=headers, verify=False
    ) as client:
        yield client


async def test_a_sign_up_takes_the_hops_of_its_path(
    site: Site, program: httpx2.AsyncClient
) -> None:
    services, settings = site.services, site.context.settings
    queue = services.store.queue("mail/confirm")

    async def is_confirmation_sent() -> bool:
        return (await queue.info()).length == 0

    async with opened_shared_transport(services, settings) as transport:
        confirmations = make_confirmations(services, transport, settings)
        with recording() as recorded:
            signed_up = {"email": "ann@example.com", "list": "contoso1"}
            response = await program.post("/subscribe", json=signed_up)
            assert response.status_code == 202, response.text
            async with running(confirmations):
                await until(is_confirmation_sent, "the confirmation email is sent")
    recorded.check(traced_paths()[0].hops)


async def test_a_message_takes_the_hops_of_its_path(
    site: Site, program: httpx2.AsyncClient
) -> None:
    services, settings = site.services, site.context.settings
    web, message = (path.hops for path in traced_paths()[:2])
    async with opened_shared_transport(services, settings) as transport:
        sender = make_sender(services, transport, settings)
        with recording() as recorded:
            new = {"list": "contoso1", "subject": "News", "body": "<p>Hello {{ email }}</p>"}
            response = await program.post("/messages", json=new)
            assert response.status_code == 201, response.text
            ref = response.json()["ref"]

            async def is_queued() -> bool:
                return await recorded.has("Scheduler._watch")

            async def is_archived() -> bool:
                status = (await services.messages.get(ref)).status
                is_open = any(
                    [each.ref == ref async for each in services.message_rows.open_messages()]
                )
                return status is MessageStatus.COMPLETED and not is_open

            async with running(make_scheduler(services, settings)):
                await until(is_queued, "all pages are queued")
                async with running(sender):
                    await until(is_archived, "the message is archived")
    recorded.check(web[: message[0].number - 1] + message)
