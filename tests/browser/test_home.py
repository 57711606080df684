"""Home as somebody sees it who leaves it open: first steps, a mail server that is down and comes
back, live progress, and the figures of what was sent."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from playwright.async_api import Browser, Page, expect

from postroom.services.messages.message_contents import NewBodies
from postroom.storage import open_store
from postroom.wiring import Services
from tests.browser.support.chromium import PATIENCE, window
from tests.services.mail.recording_smtp import RecordingSmtp, running_recording_smtp
from tests.services.postroom import PROGRAM
from tests.services.process import ServiceProcess
from tests.services.waiting import free_ports
from tests.web.site import Site

pytestmark = pytest.mark.timeout(600)  # a limit for what hangs, not for a slow machine

RECIPIENTS = 120


@pytest.fixture
def mail_server() -> Iterator[RecordingSmtp]:
    with running_recording_smtp() as server:
        server.stop()
        yield server


@pytest.fixture
async def setup_link(tmp_path: Path, mail_server: RecordingSmtp) -> AsyncIterator[str]:
    """`postroom up` with a mail server that is down; the link that creates the administrator."""
    [port] = free_ports(1)
    server = f"smtp://127.0.0.1:{mail_server.port}"
    command = [str(PROGRAM), "up", "--port", str(port), "--data", str(tmp_path / "data")]
    process = ServiceProcess(
        "postroom up", [*command, "--transport", server], tmp_path, lambda: bool(links(process))
    )
    await anyio.to_thread.run_sync(process.start)
    try:
        yield links(process)[0]
    finally:
        await anyio.to_thread.run_sync(process.stop)


def links(process: ServiceProcess) -> list[str]:
    return re.findall(r"http\S+/setup\S+", process.log.read_text())


async def test_home_follows_a_message_through_an_outage_of_the_mail_server(
    browser: Browser, setup_link: str, mail_server: RecordingSmtp, tmp_path: Path
) -> None:
    async with window(browser, setup_link.partition("/setup")[0]) as context:
        page = await context.new_page()
        await page.goto(setup_link)
        await page.get_by_label("Your email address").fill("ann.lee@example.org")
        await page.get_by_label("Password").fill("a few words are good")
        await page.get_by_role("button", name="Get started").click()
        heading = page.get_by_role("heading", level=1)
        await expect(heading).to_have_text(
            re.compile(r"^Good (morning|afternoon|evening|night), Ann$"), timeout=PATIENCE
        )
        state = page.locator("#home-state")
        await expect(state).to_have_text("All systems normal")
        steps = page.get_by_role("region", name="Get started")
        await expect(steps.locator("li.done")).to_have_text(re.compile("Set up your mail server"))

        async with await open_store(f"sqlite:///{tmp_path}/data/postroom.db") as store:
            await send(Services(store))
        # Nothing is reloaded: the page notices automatically.
        await expect(state).to_contain_text("All emails are on hold", timeout=PATIENCE)
        await expect(state).to_contain_text("since")
        await expect(state).to_contain_text("next attempt")
        held = page.get_by_role("region", name="On hold")
        await expect(held).to_contain_text(f"0 of {RECIPIENTS}", timeout=PATIENCE)
        try_now = page.get_by_role("button", name="Try now")
        [what, button] = [
            await each.bounding_box() for each in (page.locator(".system-state .what"), try_now)
        ]
        assert what, "the problem is shown"
        assert button, "so is what to do about it"
        assert abs(what["y"] - button["y"]) < what["height"], "in one line"
        await anyio.to_thread.run_sync(mail_server.start)
        await try_now.click()
        await expect(page.locator("#home-state")).to_have_text(
            "All systems normal", timeout=PATIENCE
        )
        last = page.get_by_role("region", name="Last message: Autumn")
        await expect(last).to_contain_text("100%", timeout=PATIENCE)
        await expect(page.get_by_role("region", name="Get started")).to_have_count(0)
        audience = page.get_by_role("region", name="Subscribers")
        await expect(audience).to_contain_text(f"{RECIPIENTS} confirmed")
    assert len(mail_server.copies()) == RECIPIENTS


async def send(services: Services) -> None:
    await services.lists.create("seasons", "The four seasons", "seasons@example.org")
    for number in range(RECIPIENTS):
        await services.subscriptions.add("seasons", f"a{number}@example.org", verified=True)
    now = datetime.now(UTC)
    await services.messages.create("seasons", "Autumn", NewBodies("<p>Hello</p>"), now)
    await services.counts.write()


async def test_the_chart_tells_its_values_to_pointer_and_keyboard(
    browser: Browser, site: Site
) -> None:
    services = site.services
    await services.lists.create("news", "News", "news@example.com")
    await services.growth.count_due()
    for number in range(3):
        await services.subscriptions.add("news", f"a{number}@example.com", verified=number > 0)
    async with window(browser, site.url, whose=await site.user()) as context:
        page = await context.new_page()
        await page.goto("/")
        curve, value = page.locator(".chart .curve"), page.locator(".chart .value")
        await expect(value).to_be_hidden()
        await hover_at(page, 0.99)
        await expect(value).to_have_text("Now: 3, 2 confirmed", timeout=PATIENCE)
        await hover_at(page, 0.01)
        await expect(value).to_have_text(re.compile(r": 0, 0 confirmed$"), timeout=PATIENCE)
        await curve.focus()
        await page.keyboard.press("End")
        await expect(page.locator("[data-said]")).to_have_text("Now: 3, 2 confirmed")
        await page.keyboard.press("Home")
        await expect(page.locator("[data-said]")).to_have_text(re.compile(r": 0, 0 confirmed$"))


async def hover_at(page: Page, share: float) -> None:
    box = await page.locator(".chart .curve").bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
