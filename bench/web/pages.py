"""How long every page takes with a million subscribers, over HTTP."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2

from bench.effort import Effort
from bench.figures import Figure
from bench.web import drafts
from bench.web.large_site import FEW, FEW_LIST, MANY, SEGMENTS, filled, member
from bench.web.servers import POSTROOM, serving
from postroom.web.app import VIEWS
from postroom.web.requests.cookies import cookies_at
from tests.services.waiting import LOOPBACK
from tests.web.world import LIST, World, shown_pages

BATCHES = 5  # the quickest counts: what else runs on the machine is no page's fault
REQUESTS = 20  # of each batch
INDEX_ROUNDS = 60
PAGE_P95 = 100.0  # milliseconds
_SHOWN = 12
_COLUMNS = "first_name,town,born,plan,topics"


@dataclass(frozen=True)
class Times:
    """The response times of one page, in milliseconds."""

    address: str
    median: float
    p95: float


async def figures(folder: Path, effort: Effort) -> list[Figure]:
    world = await filled(folder, effort)
    command = [str(POSTROOM), "web", "--port"]
    with ExitStack() as stack:
        server = stack.enter_context(serving(command, folder, folder / "data"))
        url = f"http://{LOOPBACK}:{server.port}"
        cookies = {cookies_at(url).session: world.admin.session}
        client = stack.enter_context(httpx2.Client(base_url=url, cookies=cookies, timeout=60))
        slowest = _all_times(client, list(_addresses(world, effort)), effort)
        return [*_pages(slowest, world), *_indexes(client), *drafts.figures(client)]


def _addresses(world: World, effort: Effort) -> Iterator[str]:
    """Yield every page that requires a login, and the most expensive searches."""
    roles = {page.path: page.role for page in VIEWS if "GET" in page.methods}
    for path in shown_pages():
        if roles[path] is not None:
            yield from world.addresses(path)
    middle = member(effort.size(MANY) // 2)
    yield f"/lists/{LIST}/subscribers/{middle}"
    yield f"/lists/{LIST}/subscribers?state=blocked"
    for segment in SEGMENTS:
        yield f"/lists/{LIST}/subscribers?segment={segment}&columns={_COLUMNS}"
    yield f"/trace?email={middle}"
    yield f"/messages/{world.names['running']}/emails?q={middle}"
    for text in ("member", middle, "number 5", "example.com"):
        yield f"/search?q={text}"
    # As many rows as are sorted at all, and as many messages as there are.
    yield f"/lists/{FEW_LIST}/subscribers?sort=-since"
    yield "/messages/sent?sort=-accepted"


def _all_times(client: httpx2.Client, addresses: list[str], effort: Effort) -> list[Times]:
    """Return the times of each page in its quickest batch, the slowest page first.

    Batches of a page are minutes apart, so that a busy minute of the machine does not matter.
    """
    found: dict[str, list[Times]] = {each: [] for each in addresses}
    for _ in range(effort.size(BATCHES, 2)):
        for address, batches in found.items():
            batches.append(_batch(client, address))
    quickest = [min(batches, key=lambda times: times.p95) for batches in found.values()]
    return sorted(quickest, key=lambda times: -times.p95)


def _batch(client: httpx2.Client, address: str) -> Times:
    _get(client, address)  # from now on, its data is in memory
    spent = sorted(_get(client, address) for _ in range(REQUESTS))
    return Times(address, statistics.median(spent), spent[int(0.95 * REQUESTS)])


def _get(client: httpx2.Client, address: str) -> float:
    begin = time.perf_counter()
    response = client.get(address)
    spent = time.perf_counter() - begin
    assert response.status_code < 500, (address, response.status_code)
    assert not response.headers.get("location", "").startswith("/login"), address
    return spent * 1000


def _pages(slowest: list[Times], world: World) -> list[Figure]:
    """Return the slowest pages, and the median of all."""
    shown = [
        Figure(_shape(each.address, world), each.p95, "ms", each.median, "median",
               PAGE_P95, target_on="value", target_is="at most")
        for each in slowest[:_SHOWN]
    ]  # fmt: skip
    middle = slowest[len(slowest) // 2]
    what = f"median of all {len(slowest)} pages"
    return [*shown, Figure(what, middle.p95, "ms", middle.median, "median")]


def _indexes(client: httpx2.Client) -> list[Figure]:
    """Return the times of the subscriber index of a large list and of a small one, in turns."""
    found = []
    for what, query in (
        ("subscriber index", ""),
        ("subscriber index, search by prefix", "?q=member0005"),
        ("subscriber index with the values of fields", f"?columns={_COLUMNS}"),
        ("subscriber index, a segment", f"?segment=tenth&columns={_COLUMNS}"),
        ("subscriber index, confirmed only", "?state=verified"),
        ("subscriber index, blocked only (very few)", "?state=blocked"),
        ("subscriber index, sorted (only the short list is)", "?sort=-since"),
    ):
        times: dict[str, list[float]] = {LIST: [], FEW_LIST: []}
        for _ in range(INDEX_ROUNDS):
            for name, kept in times.items():
                kept.append(_get(client, f"/lists/{name}/subscribers{query}"))
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


def _shape(address: str, world: World) -> str:
    """Return the address without the parts that differ in each run."""
    for name in ("running", "done", "pending", "paused", "cancelled", "run", "mail"):
        address = address.replace(world.names[name], f"{{{name}}}")
    return f"`{address}`"
