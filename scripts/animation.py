"""The animation of the README, from writing a message to *Sent*: `make animation`.

Starts Postroom with the demo's data, writes and sends a message with the system's Chromium, and
records it in docs/images/writing-to-sent.webp.
"""

from __future__ import annotations

import asyncio
import io
import shutil

from PIL import Image
from playwright.async_api import Locator, Page, async_playwright, expect
from screenshots import IMAGES, log_in_first, running_postroom

FILE = IMAGES / "writing-to-sent.webp"
SIZE = (1280, 800)
SHOWN = (960, 600)
LARGEST = 2_000_000
_PATIENCE = 60_000.0
_MOST_STEPS = 60  # of the progress
LIST, SUBJECT = "garden-club", "Bulbs for spring"
PARAGRAPHS = ("Dear gardeners,", "tulips and crocuses are here. Come by on Saturday!")


class Film:
    """Frames with the time that each is shown."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._frames: list[Image.Image] = []
        self._milliseconds: list[int] = []

    async def take(self, milliseconds: int) -> None:
        picture = Image.open(io.BytesIO(await self._page.screenshot())).convert("RGB")
        self._frames.append(picture.resize(SHOWN, Image.Resampling.LANCZOS))
        self._milliseconds.append(milliseconds)

    async def type(self, field: Locator, text: str, at_once: int) -> None:
        """Type as people do, some letters per frame."""
        for start in range(0, len(text), at_once):
            await field.press_sequentially(text[start : start + at_once])
            await self.take(90)

    def write(self) -> None:
        first, *others = self._frames
        first.save(
            FILE,
            save_all=True,
            append_images=others,
            duration=self._milliseconds,
            loop=0,
            lossless=True,  # otherwise traces of earlier frames remain
            method=6,
        )
        if (size := FILE.stat().st_size) > LARGEST:
            raise SystemExit(f"{FILE.name} has {size:,} bytes, more than {LARGEST:,}")
        print(f"{FILE}: {len(self._frames)} frames, {size:,} bytes")


async def play(page: Page, film: Film) -> None:
    """Go from Home to a sent message."""
    await film.take(1500)
    await page.get_by_role("link", name="New message").first.click()
    await page.get_by_label("List", exact=True).select_option(LIST)
    await film.take(700)
    subject = page.get_by_label("Subject", exact=True)
    await subject.click()
    await film.type(subject, SUBJECT, 2)
    await _write_blocks(page, film)
    await page.wait_for_timeout(1500)  # the preview follows
    await film.take(1500)
    await page.get_by_role("button", name="Send now…").click()
    await page.get_by_role("button", name="Send now to").wait_for()
    await film.take(1500)
    await _pause_the_demo(page)
    await page.get_by_role("button", name="Send now to").click()
    sent = page.locator("main .badge.good", has_text="Sent")
    for _ in range(_MOST_STEPS):
        await film.take(220)
        if await sent.count():
            break
        await page.wait_for_timeout(100)
    await expect(sent.first).to_be_visible(timeout=_PATIENCE)
    await expect(page.locator("#progress")).to_contain_text("100%", timeout=_PATIENCE)
    await film.take(3500)


async def _write_blocks(page: Page, film: Film) -> None:
    """Write a heading, a text and a button on the canvas."""
    canvas, palette = page.frame_locator("#canvas"), page.locator("#block-palette")
    await palette.get_by_role("button", name="Heading", exact=True).click()
    heading = canvas.get_by_role("textbox", name="Heading")
    await expect(heading).to_be_focused(timeout=_PATIENCE)
    await film.take(600)
    await heading.fill("")
    await film.type(heading, SUBJECT, 3)
    await page.keyboard.press("Enter")
    text = canvas.get_by_role("textbox", name="Text")
    await expect(text).to_be_focused(timeout=_PATIENCE)
    await page.keyboard.press("ControlOrMeta+a")
    for paragraph in PARAGRAPHS:
        await film.type(text, paragraph, 6)
        if paragraph != PARAGRAPHS[-1]:
            await page.keyboard.press("Enter")
    await palette.get_by_role("button", name="Button", exact=True).click()
    await canvas.get_by_role("group", name="Button").wait_for()
    await film.take(900)


async def _pause_the_demo(page: Page) -> None:
    """Pause the demo's own message: they would share the rate."""
    other = await page.context.new_page()
    await other.goto(page.url.partition("/messages")[0] + "/messages/sending")
    await other.locator("main tbody a[href^='/messages/']").first.click()
    await other.get_by_role("button", name="Pause").click()
    await other.get_by_role("button", name="Resume").wait_for()
    await other.close()


async def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("Chromium is missing: apt-get install chromium")
    async with running_postroom("--demo", rate="40") as demo, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = await browser.new_context(
            viewport={"width": SIZE[0], "height": SIZE[1]}, locale="en-GB", timezone_id="UTC"
        )
        page = await context.new_page()
        page.set_default_timeout(_PATIENCE)
        await log_in_first(page, demo.link)
        await page.wait_for_timeout(3000)  # one of the demo's messages is being sent
        await page.reload()
        await page.wait_for_timeout(1000)
        film = Film(page)
        await play(page, film)
        await browser.close()
    film.write()


if __name__ == "__main__":
    asyncio.run(main())
