"""The sign-up form on a page of another origin, from the first look to changed preferences."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.async_api import Browser, expect

from postroom.domain.audience.fields import Field
from postroom.services.audience.signup.subscriber_reading import SubscriberSlice
from postroom.web.public.signup.snippets import frame_snippet, script_snippet
from tests.browser.support.chromium import PATIENCE, window
from tests.web.public.test_languages import confirmation_sent
from tests.web.site import Site

READER = "reader@example.com"


class OtherSite:
    """A website of somebody else: its pages by their paths."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        pages = self.pages

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = pages.get(self.path, "")
                self.send_response(200 if text else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(f"<!doctype html><title>Shop</title>{text}".encode())

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)


@pytest.fixture
def shop() -> Iterator[OtherSite]:
    other = OtherSite()
    other.pages["/thanks"] = "<h1>The shop says thanks</h1>"
    other.pages["/welcome"] = "<h1>The shop says welcome</h1>"
    other.start()
    try:
        yield other
    finally:
        other.stop()


async def make_list(site: Site, **properties: object) -> None:
    await site.services.lists.create("shop", "Shop news", "news@shop.example", **properties)


@pytest.mark.timeout(300)  # a limit for a page that hangs, not for a slow machine
async def test_a_visitor_signs_up_on_another_site_and_changes_preferences(
    browser: Browser, site: Site, shop: OtherSite
) -> None:
    await make_list(
        site,
        ask_name=True,
        consent_text="I agree to get news of the shop.",
        proof_of_work=True,
        allowed_origins=shop.url,
        thank_you_url=f"{shop.url}/thanks",
        confirmed_url=f"{shop.url}/welcome",
    )
    await site.services.fields.declare("shop", [Field("town", public=True, required=True)])
    mailing_list = await site.services.lists.get("shop")
    shop.pages["/"] = f"<h1>Shop</h1>{script_snippet(site.url, [mailing_list])}"
    async with window(browser, shop.url) as context:
        page = await context.new_page()
        await page.goto("/")
        frame = page.frame_locator("iframe")
        await frame.get_by_label("Your email address").fill(READER)
        await frame.get_by_label("First name").fill("Rita")
        await frame.get_by_label("Town").fill("Bern")
        await frame.get_by_label("I agree to get news of the shop.").check()
        solved = frame.locator("input[name=altcha]")
        await expect(solved).to_have_value(re.compile("."), timeout=PATIENCE)
        high = page.locator("iframe")
        await expect(high).not_to_have_css("height", "420px", timeout=PATIENCE)
        await frame.get_by_role("button", name="Subscribe").click()
        await expect(page.get_by_role("heading")).to_have_text(
            "The shop says thanks", timeout=PATIENCE
        )

        sent = await confirmation_sent(site)
        [confirm] = re.findall(r"http://localhost:0(/confirm\S+)", sent["text/plain"])
        await page.goto(f"{site.url}{confirm}")
        await page.get_by_role("button", name="Confirm").click()
        await expect(page.get_by_role("heading")).to_have_text(
            "The shop says welcome", timeout=PATIENCE
        )

        await page.goto(f"{site.url}{confirm.replace('/confirm?', '/preferences?')}")
        await page.get_by_label("Town").fill("Rome")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("status")).to_have_text("Saved.", timeout=PATIENCE)
    known = await site.services.subscriptions.get("shop", READER)
    assert known.verified
    assert known.attributes == {"first_name": "Rita", "town": "Rome"}


@pytest.mark.timeout(300)
async def test_a_visitor_chooses_lists_on_another_site(
    browser: Browser, site: Site, shop: OtherSite
) -> None:
    rules = "I agree to the rules of the club."
    await make_list(site, allowed_origins=shop.url, ask_name=True)
    await site.services.lists.create(
        "club", "Club", "club@shop.example", consent_text=rules, proof_of_work=True,
        allowed_origins=shop.url,
    )  # fmt: skip
    await site.services.fields.declare("club", [Field("town", public=True, required=True)])
    lists = [await site.services.lists.get(each) for each in ("shop", "club")]
    shop.pages["/"] = f"<h1>Shop</h1>{script_snippet(site.url, lists)}"
    async with window(browser, shop.url) as context:
        page = await context.new_page()
        await page.goto("/")
        frame = page.frame_locator("iframe")
        await frame.get_by_label("Your email address").fill(READER)
        await expect(frame.get_by_label("Town")).to_be_hidden(timeout=PATIENCE)
        await frame.get_by_label("Club", exact=True).check()
        await frame.get_by_label("Town").fill("Bern")
        await frame.get_by_label(rules).check()
        solved = frame.locator("input[name=altcha]")
        await expect(solved).to_have_value(re.compile("."), timeout=PATIENCE)
        await frame.get_by_role("button", name="Subscribe").click()
        await expect(frame.get_by_role("heading")).to_have_text(
            "Check your email", timeout=PATIENCE
        )
    known = await site.services.subscriptions.get("club", READER)
    assert known.attributes == {"town": "Bern"}
    assert known.consent.endswith(rules)
    assert await site.services.subscriptions.slice("shop") == SubscriberSlice([], None)


@pytest.mark.timeout(300)
async def test_a_site_that_is_not_allowed_shows_no_form(
    browser: Browser, site: Site, shop: OtherSite
) -> None:
    await make_list(site, allowed_origins="https://www.example.com")
    mailing_list = await site.services.lists.get("shop")
    shop.pages["/"] = frame_snippet(site.url, [mailing_list]).replace(' loading="lazy"', "")
    async with window(browser, shop.url) as context:
        page = await context.new_page()
        refusals: list[str] = []
        page.on("console", lambda message: refusals.append(message.text))
        await page.goto("/")
        await expect(page.frame_locator("iframe").get_by_label("Your email address")).to_have_count(
            0, timeout=PATIENCE
        )
        assert any("frame-ancestors" in each for each in refusals)
