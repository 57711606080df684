"""`/r/TOKEN/N` with personal links, called by wrk, in turns with a bare redirect."""

from __future__ import annotations

import asyncio
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.effort import Effort
from bench.figures import Figure
from bench.web.calling import Turn, call
from bench.web.servers import POSTROOM, serving
from postroom.domain.messages.tracking import Track
from postroom.encryption import Keyring, load_secret_key
from postroom.scheduler.fan_out import FanOut
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending_options import SendingOptions
from postroom.storage import open_store
from postroom.wiring import Services

ROUNDS = 3
PEOPLE = 500
LIST = "news"
_HTML = "".join(f'<a href="https://www.example.com/{each}">Read</a>' for each in range(4))


def figures(folder: Path, effort: Effort) -> list[Figure]:
    data = folder / "data"
    paths = asyncio.run(_prepare(folder, data))
    store = f"sqlite:///{folder}/store.db"
    ours: list[Turn] = []
    bare: list[Turn] = []
    with (
        serving([str(POSTROOM), "web", "--store", store, "--port"], folder, data) as server,
        serving([sys.executable, "-m", "bench.web.bare_redirect"], folder, data) as plain,
    ):
        for _ in range(effort.size(ROUNDS, 1) + 1):  # the first one warms up
            for kept, called in ((bare, plain), (ours, server)):
                kept.append(call(called, "/", "hits.lua", {"PATHS": " ".join(paths)}))
    rate, bare_rate = (statistics.median(t.rate for t in turns[1:]) for turns in (ours, bare))
    baseline = "bare Starlette redirect"
    return [
        Figure("GET /r/TOKEN/N", rate, "hits/s", bare_rate, baseline, 0.4),
        Figure("GET /r/TOKEN/N", rate, "hits/s", target=2000, target_on="value"),
    ]


async def _prepare(folder: Path, data: Path) -> list[str]:
    """Queue a personal message; return links of many people."""
    keyring = Keyring(lambda: [load_secret_key("", data)])
    async with await open_store(f"sqlite:///{folder}/store.db") as store:
        services = Services(store, keyring)
        await services.lists.create(LIST, "News", "news@example.com")
        rows = services.subscriptions.rows
        guids = []
        for number in range(PEOPLE):
            new = await services.subscriptions.add(LIST, f"u{number}@example.com", verified=True)
            await rows.save(new, msgspec.structs.replace(new, tracking=True), new.etag)
            guids.append(new.guid)
        now, html = datetime.now(UTC), NewBodies(_HTML)
        message = await services.messages.create(
            LIST, "News", html, now, options=SendingOptions(track=Track.PERSONAL)
        )
        message = await FanOut(services).begin(message)
        await services.link_tables.tracking(message, _HTML, "https://lists.example.com")
        tokens = services.link_tables.tokens.of_message(message.ref)
        return [
            f"/r/{tokens.token(guid, agreed=True)}/{number % 4 + 1}"
            for number, guid in enumerate(guids)
        ]
