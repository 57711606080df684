"""How long pages take with a million subscribers and a thousand messages."""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.effort import Effort
from bench.figures import Figure
from postroom.domain.messages.emails import EmailOutcome
from postroom.scheduler.completion import Completion
from postroom.services.audience.growth_history import TABLE
from postroom.services.audience.list_growth import LATEST
from postroom.services.messages.message_contents import NewBodies
from postroom.web.app import VIEWS
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.web.site import Site, Visitor, running_site
from tests.web.world import LIST, World, furnished, shown_pages

MANY, FEW = 1_000_000, 10_000
MESSAGES = 1000
OPEN_MESSAGES = 100
BATCHES = 3  # the quickest counts: what else runs on the machine is no page's fault
ROUNDS = 20
INDEX_ROUNDS = 60
PAGE_P95 = 100.0  # milliseconds
FEW_LIST, SMALL_LIST = "ten-thousand", "small"
_SHOWN = 5
_BODIES = NewBodies("<p>Hello</p>", "Hello")


@dataclass(frozen=True)
class Times:
    """Of one address, in milliseconds."""

    address: str
    p95: float
    processor: float


async def figures(folder: Path, effort: Effort) -> list[Figure]:
    async with running_site(folder) as site:
        world = await furnished(site)
        await _fill(world, effort)
        return [*await _indexes(world), *await _every_page(world)]


# -- what there is --------------------------------------------------------------------------------


async def _fill(world: World, effort: Effort) -> None:
    services = world.site.services
    await services.lists.create(FEW_LIST, "Ten thousand", "few@example.com")
    for name, count in ((LIST, effort.size(MANY)), (FEW_LIST, effort.size(FEW))):
        lines = (f"member{number:07}@example.com,true" for number in range(count))
        file = io.BytesIO("\n".join(["email,verified", *lines]).encode())
        report = await services.imports.import_csv(name, file)
        assert report.added == count, report
    await _done_messages(world.site, effort.size(MESSAGES - OPEN_MESSAGES))
    for number in range(OPEN_MESSAGES - 1):
        at = datetime.now(UTC) + timedelta(hours=1 + number)
        await services.messages.create(SMALL_LIST, f"To come {number}", _BODIES, at)
    large = await services.messages.create(LIST, "To a million", _BODIES, datetime.now(UTC))
    world.names["running"] = (await fan_out_whole(services.store, large.ref)).ref
    # The list has grown since it was counted last, which is known only after a while.
    await services.store.table(TABLE).delete(LATEST, LIST)
    await services.growth.count_due()


async def _done_messages(site: Site, count: int) -> None:
    services = site.services
    await services.lists.create(SMALL_LIST, "Small", "small@example.com")
    for number in range(3):
        await services.subscriptions.add(SMALL_LIST, f"reader{number}@example.com", verified=True)
    completion = Completion(services)
    for number in range(count):
        made = await services.messages.create(
            SMALL_LIST, f"Number {number}", _BODIES, datetime.now(UTC)
        )
        message = await fan_out_whole(services.store, made.ref)
        await settle(services, message, 0, [EmailOutcome.ACCEPTED] * 3)
        assert await completion.check(message)


# -- what is measured -----------------------------------------------------------------------------


async def _time(visitor: Visitor, address: str) -> tuple[float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    response = await visitor.get(address)
    spent = time.perf_counter() - clock, time.process_time() - processor
    assert response.status_code < 500, (address, response.status_code)
    return spent[0] * 1000, spent[1] * 1000


async def _indexes(world: World) -> list[Figure]:
    """The subscribers of a large list and of a small one, in turns."""
    found = []
    for what, query in (
        ("subscriber index", ""),
        ("subscriber index, search by prefix", "?q=member0005"),
        ("subscriber index, verified only", "?state=verified"),
        ("subscriber index, blocked only (hardly anybody)", "?state=blocked"),
        ("subscriber index, to be sorted (which only the short one is)", "?sort=-since"),
    ):
        times: dict[str, list[float]] = {LIST: [], FEW_LIST: []}
        for _ in range(INDEX_ROUNDS):
            for name, kept in times.items():
                kept.append((await _time(world.admin, f"/lists/{name}/subscribers{query}"))[0])
        found.append(
            Figure(
                f"{what} of {MANY:,}",
                statistics.median(times[LIST]),
                "ms",
                statistics.median(times[FEW_LIST]),
                f"of {FEW:,}",
                1.5,
                target_is="at most",
            )
        )
    return found


async def _every_page(world: World) -> list[Figure]:
    """The slowest of the administrator's pages; those before the last are only shown."""
    slowest = sorted([await _page(world, each) for each in _addresses(world)], key=lambda t: t.p95)
    figures = []
    for times in slowest[-_SHOWN:]:
        figures += [
            Figure(f"{_shape(times.address, world)}, 95th of 100", times.p95, "ms",
                   target=PAGE_P95, target_on="value", target_is="at most"),
            Figure("the same, processor time, median", times.processor, "ms"),
        ]  # fmt: skip
    middle = statistics.median(times.p95 for times in slowest)
    what = f"the {len(slowest)} pages of administrators, the middle one's 95th of 100"
    return [Figure(what, middle, "ms"), *figures]


async def _page(world: World, address: str) -> Times:
    await world.admin.get(address)
    found = []
    for _ in range(BATCHES):
        spent = [await _time(world.admin, address) for _ in range(ROUNDS)]
        clock = sorted(each[0] for each in spent)
        processor = statistics.median(each[1] for each in spent)
        found.append(Times(address, clock[int(0.95 * ROUNDS)], processor))
    return min(found, key=lambda times: times.p95)


def _addresses(world: World) -> Iterator[str]:
    roles = {page.path: page.role for page in VIEWS if "GET" in page.methods}
    for path in shown_pages():
        if roles[path] is not None:
            yield from world.addresses(path)
    # As many rows as are sorted at all, and as many messages as there are.
    yield f"/lists/{FEW_LIST}/subscribers?sort=-since"
    yield "/messages/sent?sort=-accepted"


def _shape(address: str, world: World) -> str:
    """The address without what is different in each run."""
    for name in ("running", "done", "pending", "paused", "cancelled", "run", "mail"):
        address = address.replace(world.names[name], f"{{{name}}}")
    return address
