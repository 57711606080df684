"""Lighthouse on Home, a sent message and a sign-up page: `make lighthouse`.

Starts Postroom with the demo's data in a temporary folder and prints the scores of each page, as a
phone (Lighthouse's default, with a slow network and processor) and on a desktop. Fails if one is
below 95. What to improve is printed, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright
from screenshots import Postroom, find_pages, log_in_first, running_postroom

LEAST = 95
CATEGORIES = ("performance", "accessibility", "best-practices")
PAGES = ("home", "message", "signup")
FORMS: dict[str, tuple[str, ...]] = {"phone": (), "desktop": ("--preset=desktop",)}
LIGHTHOUSE = Path(__file__).parent.parent / "node_modules/.bin/lighthouse"
_SECONDS = 180
_TRIES = 3  # a trace without a beginning (NO_NAVSTART) is a known fault of Lighthouse: run again


async def addresses(chromium: str, demo: Postroom) -> tuple[dict[str, str], str]:
    """Return the paths of the pages to look at, and the cookies of an administrator."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = await (await browser.new_context()).new_page()
        await log_in_first(page, demo.link)
        found = await find_pages(page, demo.url)
        cookies = await page.context.cookies()
        await browser.close()
    paths = {name: found[name] for name in PAGES}
    return paths, "; ".join(f"{each['name']}={each['value']}" for each in cookies)


async def scores(chromium: str, url: str, cookies: str, options: tuple[str, ...]) -> dict[str, Any]:
    """Return Lighthouse's report on one page."""
    for _ in range(_TRIES):
        if (report := await run(chromium, url, cookies, options)) is not None:
            return report
    raise SystemExit(f"Lighthouse failed {_TRIES} times on {url}")


async def run(
    chromium: str, url: str, cookies: str, options: tuple[str, ...]
) -> dict[str, Any] | None:
    """Run Lighthouse on one page; return None if it failed."""
    with tempfile.TemporaryDirectory(prefix="postroom-lighthouse-") as folder:
        report = Path(folder) / "report.json"
        process = await asyncio.create_subprocess_exec(
            *(str(LIGHTHOUSE), url, "--quiet", "--output=json", f"--output-path={report}"),
            f"--only-categories={','.join(CATEGORIES)}",
            "--chrome-flags=--headless=new --no-sandbox --disable-dev-shm-usage",
            f"--extra-headers={json.dumps({'Cookie': cookies})}",
            *options,
            env={**os.environ, "CHROME_PATH": chromium, "CI": "1"},
        )
        if await asyncio.wait_for(process.wait(), _SECONDS):
            return None
        found: dict[str, Any] = json.loads(report.read_text())
        return found


def shortcomings(report: dict[str, Any]) -> list[str]:
    """Return what keeps a page from a full score."""
    found = []
    for category in CATEGORIES:
        for reference in report["categories"][category]["auditRefs"]:
            audit = report["audits"][reference["id"]]
            if reference["weight"] and audit["score"] is not None and audit["score"] < 0.9:
                found.append(f"{audit['title']}: {audit.get('displayValue', audit['score'])}")
    return found


async def main() -> int:
    chromium = shutil.which("chromium")
    if chromium is None or not LIGHTHOUSE.exists():
        raise SystemExit("Chromium or Lighthouse is missing: run `make lighthouse`")
    missed = 0
    async with running_postroom("--demo") as demo:
        paths, cookies = await addresses(chromium, demo)
        print(f"{'':18}{'':10}{''.join(f'{each:>16}' for each in CATEGORIES)}")
        for name, path in paths.items():
            for form, options in FORMS.items():
                report = await scores(chromium, demo.url + path, cookies, options)
                found = [round(100 * report["categories"][each]["score"]) for each in CATEGORIES]
                print(f"{name:18}{form:10}{''.join(f'{each:>16}' for each in found)}")
                for each in shortcomings(report):
                    print(f"    {each}")
                missed += sum(each < LEAST for each in found)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
