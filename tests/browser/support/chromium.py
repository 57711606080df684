"""The system's own Chromium, driven by Playwright."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, BrowserContext, async_playwright

from tests.services.missing import require
from tests.web.site import Visitor

PATIENCE = 60_000.0
"""Milliseconds: a busy machine is no fault of a page."""
DESKTOP, PHONE = (1280, 800), (390, 844)


@asynccontextmanager
async def running_chromium() -> AsyncIterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        require("Chromium", "apt-get install chromium")
    try:
        ctypes.CDLL("libatomic.so.1")
    except OSError:
        require("libatomic, which Playwright needs,", "apt-get install libatomic1")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program,
            # Everything comes from the loopback address; in a container there is no other sandbox.
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def window(
    browser: Browser, url: str = "", size: tuple[int, int] = DESKTOP, whose: Visitor | None = None
) -> AsyncIterator[BrowserContext]:
    """A browser of somebody's own: cookies are not shared. `whose` session logs them in."""
    context = await browser.new_context(
        base_url=url or None,
        viewport={"width": size[0], "height": size[1]},
        color_scheme="light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="Europe/Berlin",
    )
    context.set_default_timeout(PATIENCE)
    try:
        if whose is not None:
            name = whose.site.context.cookies.session
            await context.add_cookies([{"name": name, "value": whose.session, "url": url}])
        yield context
    finally:
        await context.close()
