"""Somebody who knows no HTML makes a newsletter, loses the browser, and sends it all the same.

To look at what they see and at the email that arrives, keep pictures of it (`keeping.py`).
"""

from __future__ import annotations

import contextlib
import re
import time
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from playwright.async_api import Browser, Error, Page, Route, expect

from tests.browser.keeping import keep_pictures
from tests.browser.messages.test_story import FirstStart, first_start, make_the_administrator
from tests.browser.support.chromium import PATIENCE, PHONE, running_chromium, window
from tests.browser.support.editing import (
    add_block,
    add_to_column,
    blocks_on,
    canvas,
    open_editor,
    saved,
    upload_picture,
)
from tests.services.pictures import picture

__all__ = ["first_start"]

SUBJECT = "Winter in the garden"
LOGO = picture(size=(280, 80), colour=(30, 110, 70))
MOST_SECONDS = 300.0
"""From Home to a message that is scheduled, with the loss of the browser in between."""
SNOW = picture(size=(1200, 500), colour=(200, 220, 235))


@pytest.mark.timeout(600)  # a limit for a story that hangs, not for a slow machine
async def test_a_newcomer_makes_a_newsletter(browser: Browser, first_start: FirstStart) -> None:
    [link] = first_start.links()
    url = link.partition("/setup")[0]
    with contextlib.suppress(Error):  # its browser is gone
        async with running_chromium() as first, window(first, url) as context:
            page = await context.new_page()
            await make_the_administrator(page, link)
            await page.goto(url)  # Home: from here on, everything is found by clicking
            began = time.monotonic()
            await create_list(page)
            await write(page)
            crash = (await first.new_browser_cdp_session()).send("Browser.crash")
            await crash
    async with window(browser, url) as context:
        page = await context.new_page()
        await log_in(page)
        await find_again(page)
        await send_test(page)
        await schedule(page)
        assert time.monotonic() - began < MOST_SECONDS
        await look_at_the_email(page, first_start.outbox)


async def log_in(page: Page) -> None:
    await page.goto("/login")
    await page.get_by_label("Email").fill("ann@example.org")
    await page.get_by_label("Password").fill("a few words are good")
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url(re.compile(r"/$"))


async def create_list(page: Page) -> None:
    await page.get_by_role("link", name="Create a list").click()
    await page.get_by_label("Name", exact=True).fill("garden")
    await page.get_by_label("Description").fill("Garden club")
    await page.get_by_label("From address").fill("garden@example.org")
    await page.get_by_role("button", name="Create list").click()
    await page.wait_for_url("**/lists/garden**")
    pages = page.get_by_role("navigation", name="Pages of garden")
    await pages.get_by_role("link", name="Brand").click()
    await page.wait_for_url("**/brand")
    file = {"name": "logo.png", "mimeType": "image/png", "buffer": LOGO}
    await page.locator("input[type=file]").first.set_input_files(file)  # type: ignore[arg-type]
    await page.get_by_role("button", name="Save").first.click()
    await expect(page.locator("#toast")).to_contain_text("Saved.", timeout=PATIENCE)
    await keep_pictures(page, "01-brand")


