"""The preview of a message in its editor."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page, expect

from postroom.services.accounts.users import Role
from tests.browser.support.chromium import DESKTOP, PATIENCE, PHONE, window
from tests.browser.support.editing import use_html
from tests.web.site import Site

pytestmark = pytest.mark.timeout(600)  # a limit for what hangs, not for a slow machine

WIDE = """<style>
  #wide { display: none }
  @media (min-width: 600px) { #wide { display: block } #narrow { display: none } }
</style><p id="wide">Wide</p><p id="narrow">Narrow</p><div style="height: 3000px"></div>"""


async def test_the_preview_is_as_wide_as_in_a_mail_client_and_stays_where_it_was_scrolled_to(
    browser: Browser, site: Site
) -> None:
    await site.services.lists.create("news", "News", "news@example.com")
    editor = await site.user(Role.EDITOR)
    for size in (DESKTOP, PHONE):
        async with window(browser, site.url, size, whose=editor) as context:
            page = await context.new_page()
            await page.goto("/messages/new")
            await page.get_by_label("Subject", exact=True).fill("Hi")
            await (await use_html(page)).fill(WIDE)
            await page.get_by_label("Desktop", exact=True).check()
            frame = page.frame_locator("iframe.preview")
            await expect(frame.locator("#wide")).to_be_visible(timeout=PATIENCE)
            await expect(frame.locator("#narrow")).to_be_hidden(timeout=PATIENCE)
            assert 640 <= await frame.locator("html").evaluate("() => innerWidth") <= 700
            await expect_no_sideways_scrolling(page)

            await frame.locator("html").evaluate("() => scrollTo(0, 1200)")
            at_no_time_without_preview = await page.evaluate_handle(WATCH_PREVIEW)
            await page.get_by_label("Message (HTML)").fill(f"{WIDE}<p id=new>New</p>")
            await expect(frame.locator("#new")).to_be_attached(timeout=PATIENCE)
            assert await frame.locator("html").evaluate("() => scrollY") == 1200
            assert await at_no_time_without_preview.evaluate("watch => watch.gaps") == 0

            await page.get_by_label("Phone", exact=True).check()
            await expect(frame.locator("#narrow")).to_be_visible(timeout=PATIENCE)
            assert await frame.locator("html").evaluate("() => innerWidth") == 375
            await expect(page.locator(".preview-box iframe")).to_have_count(1, timeout=PATIENCE)


# Counts how often the box had no frame to show.
WATCH_PREVIEW = """() => {
  const box = document.querySelector(".preview-box"), watch = { gaps: 0 };
  new MutationObserver(() => { if (!box.querySelector("iframe.preview")) watch.gaps++; })
    .observe(box, { childList: true, attributes: true, subtree: true });
  return watch;
}"""


async def expect_no_sideways_scrolling(page: Page) -> None:
    width = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(width) == 0
