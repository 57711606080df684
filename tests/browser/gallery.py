"""Pictures of every page, to be looked at: `make gallery`; `ARGS='pages --only ab-test'` for some.

Takes each page at desktop and phone size, light and dark: with the demo's data, with the examples
of the tests, with nothing yet, with errors (bad input, pages that do not exist, no permission), and
while the mail server is away.
Writes them into a folder, with an index.html that shows all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from playwright.async_api import Browser, BrowserContext, Page

from postroom.services.accounts.users import Role
from postroom.web.app import VIEWS
from scripts.screenshots import POSTROOM, log_in_first, running_postroom
from tests.browser.support.chromium import PATIENCE, running_chromium
from tests.browser.support.scenes import ADMIN, EMPTY, STRANGER, VIEWER, Scene, scenes_of
from tests.services.waiting import free_ports
from tests.web.site import Visitor, running_site
from tests.web.world import NOT_PAGES, furnished

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
SCHEMES = ("light", "dark")
_MOST_PAGES = 160
_TALLEST = 2400
_PLACES = {"sort", "after", "page"}  # the same page with other rows


@dataclass
class Gallery:
    """Takes pictures into a folder and remembers what each shows."""

    browser: Browser
    folder: Path
    only: re.Pattern[str] = re.compile("")
    shown: dict[str, str] = field(default_factory=dict)

    def wants(self, what: str) -> bool:
        return self.only.search(what) is not None

    async def take(self, page: Page, kind: str, what: str) -> None:
        if not self.wants(what):
            return
        name = f"{kind}-{len(self.shown):03}-{_slug(what)}"
        self.shown[name] = f"{kind}: {what}"
        for size, (width, height) in SIZES.items():
            await page.set_viewport_size({"width": width, "height": height})
            for scheme in SCHEMES:
                await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
                await page.wait_for_timeout(150)  # charts are drawn again
                tall = await page.evaluate("document.documentElement.scrollHeight")
                await page.set_viewport_size(
                    {"width": width, "height": min(max(height, tall), _TALLEST)}
                )
                await page.screenshot(path=self.folder / f"{name}.{size}-{scheme}.png")
        await page.set_viewport_size({"width": 1280, "height": 800})

    def write_index(self) -> None:
        rows = [
            f"<h2>{html.escape(what)}</h2>"
            + "".join(
                f'<a href="{name}.{size}-{scheme}.png">'
                f'<img loading="lazy" height="400" src="{name}.{size}-{scheme}.png" alt=""></a> '
                for size in SIZES
                for scheme in SCHEMES
            )
            for name, what in self.shown.items()
        ]
        page = f"<!doctype html><meta charset=utf-8><title>Gallery</title>{''.join(rows)}"
        (self.folder / "index.html").write_text(page)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60]


# -- the demo ---------------------------------------------------------------------------------


async def take_demo(gallery: Gallery) -> None:
    """Follow links from page to page, and take one page of each kind."""
    async with running_postroom("--demo") as demo, _window(gallery.browser) as context:
        page = await context.new_page()
        await log_in_first(page, demo.link)
        await page.wait_for_timeout(3000)  # one of the demo's messages is being sent
        async for address in _crawl(page, demo.url):
            await gallery.take(page, "demo", address)


async def take_away(gallery: Gallery) -> None:
    """Take the pages that tell of a mail server that cannot be reached."""
    [port] = free_ports(1)
    transport = f"smtp://127.0.0.1:{port}"
    async with (
        running_postroom(transport=transport) as running,
        _window(gallery.browser, running.url) as context,
    ):
        await anyio.Path(running.folder / "news.txt").write_text("Hello")
        for command in (
            ("list", "create", "news", "--description", "News", "--from", "news@example.com"),
            ("subscriber", "add", "news", "ann@example.com", "--verified"),
            ("message", "create", "news", "--subject", "A message", "--text", "news.txt"),
        ):
            done = await asyncio.create_subprocess_exec(
                *(POSTROOM, *command, "--data", "postroom-data"),
                cwd=running.folder,
                stdout=asyncio.subprocess.DEVNULL,
                env={**os.environ, "POSTROOM_TRANSPORT": transport},
            )
            assert await done.wait() == 0, command
        page = await context.new_page()
        await log_in_first(page, running.link)
        await page.get_by_role("button", name="Try now").wait_for(timeout=PATIENCE)
        link = await page.locator("main a[href^='/messages/6']").first.get_attribute("href")
        for address in ("/", "/messages/sending", link or "/", "/events", "/queues"):
            await page.goto(address)
            await gallery.take(page, "away", address)


async def _crawl(page: Page, base: str) -> AsyncIterator[str]:
    """Open pages and yield their addresses, while the page is open."""
    waiting = ["/"]
    taken: set[str] = set()
    seen = {"/"}
    while waiting and len(taken) < _MOST_PAGES:
        address = waiting.pop(0)
        shape = _shape(address)
        if shape is None or shape in taken:
            continue
        response = await page.goto(base + address)
        if response is None or response.status >= 400:
            continue
        taken.add(shape)
        yield address
        hrefs: list[str] = await page.evaluate(
            "[...document.querySelectorAll('a[href^=\"/\"]')].map((a) => a.getAttribute('href'))"
        )
        for href in hrefs:
            plain = href.partition("#")[0]
            if plain not in seen:
                seen.add(plain)
                waiting.append(plain)


def _pattern(route: str) -> re.Pattern[str]:
    one = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(route))
    return re.compile(re.sub(r"\\{\w+:path\\}", ".+", one))


_ROUTES = {view.path: _pattern(view.path) for view in VIEWS if "GET" in view.methods}


def _shape(address: str) -> str | None:
    """Return what kind of page this is: its route, and the names of what it is filtered by."""
    path, _, query = address.partition("?")
    given = {each.partition("=")[0] for each in query.split("&") if each}
    names = " ".join(sorted(given - _PLACES))
    for route, pattern in _ROUTES.items():
        if pattern.fullmatch(path):
            return None if route in NOT_PAGES else f"{route} {names}".strip()
    return None


# -- nothing, and errors ----------------------------------------------------------------------


async def take_pages(gallery: Gallery, folder: Path) -> None:
    """Take each page once that has an example, also those that the demo has no data for."""
    async with running_site(folder / "pages") as site:
        world = await furnished(site)
        scenes = [each for each in scenes_of(world) if not each.to and each.who != VIEWER]
        await _walk(gallery, "page", site.url, scenes, {ADMIN: world.admin})


async def take_scenes(gallery: Gallery, folder: Path) -> None:
    async with running_site(folder / "site") as site:
        world = await furnished(site)
        viewer = await site.user(Role.VIEWER, "another@example.org")
        late = await site.user(Role.ADMINISTRATOR, "late@example.org")
        await site.outlast_confirmation(late)
        visitors = {ADMIN: world.admin, VIEWER: viewer, "late": late}
        scenes = [each for each in scenes_of(world) if each.to or each.who == VIEWER]
        wrong = (Scene(who, "/nope") for who in (STRANGER, ADMIN))
        await _walk(gallery, "error", site.url, [*scenes, *wrong], visitors)
    async with running_site(folder / "empty") as empty:
        scenes = [Scene(ADMIN, path) for path in EMPTY]
        scenes += [Scene(ADMIN, path) for path in ("/lists/new", "/search?q=x", "/settings")]
        visitors = {ADMIN: await empty.user(Role.ADMINISTRATOR)}
        await _walk(gallery, "empty", empty.url, scenes, visitors)


async def _walk(
    gallery: Gallery, kind: str, url: str, scenes: Iterable[Scene], visitors: dict[str, Visitor]
) -> None:
    for scene in filter(lambda each: gallery.wants(each.name), scenes):
        async with _window(gallery.browser, url) as context:
            if scene.who in visitors:
                whose = visitors[scene.who]
                name = whose.site.context.cookies.session
                await context.add_cookies([{"name": name, "value": whose.session, "url": url}])
            page = await context.new_page()
            await scene.prepare(page)
            await scene.open(page)
            await gallery.take(page, kind, scene.name)


@asynccontextmanager
async def _window(browser: Browser, url: str = "") -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(
        base_url=url or None,
        viewport={"width": 1280, "height": 800},
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="Europe/Berlin",
    )
    try:
        yield context
    finally:
        await context.close()


async def main(folder: Path, kinds: set[str], only: str) -> None:
    async with running_chromium() as browser:
        gallery = Gallery(browser, folder, re.compile(only))
        if "demo" in kinds:
            await take_demo(gallery)
        for kind, take in (("pages", take_pages), ("scenes", take_scenes)):
            if kind in kinds:
                with tempfile.TemporaryDirectory(prefix="postroom-gallery-") as sites:
                    await take(gallery, Path(sites))
        if "away" in kinds:
            await take_away(gallery)
        gallery.write_index()
    print(f"{len(gallery.shown)} pages, {4 * len(gallery.shown)} pictures: {folder}/index.html")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.browser.gallery", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kinds", nargs="*", default=["demo", "pages", "scenes", "away"])
    parser.add_argument("--only", default="", help="pages whose address has this pattern")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(given.folder, set(given.kinds), given.only))
