"""A dry run reports what the import then does, and writes nothing."""

from __future__ import annotations

import io
import random
import zipfile
from typing import Any

import msgspec
import pytest

from postroom.domain.audience.fields import Field
from postroom.services.audience.files import reading_ahead
from postroom.services.audience.files.import_report import Existing, ImportReport
from postroom.storage import Store
from postroom.wiring import Services
from tests.integration.usecases.audience.imports.test_other_tools import EXPORTS, mailchimp
from tests.integration.usecases.making import make_list

STATES = ("", "confirmed", "pending", "unsubscribed", "cleaned", "blocklisted", "nonsense")
SEEDS = range(25)


@pytest.fixture(params=["sqlite"])  # nothing here depends on the engine
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def figures(report: ImportReport) -> dict[str, Any]:
    return {
        name: value
        for name, value in msgspec.structs.asdict(report).items()
        if name not in ("dry_run", "columns")
    }


async def check_both(services: Services, data: bytes, **options: Any) -> ImportReport:
    before = await everything(services.store)
    planned = await services.imports.import_csv("news", io.BytesIO(data), dry_run=True, **options)
    assert await everything(services.store) == before
    real = await services.imports.import_csv("news", io.BytesIO(data), **options)
    assert figures(planned) == figures(real)
    return real


async def everything(store: Store) -> list[tuple[str, str, str, str]]:
    return [
        (table, each.partition, each.row, each.etag)
        for table in ("mailinglist", "departed", "suppression", "suppressionindex", "subscriberid")
        async for each in store.table(table).scan()
    ]


async def test_an_address_in_several_files_of_an_archive_counts_once(services: Services) -> None:
    await make_list(services, "news")
    report = await check_both(services, mailchimp(5))
    assert (report.added, report.confirmed, report.unchanged) == (10, 5, 1)


@pytest.mark.parametrize(("tool", "header", "active", "gone", "blocked"), EXPORTS)
async def test_every_tools_export_is_reported_as_it_is_imported(
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    header: str,
    active: str,
    gone: str,
    blocked: str,
) -> None:
    monkeypatch.setattr(reading_ahead, "CHUNK_LINES", 2)
    await make_list(services, "news")
    people = ((active, "ann"), (gone, "bob"), (blocked, "cid"), (active, "dan"), (active, "bob"))
    lines = [line.format(f"{name}@b.org") for line, name in (*people, *people) if line]
    report = await check_both(services, "\n".join((header, *lines)).encode())
    assert (report.tool, report.lines) == (tool, len(lines))


@pytest.mark.parametrize("seed", SEEDS)
async def test_any_lines_in_any_order_are_reported_as_they_are_imported(
    services: Services, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(reading_ahead, "CHUNK_LINES", draw.choice((1, 2, 5, 1000)))
    await make_list(services, "news")
    names = ["ann", "Ann", "bob", "cid", "dan", "eve", "no address"]
    for name in ("bob", "cid"):
        await services.subscriptions.add("news", f"{name}@b.org", verified=draw.random() < 0.5)
    await services.fields.declare("news", [Field("city", required=draw.random() < 0.3)])
    if draw.random() < 0.5:
        await services.suppressions.suppress("dan@b.org", "request", source="api")

    def line() -> str:
        cells = (
            f"{draw.choice(names)}@b.org",
            draw.choice(STATES),
            draw.choice(("", "Bern", "Ulm")),
        )
        return ",".join((*cells, draw.choice(("", "true", "false")), draw.choice(("", "", "why"))))

    def file() -> str:
        lines = (line() for _ in range(draw.randint(1, 12)))
        return "\n".join(("email,status,city,verified,blocked", *lines))

    data = file().encode()
    if draw.random() < 0.6:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for name in ("cleaned.csv", "unsubscribed.csv", "subscribed.csv", "other.csv"):
                archive.writestr(name, file())
        data = made.getvalue()
    await check_both(
        services,
        data,
        verified=draw.random() < 0.5,
        even_unsubscribed=draw.random() < 0.5,
        existing=draw.choice(list(Existing)),
        create_fields=draw.random() < 0.5,
        on_every_list=draw.random() < 0.5,
    )
