"""Markdown, HTML and MJML in a real browser: the code editor, its toolbar, mistakes."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, Page, Request, expect

from postroom.domain.messages.messages import MessageFormat
from postroom.services.accounts.users import Role
from postroom.services.messages.drafts.draft_contents import Content, ContentChange
from tests.browser.support.chromium import PATIENCE, window
from tests.browser.support.editing import blocks_on, saved, upload_picture
from tests.browser.support.looking import Looker
from tests.services.pictures import picture
from tests.web.site import Site, Visitor

pytestmark = pytest.mark.timeout(300)
MJML = "<mjml>\n<mj-body>\n<mj-section>\n<mj-buton>Go</mj-buton>\n</mj-section></mj-body></mjml>"


@pytest.fixture
async def writer(site: Site) -> Visitor:
    await site.services.lists.create("news", "News", "news@example.com")
    return await site.user(Role.WRITER)


async def stored(site: Site) -> Content:
    [draft] = await site.services.times.drafts(limit=5)
    return (await site.services.composing.read(draft.ref))[1]


async def switch(page: Page, name: str) -> None:
    """Change the format of the message by the menu."""
    await page.locator(".format-choice summary").click()
    await page.locator(".format-choice .menu").get_by_role("button", name=name).click()


@pytest.mark.parametrize("format", [MessageFormat.MARKDOWN, MessageFormat.MJML, MessageFormat.HTML])
async def test_axe_finds_nothing_in_the_source_editors(
    browser: Browser, site: Site, writer: Visitor, format: MessageFormat
) -> None:
    body = MJML if format is MessageFormat.MJML else "Winter\n\n{{ x }} **is** <b>cold</b>"
    change = ContentChange(list_name="news", subject="Winter", format=format, body=body, text="")
    draft = await site.services.composing.create(change, "writer@example.org")
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        looker = await Looker.open(page, site.url, set())
        looker.begin()
        response = await page.goto(f"/messages/{draft.ref}/edit")
        assert response
        name = {"markdown": "Markdown", "mjml": "MJML", "html": "HTML"}[format]
        text = page.get_by_label(f"Message ({name})")
        await expect(text).to_be_visible(timeout=PATIENCE)
        assert await looker.examine(response) == []


async def test_markdown_has_a_toolbar_and_becomes_blocks(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await page.goto("/messages/new")
        await page.get_by_label("Subject", exact=True).fill("Winter")
        await switch(page, "Markdown")
        text = page.get_by_label("Message (Markdown)")
        await expect(text).to_have_attribute("contenteditable", "true", timeout=PATIENCE)
        await text.click()
        await page.get_by_role("button", name="Heading", exact=True).click()
        await page.keyboard.type("Winter\n\nIt is ")
        await page.get_by_role("button", name="Bold", exact=True).click()
        await page.keyboard.type("cold")
        await page.keyboard.press("End")
        await page.keyboard.type("\n\n")
        await page.get_by_role("button", name="Picture", exact=True).click()
        await upload_picture(page, "snow.png", picture(), "Snow")
        await page.get_by_text("Merge field", exact=True).click()
        await page.get_by_role("button", name="Email address").click()
        await saved(page)
        body = (await stored(site)).body
        assert body.startswith("## Winter\n\nIt is **cold**\n\n![Snow](http")
        assert body.endswith("{{ email }}")
        frame = page.frame_locator("iframe.preview")
        await expect(frame.get_by_text("subscriber@example.com")).to_be_visible(timeout=PATIENCE)
        await switch(page, "Convert to Blocks…")
        await page.wait_for_url("**/format?to=blocks")
        await page.get_by_role("button", name="Convert to Blocks").click()
        await expect(blocks_on(page).first).to_be_visible(timeout=PATIENCE)
        assert (await stored(site)).format is MessageFormat.BLOCKS


async def test_mistakes_in_mjml_are_shown_at_their_lines(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    change = ContentChange(list_name="news", subject="x", format=MessageFormat.MJML, body=MJML)
    made = await site.services.composing.create(change, "writer@example.org")
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        await page.goto(f"/messages/{made.ref}/edit")
        problem = page.get_by_role("button", name="Line 4: there is no tag <mj-buton>")
        await expect(problem).to_be_visible(timeout=PATIENCE)
        await expect(page.locator(".cm-lint-marker-error")).to_have_count(1)
        await problem.click()
        text = page.get_by_label("Message (MJML)")
        await expect(text).to_be_focused()
        await page.keyboard.press("Home")
        for _ in range(len("<mj-but")):
            await page.keyboard.press("ArrowRight")
        await page.keyboard.type("t")
        await expect(problem).to_have_count(0, timeout=PATIENCE)


async def test_html_is_highlighted_without_inline_styles_and_a_file_fills_it(
    browser: Browser, site: Site, writer: Visitor
) -> None:
    change = ContentChange(list_name="news", subject="x", body="<p class='a'>Hi</p>", text="")
    made = await site.services.composing.create(change, "writer@example.org")
    async with window(browser, site.url, whose=writer) as context:
        looker = await Looker.open(await context.new_page(), site.url, set())
        page = looker.page
        looker.begin()
        response = await page.goto(f"/messages/{made.ref}/edit")
        assert response is not None
        text = page.get_by_label("Message (HTML)")
        await expect(text.locator("span").nth(2)).to_be_attached(timeout=PATIENCE)
        colours = await text.locator("span").evaluate_all(
            "(all) => [...new Set(all.map((each) => getComputedStyle(each).color))]"
        )
        assert len(colours) >= 3, "tags, attributes and values differ"
        assert await looker.examine(response) == []
        file = {"name": "new.htm", "mimeType": "text/html", "buffer": b"<p>From a file</p>"}
        await page.locator("#body_file").set_input_files(file)  # type: ignore[arg-type]
        await expect(text).to_have_text(re.compile("From a file"), timeout=PATIENCE)
        await saved(page)
        assert (await stored(site)).body == "<p>From a file</p>"


@pytest.mark.parametrize(
    ("format", "own"),
    [
        (MessageFormat.BLOCKS, {"blocks.js", "canvas.js"}),
        (MessageFormat.MARKDOWN, {"code.js", "codemirror.min.js"}),
        (MessageFormat.HTML, {"code.js", "codemirror.min.js"}),
        (MessageFormat.MJML, {"code.js", "codemirror.min.js"}),
    ],
)
async def test_the_scripts_of_the_editor_are_small(
    browser: Browser, site: Site, writer: Visitor, format: MessageFormat, own: set[str]
) -> None:
    """All that the page loads, with what every page has, compressed as the server sends it."""
    urls: set[str] = set()

    def note(request: Request) -> None:
        if request.resource_type == "script":
            urls.add(request.url)

    change = ContentChange(list_name="news", subject="x", format=format)
    made = await site.services.composing.create(change, "writer@example.org")
    async with window(browser, site.url, whose=writer) as context:
        page = await context.new_page()
        page.on("request", note)
        await page.goto(f"/messages/{made.ref}/edit", wait_until="networkidle")
    sizes: dict[str, int] = {}
    for url in urls:
        answer = await writer.get(url, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200, url
        sizes[url.partition("?")[0].rpartition("/")[2]] = answer.num_bytes_downloaded
    assert set(sizes) >= own | {"autosave.js", "preflight.js", "attachments.js", "preview.js"}
    assert sum(sizes.values()) < 250_000, sizes
    print(f"{sum(sizes.values()):,} bytes in {len(sizes)} scripts")
