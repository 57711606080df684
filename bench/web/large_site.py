"""A store with a million subscribers, a thousand messages and months of history."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.effort import Effort
from postroom.domain.messages.emails import EmailOutcome
from postroom.scheduler.completion import Completion
from postroom.services.audience.growth.growth_history import TABLE
from postroom.services.audience.growth.list_growth import LATEST
from postroom.services.messages.message_contents import NewBodies
from postroom.wiring import Services
from tests.integration.usecases.pages import fan_out_whole, settle
from tests.web.site import running_site
from tests.web.world import FIELDS, LIST, World, furnished

MANY, FEW = 1_000_000, 10_000
FEW_LIST, SMALL_LIST = "ten-thousand", "small"
MESSAGES = 1000
OPEN_MESSAGES = 100
OTHER_LISTS = 40
RECORDS = 3000
SEGMENTS = {"tenth": 'town starts with "Town 1" and plan = "Pro"', "nobody": 'town = "Nowhere"'}
_HEADER = "email,verified,first_name,town,born,plan,topics"
_BODIES = NewBodies("<p>Hello</p>", "Hello")


def member(number: int) -> str:
    """Return the address of a subscriber; both large lists have the same ones."""
    return f"member{number:07}@example.com"


async def filled(folder: Path, effort: Effort) -> World:
    """Fill the store in `folder`; the site itself is closed again when this returns."""
    async with running_site(folder) as site:
        world = await furnished(site)
        services = site.services
        await _subscribers(services, effort)
        await _done_messages(services, effort.size(MESSAGES - OPEN_MESSAGES))
        for number in range(OPEN_MESSAGES - 1):
            at = datetime.now(UTC) + timedelta(hours=1 + number)
            await services.messages.create(SMALL_LIST, f"To come {number}", _BODIES, at)
        large = await services.messages.create(LIST, "To a million", _BODIES, datetime.now(UTC))
        world.names["running"] = (await fan_out_whole(services.store, large.ref)).ref
        await _history(services, effort.size(RECORDS))
        # The list has grown since it was counted last, which is known only after a while.
        await services.store.table(TABLE).delete(LATEST, LIST)
        await services.growth.count_due()
        return world


def _line(number: int) -> str:
    """Return a line with five fields whose cells repeat realistically."""
    born = f"{1950 + number % 50}-{number % 9 + 1:02}-{number % 28 + 1:02}"
    plan, topics = ("Pro", "Art|Music") if number % 3 else ("Free", "Art")
    person = f"Name{number % 20_000},Town {number % 300}"
    return f"{member(number)},true,{person},{born},{plan},{topics}"


async def _subscribers(services: Services, effort: Effort) -> None:
    await services.lists.create(FEW_LIST, "Ten thousand", "few@example.com")
    await services.fields.declare(FEW_LIST, FIELDS)
    for name, count in ((LIST, effort.size(MANY)), (FEW_LIST, effort.size(FEW))):
        file = io.BytesIO("\n".join([_HEADER, *map(_line, range(count))]).encode())
        report = await services.imports.import_csv(name, file)
        assert (report.added, report.ignored_columns) == (count, []), report
        for segment, rule in SEGMENTS.items():
            await services.segments.create(name, segment, rule)
    for number in range(OTHER_LISTS):
        await services.lists.create(f"list-{number:02}", f"List {number}", "other@example.com")


async def _done_messages(services: Services, count: int) -> None:
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


async def _history(services: Services, count: int) -> None:
    """Write what people and the system did over some weeks."""
    for number in range(count):
        at = datetime.now(UTC) - timedelta(minutes=10 * number)
        await services.events.record("scheduler", f"Message {number} sent", at=at)
        await services.audit.record("ann@example.org", "edited a subscriber", f"{number}")
