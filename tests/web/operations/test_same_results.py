"""People, proxies and programs visit a message, emails bounce, and somebody unsubscribes: its page,
its file, the API and the command, run as a process, show the same numbers."""

from __future__ import annotations

import asyncio
import csv
import re
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from postroom import clock
from postroom.domain.audience.lists.lists import ListName, Subscriber
from postroom.domain.messages.delivery.bounces import Bounce, BounceKind, BounceSource
from postroom.domain.messages.emails import EmailOutcome
from postroom.domain.messages.messages import Message
from postroom.domain.messages.tracking import Track
from postroom.services.messages.message_contents import NewBodies
from tests.integration.usecases.pages import sent_message
from tests.services.postroom import CommandLine
from tests.web.public.test_tracked_links import FIREFOX, GMAIL, count_all
from tests.web.site import Site

NAME = ListName("news")
MANY = 12
TARGETS = [f"https://www.example.com/{number}" for number in range(1, 5)]
HTML = "".join(f'<a href="{each}">Read</a>' for each in TARGETS)
REPORTS = (
    BounceKind.GONE,
    BounceKind.FULL,
    BounceKind.POLICY,
    BounceKind.COMPLAINT,
    BounceKind.AUTO_REPLY,
)
EXPECTED = {
    "accepted": 11,
    "delivered": 8,
    "bounced": 3,
    "complained": 1,
    "unsubscribed": 1,
    "opened": {"people": 3, "proxies": 1, "automated": 1},
    "clicked": {"people": 2, "automated": 3},
    "people": {"agreed": 0, "opened": 2, "clicked": 1},
    "click_to_open": 66.7,
}


@pytest.fixture
async def people(site: Site) -> list[Subscriber]:
    """Twelve, of whom the last two did not agree to tracking."""
    services = site.services
    await services.lists.create(NAME, "News", "news@contoso.example")
    found: list[Subscriber] = []
    for number in range(MANY):
        address = f"u{number:02}@{'gmail.com' if number % 2 else 'example.org'}"
        added = await services.subscriptions.add(NAME, address, verified=True)
        agreed = msgspec.structs.replace(added, tracking=number < MANY - 2)
        await services.subscriber_rows.save(added, agreed, added.etag)
        found.append(agreed)
    return found


async def sent(site: Site) -> Message:
    """A message that all but one received."""
    outcomes = [EmailOutcome.ACCEPTED] * (MANY - 1) + [EmailOutcome.REFUSED]
    at = clock.now()
    return await sent_message(site.services, NAME, NewBodies(HTML), outcomes, at, Track.PERSONAL)


async def visit_it(site: Site, message: Message, people: list[Subscriber]) -> None:
    """Two who agreed open it, and one of them clicks twice; a third opens and clicks; so do a proxy
    and a gateway."""
    links = site.services.link_tables
    await links.prepare(message, HTML, site.url)
    http, tokens = site.visitor().http, links.tokens.of_message(message.ref)

    async def follow(person: Subscriber, agent: str, *numbers: int) -> None:
        token = tokens.token(person.guid, agreed=person.tracking)
        for path in (f"/o/{token}.gif", *(f"/r/{token}/{number}" for number in numbers)):
            await http.get(path, headers={"User-Agent": agent})

    await follow(people[0], f"{FIREFOX} one", 2, 3)
    await follow(people[1], f"{FIREFOX} two")
    await follow(people[-2], f"{FIREFOX} three", 2)
    await follow(people[2], GMAIL)
    await follow(people[3], f"{FIREFOX} gateway", 1, 2, 3)
    await site.context.hits.flush()
    await count_all(site.services)


async def report(site: Site, message: Message, people: list[Subscriber]) -> None:
    """Let some emails bounce and others be answered, and somebody unsubscribe."""
    for person, kind in zip(people[4:], REPORTS, strict=False):
        await site.services.suppressions.record(
            Bounce(
                kind,
                f"event {kind}",
                BounceSource.SMTP,
                clock.now(),
                NAME,
                address=person.address,
                ref=message.ref,
                diagnostic="550 no",
                status="5.1.1",
                by_code=True,
            )
        )
    link = f"/unsubscribe?id={people[9].guid}&listName={NAME}&ref={message.ref}"
    gone = await site.visitor().http.post(link, data={"List-Unsubscribe": "One-Click"})
    assert gone.status_code == 200
    await site.services.delivery_figures.count(message)


