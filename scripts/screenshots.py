"""Pictures of the main pages, desktop and phone, light and dark: `make screenshots`.

Starts Postroom with the demo's data in a temporary folder, walks through it with the system's own
Chromium, and writes into docs/images.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs/images"
POSTROOM = Path(sys.executable).with_name("postroom")
SIZES = {"": (1280, 800), "-phone": (390, 844)}
SCHEMES = ("light", "dark")
_LOOKS = 1200  # ten a second: the machine may be busy


@dataclass(frozen=True)
class Postroom:
    """A running Postroom: its URL, the link that creates the first administrator, its folder."""

    url: str
    link: str
    folder: Path


@asynccontextmanager
async def running_postroom(*options: str, **settings: str) -> AsyncIterator[Postroom]:
    """Run `postroom up` in a separate folder, with settings such as `transport`."""
    with tempfile.TemporaryDirectory(prefix="postroom-screenshots-") as folder:
        errors = Path(folder) / "postroom.log"
        given = {"data": "postroom-data", **settings}
        with errors.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(str(POSTROOM), "up", "--port", str(_free_port()), *options),
                cwd=folder,
                env={**os.environ, **{f"POSTROOM_{k.upper()}": v for k, v in given.items()}},
                stderr=log,
            )
        try:
            link = await asyncio.to_thread(_link_in, errors)
            yield Postroom(link.partition("/setup")[0], link, Path(folder))
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()


def _link_in(log: Path) -> str:
    for _ in range(_LOOKS):
        if found := re.search(r"http\S+/setup\S+", log.read_text()):
            return found[0]
        time.sleep(0.1)
    raise SystemExit(f"postroom up did not start: {log.read_text()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def log_in_first(page: Page, link: str) -> None:
    await page.goto(link)
    await page.get_by_label("Your email address").fill("ann@example.com")
    await page.get_by_label("Password").fill("a few words are good")
    await page.get_by_role("button", name="Get started").click()
    await page.wait_for_url(re.compile(r"/$"))


async def find_pages(page: Page, base: str) -> dict[str, str]:
    """Return the names of pictures, and the pages to take them of."""
    await page.goto(f"{base}/messages/sent")
    message = await page.locator("main tbody a[href^='/messages/']").first.get_attribute("href")
    await page.goto(f"{base}/outbox")
    mail = await page.locator("main tbody a[href^='/outbox/']").first.get_attribute("href")
    return {
        "home": "/",
        "lists": "/lists",
        "list": "/lists/garden-club",
        "subscribers": "/lists/garden-club/subscribers",
        "messages": "/messages",
        "new-message": "/messages/new",
        "message": message or "/messages/sent",
        "queues": "/queues",
        "applications": "/apps",
        "outbox": "/outbox",
        "mail": mail or "/outbox",
        "signup": "/subscribe?list=garden-club",
    }


async def take(browser: Browser, base: str, cookies: list[dict[str, object]]) -> None:
    pages: dict[str, str] = {}
    for scheme in SCHEMES:
        for suffix, (width, height) in SIZES.items():
            context = await browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
                locale="en-GB",
                timezone_id="UTC",
            )
            await context.add_cookies(cookies)  # type: ignore[arg-type]
            page = await context.new_page()
            pages = pages or await find_pages(page, base)
            for name, path in pages.items():
                await page.goto(base + path)
                await page.wait_for_timeout(300)  # scripts show times and values
                await page.screenshot(path=IMAGES / f"{name}-{scheme}{suffix}.png")
            await context.close()


async def main() -> None:
    if shutil.which("chromium") is None:
        raise SystemExit("Chromium is missing: apt-get install chromium")
    IMAGES.mkdir(parents=True, exist_ok=True)
    async with running_postroom("--demo") as demo, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        context = await browser.new_context()
        page = await context.new_page()
        await log_in_first(page, demo.link)
        await page.wait_for_timeout(3000)  # one of the demo's messages is being sent
        await take(browser, demo.url, await context.cookies())  # type: ignore[arg-type]
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
