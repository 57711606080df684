"""Home, over HTTP: first steps, messages, growth, and the state of the system."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from postroom.domain.audience.lists.lists import ListName
from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import Message, MessageStatus, day_of
from postroom.services import entities
from postroom.services.accounts.users import Role
from postroom.services.audience.growth.growth_history import EVERY, TABLE
from postroom.services.messages.message_contents import NewBodies
from postroom.services.messages.sending.holds import ACCOUNT, Fault
from postroom.services.queues.hosts import AppStatus
from postroom.storage import Entity
from postroom.transport.contract import FaultScope
from postroom.web.admin.operations.home import first_name
from tests.services.waiting import until
from tests.web.site import Site, running_site

NOW = datetime.now(UTC)
BODIES = NewBodies("<p>Hello</p>", "Hello")


# -- first steps ----------------------------------------------------------------------------------


async def test_the_first_steps_lead_to_a_list_a_sign_up_and_a_message(site: Site) -> None:
    user = await site.user()
    start = (await user.get("/")).text
    assert "Get started" in start
    assert 'href="/lists/new"' in start
    assert 'href="/settings/mail-server">Set up your mail server' in start

    await site.services.lists.create("news", "News", "news@example.com")
    start = (await user.get("/")).text
    assert "/subscribe?list=news" in start
    assert "The confirmation email appears in the Outbox" in start
    await site.services.subscriptions.add("news", "a@example.com")
    start = (await user.get("/")).text
    assert "Open the email in the Outbox and follow its link" in start
    await site.services.subscriptions.edit("news", "a@example.com", verified=True)
    assert (await user.get("/")).text.count('<li class="done">') == 2
    await site.services.messages.create("news", "Hello", BODIES, NOW + timedelta(days=1))
    assert "Get started" not in (await user.get("/")).text


async def test_the_first_steps_know_of_every_list(site: Site) -> None:
    user, services = await site.user(), site.services
    await services.lists.create("a-staff", "Ours alone", "staff@example.com", public=False)
    start = (await user.get("/")).text
    assert 'href="/lists/a-staff/subscribers/add"' in start, "nobody can sign up there"
    await services.lists.create("news", "News", "news@example.com")
    start = (await user.get("/")).text
    assert 'href="/subscribe?list=news"' in start
    await services.lists.create("offers", "Offers", "offers@example.com")
    await services.subscriptions.add("offers", "a@example.com", verified=True)
    assert 'href="/lists/offers"' in (await user.get("/")).text
    await services.messages.create("offers", "Hello", BODIES, NOW + timedelta(days=1))
    assert "Get started" not in (await user.get("/")).text
    # However many empty lists come before the one that somebody is on.
    for number in range(25):
        await services.lists.create(f"a{number:02}", "Empty", "a@example.com")
    await services.growth.count_due()
    assert "Get started" not in (await user.get("/")).text


async def test_a_viewer_sees_what_is_there_and_nothing_to_do(site: Site) -> None:
    await site.services.holds.open(Fault(FaultScope.ACCOUNT, ACCOUNT, "it is down", "421 later"))
    viewer = await site.user(Role.VIEWER)
    start = (await viewer.get("/")).text
    for absent in ("Get started", "New message", "Try now"):
        assert absent not in start.partition("<main")[2], absent
    assert "it is down" in start
    assert (await viewer.post("/home/try-now")).status_code == 403


async def test_home_says_that_emails_go_to_the_outbox(
    tmp_path: Path, quick_passwords: None
) -> None:
    line = "No mail server is set up yet"
    for transport, is_said in (("outbox:", True), ("smtp://127.0.0.1:9", False)):
        folder = tmp_path / transport[:4]
        folder.mkdir()
        async with running_site(folder, {"transport": transport}) as site:
            await site.services.lists.create("news", "News", "news@example.com")
            message = await site.services.messages.create("news", "Hi", BODIES, NOW)
            user = await site.user(Role.EDITOR)
            for path in ("/", "/messages/new", f"/messages/{message.ref}"):
                page = await user.get(path)
                assert (line in page.text) is is_said, path
            assert line not in (await site.visitor().get("/subscribe?list=news")).text


# -- messages -------------------------------------------------------------------------------------


async def test_home_shows_what_is_being_sent_and_scheduled(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    services = site.services
    await services.lists.create("news", "News", "news@example.com")
    moving = await services.messages.create("news", "Being <b>sent</b>", BODIES, NOW)
    await services.messages.create("news", "Tomorrow", BODIES, NOW + timedelta(days=1))
    partition = entities.pages_partition(moving.day, moving.ref)
    counts = entities.counts_properties(Counts(planned=1234, accepted=617))
    await services.store.table(entities.PAGES).upsert(Entity(partition, "000000", counts))

    for path in ("/", "/home/messages"):
        shown = await user.get(path)

        async def is_counted(path: str = path) -> bool:
            nonlocal shown
            shown = await user.get(path)
            return "617 of 1,234" in shown.text

        await until(is_counted, f"{path} shows the progress")
        assert shown.status_code == 200
        assert "Being &lt;b&gt;sent&lt;/b&gt;" in shown.text
        assert "617 of 1,234" in shown.text
        assert '<progress value="617" max="1234"' in shown.text
        assert "Tomorrow" in shown.text


async def test_home_shows_the_figures_of_the_last_message_that_was_sent(site: Site) -> None:
    user, services = await site.user(Role.VIEWER), site.services
    await services.lists.create("news", "News", "news@example.com")
    at = NOW - timedelta(hours=2)
    last = await sent(site, "Harvest festival", at, Counts(1000, 994, 5, 1))
    one = Entity(last.ref, "a digest", {"LeftAt": NOW})
    await services.store.table("messageunsubscribe").upsert(one)
    for kind, at in (("Older", NOW - timedelta(days=1)), ("Cancelled", NOW - timedelta(hours=1))):
        over = await services.messages.create("news", kind, BODIES, at)
        await services.message_states.cancel(over.ref)
        await services.message_rows.archive(await services.messages.get(over.ref))
    shown = (await user.get("/home/figures")).text
    assert "Harvest festival" in shown
    figures = re.findall(r'<dt>([^<]*)</dt><dd class="figure">([^<]*)</dd>', shown)
    assert figures == [
        ("Accepted", "99.4%"),
        ("Bounced", "0%"),
        ("Unsubscribed", "1"),
        ("Refused", "5"),
    ], "clicks were not measured"
    assert f'href="/messages/{last.ref}#results-title"' in shown


async def sent(site: Site, subject: str, at: datetime, counts: Counts) -> Message:
    """A message that was completed some time ago."""
    message = await site.services.messages.create("news", subject, BODIES, at)
    done = msgspec.structs.replace(
        message, status=MessageStatus.COMPLETED, queued_at=at, completed_at=at, counts=counts
    )
    await site.services.message_rows.archive(done)
    return done


# -- growth ---------------------------------------------------------------------------------------


async def test_growth_is_drawn_from_the_first_hour_on(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    assert "data-chart" not in (await user.get("/")).text
    await site.services.lists.create("news", "News", "news@example.com")
    await site.services.growth.count_due()
    await site.services.subscriptions.add("news", "a@example.com", verified=True)
    await site.services.subscriptions.add("news", "b@example.com")
    shown = (await user.get("/home/figures")).text
    assert '<span class="figure large">2</span>' in shown
    assert "1 confirmed · 1 waiting to confirm" in shown
    chart = drawn(shown)
    assert chart["by_hour"] is True
    assert chart["points"][0][1:] == [0, 0]
    assert chart["points"][-1][1:] == [2, 1]
    assert drawn((await user.get("/lists/news")).text)["points"][-1][1:] == [2, 1]


async def test_growth_is_drawn_by_day_with_the_change_of_this_month(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    await site.services.lists.create("news", "News", "news@example.com")
    await site.services.subscriptions.add("news", "a@example.com", verified=True)
    growth = site.services.store.table(TABLE)
    last_month = NOW.replace(day=1) - timedelta(days=1)
    for at, count in ((NOW - timedelta(days=200), 7), (last_month, 8)):
        figures = {"Subscribers": count, "Verified": count}
        await growth.upsert(Entity(EVERY, day_of(at), figures))
    await site.services.growth.count_now(ListName("news"))  # the server may have counted it before
    await site.services.growth.count_due()
    shown = (await user.get("/home/figures")).text
    chart = drawn(shown)
    assert chart["by_hour"] is False
    assert [point[1] for point in chart["points"]] == [8, 1]
    assert "−7 this month" in shown


def drawn(page: str) -> dict[str, Any]:
    found = re.search(r'data-chart="([^"]*)"', page)
    assert found is not None
    data: dict[str, Any] = json.loads(html.unescape(found[1]))
    return data


# -- the state of the system ----------------------------------------------------------------------


async def test_home_says_that_all_is_well_or_what_needs_attention(site: Site) -> None:
    user = await site.user(Role.VIEWER)
    assert "All systems normal" in (await user.get("/")).text
    await site.services.store.queue("shop/a b;poison").put("bad")
    await site.services.queues.fault("shop/<x>", "it broke")
    failing = AppStatus("/shop/x", "breaker open", trouble="it crashed 5 times")
    paused = AppStatus("/shop/y", "paused", trouble="paused")
    await site.services.hosts.report("one", "machine", [failing, paused])
    state = (await user.get("/home/state")).text
    assert "All systems normal" not in state
    assert "shop/&lt;x&gt; is stopped: it broke" in state.partition("<details")[0]
    assert "2 more" in state
    assert 'href="/queues/shop/a%20b%3Bpoison"' in state
    assert "The application /shop/x does not run: it crashed 5 times" in state
    assert "/shop/y" not in state, "somebody has paused it on purpose"


async def test_a_mail_server_that_is_down_can_be_tried_at_once(site: Site) -> None:
    services, editor = site.services, await site.user(Role.EDITOR)
    fault = Fault(FaultScope.ACCOUNT, ACCOUNT, "mail.example.com cannot be reached", "refused")
    await services.holds.open(fault)
    [hold] = await services.holds.all()
    state = (await editor.get("/home/state")).text
    assert "All emails are on hold: mail.example.com cannot be reached" in state
    assert f'datetime="{hold.since:%Y-%m-%dT%H:%M:%S}Z"' in state
    later = msgspec.structs.replace(hold, next_probe=NOW + timedelta(minutes=2))
    holds = services.store.table("holds")
    await holds.merge(Entity("hold", ACCOUNT, {"NextProbe": later.next_probe}))
    said = await editor.said(await editor.post("/home/try-now"))
    assert said == "Trying now."
    [hold] = await services.holds.all()
    assert hold.next_probe <= datetime.now(UTC)
    await holds.delete("hold", ACCOUNT)
    assert await editor.said(await editor.post("/home/try-now")) == "Nothing is on hold any more."


# -- the greeting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("email", "name"),
    [
        ("ann@example.com", "Ann"),
        ("ann.smith@example.com", "Ann"),
        ("bob+lists@example.com", "Bob"),
        ("jürgen_m@example.com", "Jürgen"),
        ("x@example.com", ""),
        ("user123@example.com", ""),
        ("<b>@example.com", ""),
    ],
)
def test_people_are_greeted_only_by_a_plausible_name(email: str, name: str) -> None:
    assert first_name(email) == name