async def test_page_file_api_and_command_show_what_happened(
    site: Site, people: list[Subscriber], tmp_path: Path
) -> None:
    message = await sent(site)
    await visit_it(site, message, people)
    await report(site, message, people)

    key = (await site.services.keys.create("of the test")).secret
    headers = {"Authorization": f"Bearer {key}"}
    http = site.visitor().http
    api = (await http.get(f"/api/v1/messages/{message.ref}/results", headers=headers)).json()
    assert {name: api[name] for name in EXPECTED} == EXPECTED
    assert {each["kind"]: each["count"] for each in api["kinds"]} == dict.fromkeys(REPORTS, 1)
    assert {each["url"]: each["clicks"] for each in api["links"]} == dict(
        zip(TARGETS, (0, 2, 1, 0), strict=True)
    )
    assert [list(each.values()) for each in api["providers"]] == [
        ["example.org", 6, 2, 1, 0],
        ["gmail.com", 5, 1, 0, 1],
    ]

    cli = CommandLine(tmp_path, {"POSTROOM_DATA": str(tmp_path / "data")})
    assert await asyncio.to_thread(cli.json, "message", "results", message.ref) == api
    printed = await asyncio.to_thread(cli.ok, "message", "results", message.ref)
    check_text(printed, api)

    user = await site.user()
    file = await user.get(f"/messages/{message.ref}/results.csv")
    check_file(list(csv.reader(file.text.splitlines()))[1:], api)
    page = unescape(" ".join((await user.get(f"/messages/{message.ref}")).text.split()))
    check_page(page, api)
    report_page = unescape(
        " ".join((await user.get(f"/messages/{message.ref}/report")).text.split())
    )
    assert figures_in(report_page)[:7] == figures_in(page)[:7]


def check_file(rows: list[list[str]], api: dict[str, Any]) -> None:
    """Every number of the file is that of the API, and none is missing."""
    expected = [
        *([name, "", api[name]] for name in list(EXPECTED)[:5]),
        *([name, who, api[name][who]] for name in ("opened", "clicked") for who in api[name]),
        *(["people", who, count] for who, count in api["people"].items()),
        ["click_to_open", "", api["click_to_open"]],
        *(["rate in percent", name, rate] for name, rate in api["rates"].items()),
    ]
    for each in api["kinds"]:
        is_bounce = each["kind"] in (BounceKind.GONE, BounceKind.FULL, BounceKind.POLICY)
        expected.append(["bounced" if is_bounce else "reported", each["kind"], each["count"]])
    for each in api["providers"]:
        names = ("accepted", "bounced", "rejected", "complained")
        expected += [[f"{name} by provider", each["provider"], each[name]] for name in names]
    for each in api["links"]:
        expected.append(["clicks", each["url"], each["clicks"]])
        expected.append(["people who clicked", each["url"], each["people"]])
    for each in api["hours"]:
        expected.append(["opened by hour", each["hour"], each["opened"]])
        expected.append(["clicked by hour", each["hour"], each["clicked"]])
    assert sorted(rows) == sorted([name, of, str(count)] for name, of, count in expected)


def figures_in(page: str) -> list[str]:
    return re.findall(r'<dd class="figure">([^<]+)</dd>', page)


def check_page(page: str, api: dict[str, Any]) -> None:
    names = ("delivered", "bounced", "complained", "unsubscribed")
    shown = [*(api[each] for each in names), api["opened"]["people"], api["clicked"]["people"]]
    ratio = f"{api['click_to_open']}%"
    assert figures_in(page)[:8] == [*map(str, shown), ratio, str(api["people"]["clicked"])]
    assert "1 by the proxies of Apple, Gmail and Yahoo" in page
    assert "and 1 automated" in page
    assert "Not included: 3 automated clicks" in page
    assert "2 of 0 opened the message" in page
    for each in api["links"]:
        assert re.search(rf">{re.escape(each['url'])}</td><td[^>]*>{each['clicks']}</td>", page)
    for each in api["providers"]:
        assert re.search(rf">{each['provider']}</td><td[^>]*>{each['accepted']}</td>", page)
    shares = re.findall(r'<dd class="share">([0-9.]+)%</dd>', page)
    rates = [api["rates"][each] for each in (*names, "opened", "clicked")]
    assert [float(each) for each in shares] == [
        round(rate, 2 if name in ("complained", "unsubscribed") else 1)
        for name, rate in zip((*names, "opened", "clicked"), rates, strict=True)
    ]


def check_text(printed: str, api: dict[str, Any]) -> None:
    lines = [" ".join(each.split()) for each in printed.splitlines()]
    for wanted in (
        "accepted 11",
        "bounced 3 (27.27%)",
        "full 1",
        "gone 1",
        "policy 1",
        "marked as spam 1 (9.09%)",
        "auto reply 1",
        "opened 3 (37.50%), and 1 by proxies, 1 automated",
        "clicked 2 (25.00%), and 3 automated",
        "people 2 opened and 1 clicked, of 0 who agreed",
        "click-to-open rate 66.7%",
        f"2 {TARGETS[1]}",
        "example.org 6 2 1 0",
        "gmail.com 5 1 0 1",
    ):
        assert wanted in lines, printed
    assert not any(each.startswith("complaint") for each in lines), "it is no bounce"
    assert len(api["kinds"]) == len(REPORTS)
