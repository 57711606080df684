"""`kill -9` in the middle of a message: who is skipped, who gets two emails, and are they
marked?"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass

from bench.listmonk.installation import Installation
from bench.mail import content, pipeline
from postroom.domain.messages.messages import FINAL
from postroom.storage import open_store
from postroom.wiring import Services
from tests.services.mail.recording_smtp import RecordingSmtp

_HALF_SECONDS, _FINISH_SECONDS = 300.0, 600.0
_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Toll:
    """How many recipients a kill has affected, according to the mail server.

    `marked`: how many the product itself marks as possible duplicates. `silent`: how many got two
    without a mark.
    """

    skipped: int
    duplicated: int
    marked: int
    silent: int


def toll(copies: Counter[str], recipients: int, marked: Set[str]) -> Toll:
    """Compare what the mail server received with the list. For `marked`, see `Toll`."""
    wanted = {content.address(number) for number in range(recipients)}
    assert copies.keys() <= wanted, "mail to strangers"
    duplicated = {address for address, number in copies.items() if number > 1}
    return Toll(
        skipped=len(wanted - copies.keys()),
        duplicated=len(duplicated),
        marked=len(marked),
        silent=len(duplicated - marked),
    )


async def kill_postroom(setup: pipeline.Setup, server: RecordingSmtp, recipients: int) -> Toll:
    """Kill scheduler and sender when half of the emails have arrived, and start them again."""
    async with await open_store(setup.store_url) as store:
        services = Services(store)
        await pipeline.fill(services, recipients)
        with setup.running(pipeline.SEPARATE) as processes:
            message = await pipeline.schedule(services, 2)
            await asyncio.to_thread(_wait_for, lambda: server.copies().total() >= recipients // 2)
            for process in processes:
                process.send_signal(signal.SIGKILL)
            for process in processes:
                process.wait()
        with setup.running(pipeline.SEPARATE):
            async with asyncio.timeout(_FINISH_SECONDS):
                while message.status not in FINAL:
                    await asyncio.sleep(_LOOK_SECONDS)
                    message = await services.messages.get(message.ref)
        emails = services.outcomes.emails(message)
        marked = {each.address async for each in emails if each.was_in_doubt}
    return toll(server.copies(), recipients, marked)


def kill_listmonk(installation: Installation, server: RecordingSmtp, recipients: int) -> Toll:
    """Do the same to the campaign of `installation`. listmonk marks nothing."""
    with installation.running() as process:
        _wait_for(lambda: server.copies().total() >= recipients // 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with installation.running() as process:
        installation.wait_until_finished(process, _FINISH_SECONDS)
        _wait_until_quiet(server)
    return toll(server.copies(), recipients, marked=set())


def _wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _HALF_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError("half of the emails did not arrive")
        time.sleep(_LOOK_SECONDS)


def _wait_until_quiet(server: RecordingSmtp, seconds: float = 5.0) -> None:
    """Wait until nothing more arrives: listmonk reports the end before its last email."""
    total, since = -1, time.monotonic()
    while time.monotonic() - since < seconds:
        if (now := server.copies().total()) != total:
            total, since = now, time.monotonic()
        time.sleep(_LOOK_SECONDS)
