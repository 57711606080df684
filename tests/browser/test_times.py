"""Times on pages: relative, with the exact time of the visitor's zone on hover."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Browser, expect

from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from tests.browser.support.chromium import PATIENCE, window
from tests.integration.usecases.pages import fan_out_whole
from tests.web.site import Site

pytestmark = pytest.mark.timeout(600)  # a limit for what hangs, not for a slow machine


async def test_a_visitor_sees_times_in_their_own_zone_and_they_stay_up_to_date(
    browser: Browser, site: Site
) -> None:
    await site.services.lists.create("news", "News", "news@example.com")
    at = (datetime.now(UTC) + timedelta(days=3)).replace(hour=8, minute=5)
    message = await site.services.messages.create("news", "Hi", NewBodies("<p>Hi</p>"), at)
    viewer = await site.user(Role.VIEWER)
    async with window(browser, site.url, whose=viewer) as context:  # in Berlin
        page = await context.new_page()
        await page.clock.install(time=at - timedelta(hours=5, minutes=30))
        await page.goto(f"/messages/{message.ref}")
        relative = page.locator("p.headline time:not([data-show])")
        clock = page.locator("p.headline time[data-show=clock]")
        local = f"{at.astimezone(ZoneInfo('Europe/Berlin')):%H:%M}"
        await expect(relative).to_have_text("in 5 h", timeout=PATIENCE)
        await expect(relative).to_have_attribute("title", re.compile(local))
        await expect(clock).to_have_text(re.compile(local))
        await expect(page.locator("#zone-of-times")).to_contain_text("Europe/Berlin")
        await page.clock.fast_forward("07:00:00")
        await expect(relative).to_have_text("1 h ago", timeout=PATIENCE)


async def test_the_axis_of_a_chart_has_the_visitors_time(browser: Browser, site: Site) -> None:
    await site.services.lists.create("news", "News", "news@example.com")
    await site.services.subscriptions.add("news", "ann@example.com", verified=True)
    now = datetime.now(UTC)
    message = await site.services.messages.create("news", "Hi", NewBodies("<p>Hi</p>"), now)
    await fan_out_whole(site.services.store, message.ref)
    viewer = await site.user(Role.VIEWER)
    async with window(browser, site.url, whose=viewer) as context:  # in Berlin
        page = await context.new_page()
        await page.add_init_script(
            """window.drawn = [];
            const draw = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
              window.drawn.push(text);
              return draw.call(this, text, ...where);
            };"""
        )
        await page.goto(f"/messages/{message.ref}")
        await expect(page.locator("[data-plot] canvas")).to_be_visible(timeout=PATIENCE)
        drawn: list[str] = []
        for _ in range(600):
            if any(":" in text for text in drawn):
                break
            await page.wait_for_timeout(100)
            drawn = await page.evaluate("window.drawn")
        hour = f"{now.astimezone(ZoneInfo('Europe/Berlin')):%H}"
        shown = {text[:2] for text in drawn if ":" in text}
        following = f"{(int(hour) + 1) % 24:02}"
        assert shown, drawn
        assert shown <= {hour, following}, drawn
        assert all(re.fullmatch(r"[\d:.]+", text) for text in drawn if text), drawn