async def write(page: Page) -> None:
    await page.get_by_role("link", name="Home").first.click()
    await page.get_by_role("link", name="New message").first.click()
    await expect(page.locator("#blocks")).to_be_visible(timeout=PATIENCE)
    await keep_pictures(page, "02-new-message")
    await page.get_by_label("Subject", exact=True).fill(SUBJECT)
    await page.get_by_label("Preheader").fill("What to do before the frost")
    await page.get_by_role("button", name="Choose a template").click()
    dialog = page.get_by_role("dialog", name="Choose a template")
    newsletter = dialog.get_by_role("button", name=re.compile("^Newsletter"))
    await expect(newsletter.locator("iframe")).to_be_visible(timeout=PATIENCE)
    await keep_pictures(page, "03-templates")
    await newsletter.click()
    await page.locator("#block-panel").get_by_label("Title").fill("Winter is coming")
    await expect(canvas(page).get_by_text("Winter is coming")).to_be_visible(timeout=PATIENCE)
    await keep_pictures(page, "04-template")
    await add_block(page, "Picture")
    await keep_pictures(page, "05-picture-block")
    await page.get_by_role("button", name="Choose picture").click()
    await keep_pictures(page, "06-picture-dialog")
    await upload_picture(page, "snow.png", SNOW, "Snow on the beds")
    await add_block(page, "2 columns")
    await keep_pictures(page, "07-columns")
    for column, words in ((1, "Indoors"), (2, "Outdoors")):
        await add_to_column(page, column, "Text")
        text = canvas(page).get_by_role("textbox", name="Text").nth(column - 1)
        await expect(text).to_be_focused(timeout=PATIENCE)
        await text.fill(words)
        await keep_pictures(page, f"08-column-{column}")
    await canvas(page).get_by_role("group", name="Columns").focus()
    await add_block(page, "Button")
    panel = page.locator("#block-panel")
    await panel.get_by_label("Text").fill("Read on")
    await panel.get_by_label("Link").fill("https://www.example.org/winter")
    await expect(canvas(page).get_by_text("Read on")).to_be_visible(timeout=PATIENCE)
    await saved(page)
    await keep_pictures(page, "09-button")


async def find_again(page: Page) -> None:
    await keep_pictures(page, "10-home")
    await page.get_by_role("link", name=SUBJECT).first.click()
    await page.wait_for_url("**/edit")
    await open_editor(page, page.url)
    await expect(blocks_on(page)).to_have_count(5, timeout=PATIENCE)
    for words in ("Winter is coming", "Indoors", "Outdoors", "Read on"):
        await expect(canvas(page).get_by_text(words)).to_be_visible(timeout=PATIENCE)
    for width, height in ((1280, 800), PHONE):
        await page.set_viewport_size({"width": width, "height": height})
        wide = await page.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= width, "nobody scrolls sideways"


async def send_test(page: Page) -> None:
    await page.get_by_role("button", name="Send test").click()
    await expect(page.locator("#test-result")).to_contain_text("Test sent to", timeout=PATIENCE)
    await keep_pictures(page, "11-test-sent")


async def schedule(page: Page) -> None:
    await page.get_by_label("Later").check()
    await page.get_by_label("Date").fill("2099-07-01")
    await page.get_by_label("Time", exact=True).fill("09:00")
    await page.get_by_role("button", name="Schedule…").click()
    await page.wait_for_url("**/schedule")  # the button of the page before has a similar name
    await keep_pictures(page, "12-schedule")
    await page.get_by_role("button", name="Schedule").click()
    await expect(page.locator("#toast")).to_contain_text("Message scheduled.", timeout=PATIENCE)
    checks = page.get_by_role("region", name="Before sending")
    await expect(checks).to_contain_text("will receive this message", timeout=PATIENCE)
    await keep_pictures(page, "13-scheduled")


def html_of_the_email_in(outbox: Path) -> str:
    [file] = outbox.glob("*.eml")
    html = message_from_bytes(file.read_bytes(), policy=policy.default).get_body(("html",))
    assert html is not None
    return str(html.get_content())


async def look_at_the_email(page: Page, outbox: Path) -> None:
    html = html_of_the_email_in(outbox)

    async def received(route: Route) -> None:
        await route.fulfill(body=html, content_type="text/html")

    # At the site's own address: other pages may not load pictures from this machine.
    await page.route("**/received", received)
    await page.goto("/received")
    await expect(page.locator("img[src*='/logo/']")).to_be_visible()
    snow = page.locator("img[src*='/media/']")
    await expect(snow).to_be_visible()
    assert await snow.evaluate("(each) => each.naturalWidth") > 0, "it is loaded"
    await expect(page.get_by_alt_text("Snow on the beds")).to_be_visible()
    for words in ("Winter is coming", "Indoors", "Outdoors", "Read on"):
        await expect(page.get_by_text(words)).to_be_visible()
    for width, height in ((1280, 800), PHONE):
        await page.set_viewport_size({"width": width, "height": height})
        wide = await page.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= width, "nobody scrolls sideways"
    await keep_pictures(page, "14-email")
