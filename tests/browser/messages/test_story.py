"""The whole story, as somebody lives it who has just installed Postroom."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.browser.support.chromium import PATIENCE, window
from tests.browser.support.editing import use_html
from tests.services.postroom import PROGRAM
from tests.services.process import ServiceProcess
from tests.services.waiting import free_ports

READER = "reader@example.com"
HTML = '<h1>Autumn</h1><p>Dear {{ email }}</p><p><a href="{{ unsubscribe_url }}">Leave</a></p>'
TEXT = "Autumn is here, {{ email }}.\nLeave: {{ unsubscribe_url }}\n"


class FirstStart:
    """`postroom up` in a folder where nothing is yet."""

    def __init__(self, folder: Path) -> None:
        [port] = free_ports(1)
        self.outbox = folder / "data" / "outbox"
        self.process = ServiceProcess(
            "postroom up",
            [str(PROGRAM), "up", "--port", str(port), "--data", str(folder / "data")],
            folder,
            lambda: bool(self.links()),
        )

    def links(self) -> list[str]:
        return re.findall(r"http\S+/setup\S+", self.process.log.read_text())


@pytest.fixture
async def first_start(tmp_path: Path) -> AsyncIterator[FirstStart]:
    started = FirstStart(tmp_path)
    await anyio.to_thread.run_sync(started.process.start)
    try:
        yield started
    finally:
        await anyio.to_thread.run_sync(started.process.stop)


@pytest.mark.timeout(600)  # a limit for a story that hangs, not for a slow machine
async def test_from_the_first_start_to_the_last_mail(
    browser: Browser, first_start: FirstStart
) -> None:
    [link] = first_start.links()
    async with window(browser, link.partition("/setup")[0]) as mine, window(browser) as theirs:
        page = await mine.new_page()
        await make_the_administrator(page, link)
        signup = await make_a_list(page)
        await sign_up(await theirs.new_page(), signup)
        reading = await open_mail(page, mine, "/confirm")
        await confirm(reading)
        assert READER in await subscribers(page)
        await send_a_message(page)
        await watch_it_go_out(page)
        reading = await open_mail(page, mine, "/unsubscribe")
        await leave(reading)
        assert READER not in await subscribers(page)


async def make_the_administrator(page: Page, link: str) -> None:
    await page.goto(link)
    await page.get_by_label("Your email address").fill("ann@example.org")
    await page.get_by_label("Password").fill("a few words are good")
    await page.get_by_role("button", name="Get started").click()
    await expect(page.get_by_role("status")).to_contain_text("Welcome", timeout=PATIENCE)
    # The link works once: later visitors are asked to log in.
    await page.goto(link)
    await expect(page.get_by_label("Your email address")).to_have_count(0, timeout=PATIENCE)


async def make_a_list(page: Page) -> str:
    """Return the URL of its sign-up form."""
    await page.goto("/lists")
    await page.get_by_role("link", name="Create list").click()
    await page.get_by_label("Name", exact=True).fill("seasons")
    await page.get_by_label("Description").fill("The four seasons")
    await page.get_by_label("From address").fill("seasons@example.org")
    await page.get_by_role("button", name="Create list").click()
    await expect(page.get_by_role("status")).to_contain_text("seasons", timeout=PATIENCE)
    href = await page.locator("a[href*='/subscribe?list=seasons']").first.get_attribute("href")
    assert href is not None
    return href


async def sign_up(page: Page, address: str) -> None:
    await page.goto(address)
    await page.get_by_label("Your email address").fill(READER)
    await page.get_by_role("button", name="Subscribe").click()
    await heading(page, "Check your email")


async def subscribers(page: Page) -> str:
    await page.goto("/lists/seasons/subscribers")
    return await page.inner_text("main")


async def open_mail(page: Page, context: BrowserContext, link: str) -> Page:
    """Wait for the newest mail in the outbox, read it, and follow its link to a new window."""
    for _ in range(300):
        await page.goto(f"/outbox?q={READER}")
        for mail in await page.locator("main td.subject a").all():
            where = await mail.get_attribute("href")
            assert where is not None
            await page.goto(where)
            found = page.locator(f"pre.mail a[href*='{link}']")
            if await found.count():
                await page.get_by_role("tab", name="Text").click()
                async with context.expect_page() as opening:
                    await found.first.click()
                return await opening.value
            await page.go_back()
        await page.wait_for_timeout(200)
    raise TimeoutError(f"no mail with a link to {link} within a minute")


async def confirm(page: Page) -> None:
    await heading(page, "Confirm your subscription")
    await expect(page.get_by_text(READER)).to_have_count(0, timeout=PATIENCE)  # it is masked
    await page.get_by_role("button", name="Confirm").click()
    await heading(page, "Welcome!")
    await page.reload()  # to look again changes nothing
    await heading(page, "Welcome!")
    await page.close()


async def send_a_message(page: Page) -> None:
    await page.goto("/messages/new")
    await expect(page.get_by_label("List", exact=True)).to_have_value("seasons")  # the only one
    await page.get_by_label("Subject", exact=True).fill("Autumn & more")
    await use_html(page)
    await page.get_by_text("Plain text", exact=True).click()
    for field, name, text in (("body", "autumn.htm", HTML), ("text", "autumn.txt", TEXT)):
        file = {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
        await page.locator(f"#{field}_file").set_input_files(file)  # type: ignore[arg-type]
        await expect(page.locator(f"#{field}")).to_have_value(
            re.compile("Autumn"), timeout=PATIENCE
        )
    # The preview is the mail of one recipient, in a frame that can do nothing.
    frame = page.frame_locator("iframe.preview")
    await expect(frame.get_by_text("Dear subscriber@example.com")).to_be_visible(timeout=PATIENCE)
    await page.get_by_label("Now").check()
    await page.get_by_role("button", name="Send now").click()
    await heading(page, "Send “Autumn & more” to 1 subscriber of seasons now?")
    await page.get_by_role("link", name="Back to editing").click()
    await expect(page.locator("#text")).to_have_value(re.compile("Autumn"), timeout=PATIENCE)
    await page.get_by_role("button", name="Send now").click()
    await page.get_by_role("button", name="Send now to 1 subscriber").click()
    await page.wait_for_url(re.compile(r"/messages/\d{18}$"))


async def watch_it_go_out(page: Page) -> None:
    """Nobody reloads: the page itself shows how far it is, until it is done."""
    await heading(page, "Autumn & more")
    await expect(page.locator(".headline")).to_contain_text("Sent", timeout=4 * PATIENCE)
    for name, count in (("planned", "1"), ("accepted", "1"), ("pending", "0"), ("refused", "0")):
        await expect(page.locator(f"[data-count={name}]")).to_have_text(count, timeout=PATIENCE)
    await expect(page.locator("[data-percent]")).to_have_text("100%", timeout=PATIENCE)


async def leave(page: Page) -> None:
    await heading(page, "Do you want to unsubscribe?")
    await page.get_by_role("button", name="Unsubscribe").click()
    await heading(page, "You are unsubscribed")
    # A second visit says that there is nothing left to do.
    await page.goto(page.url)
    await heading(page, "You are already unsubscribed")


async def heading(page: Page, text: str) -> None:
    await expect(page.get_by_role("heading", level=1)).to_have_text(text, timeout=PATIENCE)
