"""A list's brand and emails: samples follow what is typed, and every colour is readable."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page, expect

from postroom.services.accounts.users import Role
from tests.browser.support.chromium import PATIENCE, window
from tests.browser.support.looking import Looker
from tests.web.site import Site

pytestmark = pytest.mark.timeout(300)
_STYLE = """async () => {
  const style = getComputedStyle(document.querySelector("button.primary"));
  return [style.backgroundColor, style.color];
}"""


async def _create(site: Site) -> None:
    await site.services.lists.create("garden", "Garden club", "garden@example.com")


async def _style_of_button(page: Page) -> list[str]:
    found: list[str] = await page.evaluate(_STYLE)
    return found


async def test_the_sample_follows_what_is_typed(browser: Browser, site: Site) -> None:
    await _create(site)
    editor = await site.user(Role.EDITOR)
    async with window(browser, site.url, whose=editor) as context:
        page = await context.new_page()
        await page.goto("/lists/garden/brand")
        sample = page.locator("#preview .page-sample")
        await page.get_by_label("Accent colour").fill("#ffd400")
        await page.get_by_label("Website").fill("www.garden.example")
        await expect(sample).to_contain_text("garden.example", timeout=PATIENCE)
        button = sample.get_by_text("Subscribe", exact=True)
        await expect(button).to_have_css("background-color", "rgb(255, 212, 0)", timeout=PATIENCE)
        await expect(button).to_have_css("color", "rgb(0, 0, 0)", timeout=PATIENCE)
        await expect(page.get_by_label("Pick a colour")).to_have_value("#ffd400")
        email = page.frame_locator("iframe.email-sample")
        await expect(email.get_by_text("garden.example", exact=True)).to_be_visible(
            timeout=PATIENCE
        )
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("#toast")).to_contain_text("Saved.", timeout=PATIENCE)
        await page.goto("/subscribe?list=garden")
        assert await _style_of_button(page) == ["rgb(255, 212, 0)", "rgb(0, 0, 0)"]
        await expect(page.get_by_role("link", name="garden.example")).to_be_visible()


async def test_public_pages_are_sound_in_any_colour(browser: Browser, site: Site) -> None:
    await _create(site)
    async with window(browser, site.url) as context:
        looker = await Looker.open(await context.new_page(), site.url, set())
        for colour in ("#ffffff", "#000000", "#ffd400", "#ff4136"):
            await site.services.lists.edit(
                "garden",
                colour=colour,
                font="serif",
                website="https://garden.example",
                social_links="https://x.com/garden",
                footer_text="A registered charity",
                postal_address="1 Main Street\nDublin",
            )
            looker.begin()
            response = await looker.page.goto("/subscribe?list=garden")
            assert response is not None
            assert await looker.examine(response) == [], colour


async def test_the_preview_of_a_long_email_follows_what_is_typed(
    browser: Browser, site: Site
) -> None:
    await _create(site)
    editor = await site.user(Role.EDITOR)
    async with window(browser, site.url, whose=editor) as context:
        page = await context.new_page()
        await page.goto("/lists/garden/emails")
        email = page.frame_locator("iframe.email-sample")
        await expect(email.get_by_role("link", name="Confirm subscription")).to_be_visible(
            timeout=PATIENCE
        )
        # Encoded in an address, it would have more than 16 KB.
        text = f"[Los]({{{{ confirm_url }}}})\n\n{'Привет. ' * 400}Ende"
        await page.get_by_label("Text", exact=True).fill(text)
        await expect(email.get_by_text("Ende")).to_be_visible(timeout=PATIENCE)
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("#toast")).to_contain_text("Saved.", timeout=PATIENCE)
        await expect(email.get_by_text("Ende")).to_be_visible(timeout=PATIENCE)
