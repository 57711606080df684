"""What a message costs apart from sending its emails: fan-out, claims and settling, without a mail
server."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from bench.effort import Effort
from bench.figures import Figure
from bench.mail import pipeline
from postroom import clock
from postroom.domain.messages.pages import PAGE_SIZE, SEND_QUEUE, parse_work_item
from postroom.sender.pages.claims import Claims
from postroom.sender.pages.settler import Settler
from postroom.sender.pages.settling import settled
from postroom.sender.policy import Judge, RetryPlan, WhenInDoubt
from postroom.sender.sender_settings import SenderSettings
from postroom.services.messages.sending.holds import Holds
from postroom.services.messages.sending.page_rows import Page
from postroom.storage import QueueMessage, Store
from postroom.transport.contract import Result, ResultKind
from postroom.wiring import Services
from tests.integration.usecases.pages import fan_out_whole

RECIPIENTS = 100_000
TARGET = 200_000.0  # emails per second
_ACCEPTED = Result(ResultKind.ACCEPTED, "250 2.0.0 Ok")


class RawPages(Protocol):
    """The same with the driver alone, and without any work on the emails of a page."""

    def plan_pages(self, count: int) -> None: ...
    def settle_pages(self) -> int: ...
    def close(self) -> None: ...


async def figures(
    make: Callable[[], Awaitable[Store]],
    make_raw: Callable[[], RawPages],
    raw_is: str,
    effort: Effort,
    target: float | None = None,
) -> list[Figure]:
    """Measure fan-out, then claiming and settling, in turns with the raw driver."""
    recipients = effort.size(RECIPIENTS, 2000)
    ours, raw = [], []
    for _ in range(effort.turns):
        raw.append(_raw_turn(make_raw(), recipients // PAGE_SIZE))
        ours.append(await _turn(make, recipients))
    fan_out, settling, raw_fan_out, raw_settling = (
        recipients / statistics.median(times)
        for turns in (ours, raw)
        for times in zip(*turns, strict=True)
    )
    return [
        Figure("bookkeeping: fan-out", fan_out, "emails/s", raw_fan_out, raw_is),
        Figure(
            "bookkeeping: claim and settle",
            settling,
            "emails/s",
            raw_settling,
            raw_is,
            target=target,
            target_on="value",
        ),
    ]


def _raw_turn(raw: RawPages, pages: int) -> tuple[float, float]:
    started = time.perf_counter()
    raw.plan_pages(pages)
    fanned_out = time.perf_counter()
    assert raw.settle_pages() == pages
    ended = time.perf_counter()
    raw.close()
    return fanned_out - started, ended - fanned_out


async def _turn(make: Callable[[], Awaitable[Store]], recipients: int) -> tuple[float, float]:
    """Return the seconds of fan-out, and of claiming and settling."""
    async with await make() as store:
        services = Services(store)
        await pipeline.fill(services, recipients)
        ref = (await pipeline.schedule(services, 2)).ref
        started = time.perf_counter()
        message = await fan_out_whole(store, ref)
        fanned_out = time.perf_counter()
        await settle_all(services)
        ended = time.perf_counter()
        counts = await services.outcomes.counts(message)
        assert counts.accepted == counts.planned == recipients, counts
    return fanned_out - started, ended - fanned_out


async def settle_all(services: Services) -> None:
    """Claim and settle all pages as a sender does, with every email accepted."""
    settings = SenderSettings("http://localhost", Path())
    queue = services.store.queue(SEND_QUEUE)
    claims = Claims(services.pages, "bench", settings.lease)
    settler = Settler(services.store)
    groups: set[asyncio.Task[None]] = set()
    while items := await queue.receive(settings.claim, lease=settings.lease):
        groups.add(asyncio.create_task(_settle(claims, settler, items)))
        if len(groups) * settings.claim >= settings.most_pages:
            done, groups = await asyncio.wait(groups, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    await asyncio.gather(*groups)


async def _settle(claims: Claims, settler: Settler, messages: list[QueueMessage]) -> None:
    items = {parse_work_item(message.body): message for message in messages}
    taken = await claims.take(list(items))
    now = clock.now()
    judge = Judge(now, RetryPlan(), WhenInDoubt.RESEND)
    writes = []
    for item, page in taken.items():
        assert isinstance(page, Page)
        emails = page.emails
        states = {
            place: judge.attempted(_ACCEPTED, emails.state(place)) for place in range(len(emails))
        }
        writes.append(settler.settle(settled(page, states, Holds(), now), page.etag, items[item]))
    await asyncio.gather(*writes)
