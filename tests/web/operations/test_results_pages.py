"""Results over time: the same numbers in page, file, API and command, only of lists that somebody
may view."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest

from postroom import clock
from postroom.cli.support import output
from postroom.domain.audience.addresses import Address
from postroom.domain.audience.lists.list_rights import ListRight
from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind, BounceSource
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.services.accounts.users import Role
from postroom.services.audience.growth.list_movements import Movement
from postroom.services.audience.results.engagement import Engagement, HourFigure
from postroom.services.messages.message_contents import NewBodies
from postroom.services.resources.results_over_time import describe_results_over_time
from postroom.web.admin.operations.results import chart_of, movements_of, week_of
from postroom.wiring import Services
from tests.integration.usecases.pages import sent_message
from tests.services.postroom import CommandLine
from tests.web.site import Site
from tests.web.test_list_rights import member

NEWS, SHOP = ListName("news"), ListName("shop")
MONDAY_AT_NINE = datetime(2026, 11, 9, 9, tzinfo=UTC)


@pytest.fixture
async def services(site: Site) -> Services:
    for name in (NEWS, SHOP):
        await site.services.lists.create(name, name.title(), f"{name}@contoso.example")
        for number in range(10):
            await site.services.subscriptions.add(name, f"u{number}@example.com", verified=True)
    return site.services


async def sent(services: Services, name: ListName, days: int, opened: int | None) -> Message:
    track = Track.OFF if opened is None else Track.AGGREGATE
    outcomes = [EmailOutcome.ACCEPTED] * 10
    at = clock.now() - timedelta(days=days)
    message = await sent_message(services, name, NewBodies("<p>Hello</p>"), outcomes, at, track)
    if opened is not None:
        hour = MONDAY_AT_NINE.strftime("%Y-%m-%dT%H")
        sums = Engagement(opened, 0, 0, 1, hours={hour: HourFigure(opened, 1)})
        await services.engagement.add(message.ref, "one", sums)
    return message


async def test_page_file_api_and_command_show_the_same_numbers(
    site: Site, services: Services, tmp_path: Path
) -> None:
    refs = [(await sent(services, NEWS, 3 - number, 2 * number)).ref for number in range(3)]
    unmeasured = await sent(services, SHOP, 0, None)
    await report(services, unmeasured)
    for name in (NEWS, SHOP):
        await services.movements.count(name)
    expected = output.builtins(describe_results_over_time(await services.results_over_time.read()))
    assert [each["ref"] for each in expected["messages"]] == [unmeasured.ref, *reversed(refs)]
    assert expected["medians"]["opened"] == 20.0, "what was not measured counts for nothing"
    assert expected["hours"] == [{"weekday": 1, "hour": 9, "opened": 6}]
    assert expected["providers"] == [
        {
            "provider": "example.com",
            "accepted": 40,
            "bounced": 2,
            "rejected": 1,
            "complained": 1,
        }
    ]
    assert (expected["moved"]["team"], expected["moved"]["unsubscribed"]) == (20, 0)
    key = (await services.keys.create("of the test")).secret
    headers = {"Authorization": f"Bearer {key}"}
    answer = await site.visitor().http.get("/api/v1/results", headers=headers)
    assert answer.json() == expected
    cli = CommandLine(tmp_path, {"POSTROOM_DATA": str(tmp_path / "data")})
    assert await asyncio.to_thread(cli.json, "results") == expected
    printed = [
        " ".join(line.split()) for line in (await asyncio.to_thread(cli.ok, "results")).splitlines()
    ]
    assert printed[0].startswith("In the last 90 days, 20 joined: 0 with a form, 0 imported")
    assert "median 0.00% 0.00% 0.00% 20.00% 10.00%" in printed
    assert "example.com 40 2 1 1" in printed
    user = await site.user(Role.VIEWER)
    rows = list(csv.DictReader((await user.get("/results.csv")).text.splitlines()))
    assert [row["ref"] for row in rows] == [each["ref"] for each in expected["messages"]]
    assert [row["opened"] for row in rows] == ["", "4", "2", "0"]
    for each in ("accepted", "delivered", "bounced", "complained", "unsubscribed"):
        assert [row[each] for row in rows] == [str(sent[each]) for sent in expected["messages"]]
    assert [row["opened_percent"] for row in rows] == ["", "40.0", "20.0", "0.0"]
    page = unescape((await user.get("/results")).text)
    cells = re.findall(r'data-label="opened">([^<]+)<', page)
    assert cells == ["20.0%", "–", "40.0%", "20.0%", "0.0%"]
    assert "Mon 09:00: 6 opened" in page
    assert "20 joined: 0 with a form, 0 imported, 0 through the API, 20 by hand" in page
    assert re.findall(r'data-label="rejected">([0-9]+)<', page) == ["1"]
    assert re.findall(r'data-label="accepted">([0-9]+)<', page)[-1] == "40"


async def test_charts_leave_out_messages_whose_opens_are_still_arriving(
    site: Site, services: Services
) -> None:
    for _ in range(2):
        await sent(services, NEWS, 0, 2)
    found = await services.results_over_time.read()
    assert chart_of(found, clock.now()) == ""
    assert json.loads(chart_of(found, clock.now() + timedelta(days=1)))["opened"] == [20.0, 20.0]
    assert "data-rates" not in (await (await site.user(Role.VIEWER)).get("/results")).text


async def report(services: Services, message: Message) -> None:
    """Let two emails bounce, one of them rejected, and a third be marked as spam."""
    kinds = (BounceKind.GONE, BounceKind.POLICY, BounceKind.COMPLAINT)
    for number, kind in enumerate(kinds):
        await services.suppressions.record(
            Bounce(
                kind,
                f"event {number}",
                BounceSource.SMTP,
                clock.now(),
                message.list_name,
                address=Address(f"u{number}@example.com"),
                ref=message.ref,
                diagnostic="550 no",
                status="5.1.1",
                by_code=True,
            )
        )
    await services.delivery_figures.count(message)


async def test_a_list_can_be_chosen(site: Site, services: Services) -> None:
    await sent(services, NEWS, 1, 3)
    ours = await sent(services, SHOP, 2, 5)
    found = await services.results_over_time.read(SHOP)
    assert [each.message.ref for each in found.messages] == [ours.ref]
    user = await site.user(Role.VIEWER)
    page = (await user.get("/results?list=shop")).text
    assert f'href="/messages/{ours.ref}"' in page
    assert page.count('href="/messages/6') == 1
    assert 'href="/results.csv?list=shop"' in page
    assert (await user.get("/results?list=nope")).status_code == 404


async def test_lists_outside_a_users_rights_do_not_exist(site: Site, services: Services) -> None:
    theirs = await sent(services, NEWS, 1, 3)
    ours = await sent(services, SHOP, 2, 5)
    visitor = await member(site, SHOP, frozenset({ListRight.VIEW}))
    page = (await visitor.get("/results")).text
    assert ours.ref in page
    assert theirs.ref not in page
    assert "<option>news" not in page
    assert theirs.ref not in (await visitor.get("/results.csv")).text
    for path in ("/results?list=news", "/results.csv?list=news"):
        assert (await visitor.get(path)).status_code == 404


async def test_the_page_is_shown_without_any_messages(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    assert "No results yet" in (await user.get("/results")).text
    assert len((await user.get("/results.csv")).text.splitlines()) == 1
    found = await site.services.results_over_time.read()
    assert (found.best_hour, week_of(found)) == (None, [])


async def test_the_last_fifty_messages_are_shown(services: Services) -> None:
    for number in range(52):
        await sent(services, NEWS, number + 1, None)
    found = (await services.results_over_time.read()).messages
    assert len(found) == 50
    times = [each.message.due_at for each in found]
    assert times == sorted(times, reverse=True)


def test_weeks_with_nobody_have_a_place_between_the_others() -> None:
    found = movements_of(
        {
            "2026-11-04": Movement(form=3),
            "2026-11-08": Movement(imported=1, unsubscribed=1),
            "2026-11-16": Movement(removed=2),
        }
    )
    assert found is not None
    shown = [(bar.begins, bar.joined, bar.left) for bar in found.bars]
    assert shown == [("2 Nov 2026", 4, 1), ("9 Nov 2026", 0, 0), ("16 Nov 2026", 0, 2)]
    assert (found.bars[0].y, found.axis, found.bars[2].depth) == (0.0, 80.0, 40.0)
    assert movements_of({}) is None
    assert movements_of({"2026-11-16": Movement()}) is None


async def test_the_page_says_how_people_joined(site: Site, services: Services) -> None:
    for name in (NEWS, SHOP):
        await services.movements.count(name)
    user = await site.user(Role.VIEWER)
    assert "20 joined: 0 with a form" in (await user.get("/results")).text
    assert "10 joined: 0 with a form" in (await user.get("/results?list=news")).text
    visitor = await member(site, SHOP, frozenset({ListRight.VIEW}))
    assert "10 joined: 0 with a form" in (await visitor.get("/results")).text
