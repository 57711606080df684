"""The documentation works when it is opened from disk: pages, search, diagrams, in both themes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.support.chromium import PATIENCE, PHONE, window
from tests.browser.support.looking import axe_source

ROOT = Path(__file__).parents[2]
PAGES = ("index", "tutorial", "delivery", "reference/api", "figures/index")


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the documentation; return its folder."""
    folder = tmp_path_factory.mktemp("docs")
    subprocess.run(
        [Path(sys.executable).with_name("mkdocs"), "build", "--quiet", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder


async def _faults(page: Page) -> list[str]:
    await page.evaluate(axe_source())
    found: list[dict[str, Any]] = json.loads(
        await page.evaluate(
            "axe.run({exclude: ['pre.mermaid']}).then((found) => JSON.stringify(found.violations))"
        )
    )
    wide = await page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    faults = [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]
    return [*faults, *([f"{wide} px too wide"] if wide > 0 else [])]


async def test_the_search_finds_a_section_from_disk_by_keyboard(
    browser: Browser, docs: Path
) -> None:
    async with window(browser) as context:
        page = await context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(f"file://{docs}/guides/sending.html")
        await page.keyboard.press("Control+k")
        await page.get_by_role("combobox").fill("kill -9 uncertain")
        first = page.get_by_role("option").first
        await expect(first).to_be_visible(timeout=PATIENCE)
        await page.get_by_role("combobox").fill("min_free_space")
        await expect(first).to_contain_text("min_free_space", timeout=PATIENCE)
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("Enter")
        await page.wait_for_url("file://**/*.html*")
        await expect(page.locator("main")).to_contain_text("min_free_space", timeout=PATIENCE)
        assert "sending.html" not in page.url
        assert [url for url in asked if not url.startswith("file://")] == []


async def test_a_search_without_a_result_says_so(browser: Browser, docs: Path) -> None:
    async with window(browser) as context:
        page = await context.new_page()
        await page.goto(f"file://{docs}/index.html")
        await page.get_by_role("button", name="Search").click()
        await page.get_by_role("combobox").fill("xylophonist")
        await expect(page.get_by_text("Nothing found.")).to_be_visible(timeout=PATIENCE)
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("combobox")).to_be_hidden()


async def test_pages_are_sound_in_both_themes_and_on_a_phone(browser: Browser, docs: Path) -> None:
    async with window(browser) as context:
        page = await context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        for name in PAGES:
            await page.emulate_media(color_scheme="light")
            await page.set_viewport_size({"width": 1280, "height": 800})
            await page.goto(f"file://{docs}/{name}.html")
            assert await _faults(page) == [], name
            await page.emulate_media(color_scheme="dark")
            await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
            assert await _faults(page) == [], f"{name}, dark on a phone"
        await page.goto(f"file://{docs}/delivery.html")
        diagram = page.locator("pre.mermaid svg").first
        await expect(diagram).to_be_visible(timeout=PATIENCE)
        await expect(diagram).not_to_have_attribute("aria-roledescription", "error")
        assert errors == []


async def test_on_a_phone_a_button_shows_all_pages(browser: Browser, docs: Path) -> None:
    async with window(browser, size=PHONE) as context:
        page = await context.new_page()
        await page.goto(f"file://{docs}/index.html")
        pages = page.get_by_role("navigation", name="Pages")
        await expect(pages).to_be_hidden()
        await page.get_by_role("button", name="All pages").click()
        await pages.get_by_role("link", name="Tutorial").click()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("Tutorial")
