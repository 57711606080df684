"""Pictures in a real browser: upload by button, by dragging and by pasting, search, delete."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Browser, FilePayload, Page, Route, expect

from postroom.services.accounts.users import Role
from postroom.services.messages.message_contents import NewBodies
from tests.browser.support.chromium import PATIENCE, PHONE, window
from tests.services.pictures import Colour, animation, picture
from tests.web.site import Site

pytestmark = pytest.mark.timeout(600)  # a limit for what hangs, not for a slow machine

_DELIVER = """([kind, name, content]) => {
  const bytes = Uint8Array.from(atob(content), (each) => each.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], name, { type: "image/png" }));
  const options = { bubbles: true, cancelable: true };
  const target = document.getElementById("main");
  if (kind === "paste") {
    target.dispatchEvent(new ClipboardEvent("paste", { ...options, clipboardData: data }));
    return;
  }
  for (const step of ["dragenter", "dragover"]) {
    target.dispatchEvent(new DragEvent(step, { ...options, dataTransfer: data }));
  }
  const marked = document.getElementById("upload").classList.contains("over");
  target.dispatchEvent(new DragEvent("drop", { ...options, dataTransfer: data }));
  return marked;
}"""


def file(name: str, data: bytes) -> FilePayload:
    return {"name": name, "mimeType": "image/png", "buffer": data}


async def deliver(page: Page, kind: str, name: str, red: int) -> object:
    """Drop or paste a picture."""
    colour: Colour = (red, 0, 0)
    content = base64.b64encode(picture(colour=colour)).decode()
    return await page.evaluate(_DELIVER, [kind, name, content])


async def names(page: Page) -> list[str]:
    return await page.locator("#pictures .name").all_inner_texts()


async def test_pictures_are_uploaded_in_three_ways_found_and_deleted(
    browser: Browser, site: Site
) -> None:
    ann = await site.user(Role.EDITOR)
    async with window(browser, site.url, whose=ann) as context:
        page = await context.new_page()
        await page.goto("/")
        await page.get_by_role("link", name="Pictures", exact=True).click()
        await expect(page.get_by_text("No pictures yet")).to_be_visible()

        async with page.expect_file_chooser() as chooser:
            await page.get_by_role("button", name="Upload pictures…").press("Enter")
        await (await chooser.value).set_files(
            [
                file("a cat.png", picture()),
                file("drawing.svg", b"<svg/>"),
                file("moving.gif", animation()),
                file("large.png", bytes(5_000_001)),
            ]
        )
        status = page.get_by_role("status").and_(page.locator("#uploaded"))
        await expect(status).to_have_text(
            "2 pictures uploaded. 2 pictures could not be uploaded.", timeout=PATIENCE
        )
        assert await names(page) == ["moving.gif", "a cat.png"]
        problems = page.locator("#uploads li")
        await expect(problems.nth(0)).to_contain_text(
            "drawing.svg must be a JPEG, PNG, GIF or WebP picture, not SVG: export it as PNG."
        )
        await expect(problems.nth(1)).to_contain_text("large.png must be at most 5 MB")
        await problems.nth(0).get_by_role("button", name="Dismiss").click()
        await expect(problems).to_have_count(1)

        assert await deliver(page, "drop", "dropped.png", 1) is True
        await expect(page.locator("#pictures .picture")).to_have_count(3, timeout=PATIENCE)
        await deliver(page, "paste", "pasted.png", 2)
        await expect(page.locator("#pictures .picture")).to_have_count(4, timeout=PATIENCE)
        await deliver(page, "paste", "the same again.png", 1)
        await expect(page.locator("#pictures .name").first).to_have_text("dropped.png")
        widths = "imgs => imgs.map((each) => each.naturalWidth)"
        await page.wait_for_function("[...document.images].every((each) => each.complete)")
        assert 0 not in await page.locator("#pictures img").evaluate_all(widths)

        await page.get_by_label("Name or alt text contains").fill("CAT")
        await page.get_by_role("button", name="Search").click()
        await expect(page.locator("#pictures .name")).to_have_text(["a cat.png"])
        await page.get_by_role("link", name="a cat.png").click()
        await page.get_by_label("Alt text").fill("A red cat")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
        await page.get_by_role("link", name="Delete…").click()
        await page.get_by_role("button", name="Delete picture").click()
        await expect(page.get_by_text("a cat.png deleted.")).to_be_visible()
        assert await names(page) == ["pasted.png", "dropped.png", "moving.gif"]
    done = [each.what for each in (await site.services.audit.newest()).entries]
    assert done[:2] == ["deleted picture", "changed alternative text of picture"]
    assert done.count("uploaded picture") == 5


async def test_a_picture_in_use_cannot_be_deleted_and_names_the_message(
    browser: Browser, site: Site
) -> None:
    services = site.services
    used, _ = await services.pictures.upload(picture(), "logo.png", by="ann@example.com")
    await services.lists.create("news", "News", "news@example.com")
    body = NewBodies(f'<p>Hello</p><img src="{used.path}" alt="Logo">')
    soon = datetime.now(UTC) + timedelta(days=1)
    ann = await site.user(Role.EDITOR)
    async with window(browser, site.url, PHONE, ann) as context:
        page = await context.new_page()
        await page.goto(f"/pictures/{used.hash}/delete")
        message = await services.messages.create("news", "Spring", body, soon)
        await page.get_by_role("button", name="Delete picture").click()
        await expect(page.get_by_role("heading", name="Conflict")).to_be_visible()
        await expect(page.locator("main")).to_contain_text(f"“Spring” ({message.ref})")

        await page.get_by_role("link", name="Go to Pictures").click()
        await page.get_by_role("link", name="logo.png").click()
        await expect(page.get_by_role("link", name="Delete…")).to_have_count(0)
        await page.get_by_role("link", name="Spring").click()
        await expect(page).to_have_url(f"{site.url}/messages/{message.ref}")


async def test_a_viewer_sees_pictures_and_changes_nothing(browser: Browser, site: Site) -> None:
    stored, _ = await site.services.pictures.upload(picture(), "logo.png", by="ann@example.com")
    viewer = await site.user(Role.VIEWER)
    async with window(browser, site.url, whose=viewer) as context:
        page = await context.new_page()
        await page.goto("/pictures")
        await expect(page.locator("#upload")).to_have_count(0)
        await page.get_by_role("link", name="logo.png").click()
        await expect(page.get_by_label("Address")).to_have_value(
            f"{site.context.base_url}{stored.path}"
        )
        await expect(page.locator("main form")).to_have_count(0)
    refused = await viewer.post("/pictures", {}, files={"file": ("a.png", picture(), "image/png")})
    assert refused.status_code == 403


async def test_a_preview_shows_our_own_pictures_and_loads_no_others(
    browser: Browser, site: Site
) -> None:
    stored, _ = await site.services.pictures.upload(picture(), "logo.png", by="ann@example.com")
    await site.services.lists.create("news", "News", "news@example.com")
    own, other = f"{site.context.base_url}{stored.path}", "https://pictures.example/x.png"
    body = NewBodies(f'<img id="own" src="{own}" alt=""><img src="{other}" alt="">')
    soon = datetime.now(UTC) + timedelta(days=1)
    message = await site.services.messages.create("news", "Spring", body, soon)
    async with window(browser, site.url, whose=await site.user()) as context:
        page = await context.new_page()
        asked: list[str] = []

        async def serve(route: Route) -> None:
            """Stand in for the public address of the site, and for every other site."""
            asked.append(route.request.url)
            await route.fulfill(body=picture(), content_type="image/png")

        await context.route("**/media/**", serve)
        await context.route("https://**", serve)
        await page.goto(f"/messages/{message.ref}/preview")
        frame = page.frame_locator("iframe")
        await expect(frame.locator("#own")).to_have_js_property("naturalWidth", 40)
        assert asked == [own]
