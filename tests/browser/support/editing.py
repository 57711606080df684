"""The editor of messages, as somebody at a browser uses it."""

from __future__ import annotations

import json
from typing import Any

from playwright.async_api import FrameLocator, Locator, Page, expect

from tests.browser.support.chromium import PATIENCE


def canvas(page: Page) -> FrameLocator:
    return page.frame_locator("#canvas")


def blocks_on(page: Page) -> Locator:
    """The blocks on the canvas, each once."""
    return canvas(page).locator("[data-place][tabindex]")


async def open_editor(page: Page, where: str) -> None:
    await page.goto(where)
    await expect(canvas(page).locator(".page, body > div").first).to_be_attached(timeout=PATIENCE)


async def add_block(page: Page, label: str) -> None:
    count = await blocks_on(page).count()
    await page.locator("#block-palette").get_by_role("button", name=label, exact=True).click()
    await expect(blocks_on(page)).to_have_count(count + 1, timeout=PATIENCE)


async def add_to_column(page: Page, column: int, label: str) -> None:
    """Add the first block of a column."""
    await canvas(page).get_by_role("button", name=f"Add block to column {column}").click()
    dialog = page.get_by_role("dialog", name="Insert block")
    await dialog.get_by_label("Find").fill(label)
    await page.keyboard.press("Enter")
    await expect(dialog).to_be_hidden(timeout=PATIENCE)


async def upload_picture(page: Page, name: str, content: bytes, alt: str) -> None:
    """Upload a picture in the dialog that is open, and insert it."""
    dialog = page.get_by_role("dialog", name="Choose a picture")
    file = {"name": name, "mimeType": "image/png", "buffer": content}
    await page.locator("#picture-file").set_input_files(file)  # type: ignore[arg-type]
    await expect(dialog.locator("#picture-state")).to_have_text(
        f"{name} uploaded.", timeout=PATIENCE
    )
    insert = dialog.get_by_role("button", name="Insert picture")
    await expect(insert).to_be_enabled(timeout=PATIENCE)
    await dialog.get_by_label("Alt text").fill(alt)
    await insert.click()
    await expect(dialog).to_be_hidden(timeout=PATIENCE)


async def saved(page: Page) -> None:
    await expect(page.locator("#save-state")).to_have_text("Saved", timeout=PATIENCE)


async def document_of(page: Page) -> dict[str, Any]:
    """The message as the form would send it."""
    source: str = await page.locator("#body").input_value()
    found: dict[str, Any] = json.loads(source) if source else {"blocks": []}
    return found


async def use_html(page: Page) -> Locator:
    """Change an empty message to HTML; return where it is written."""
    await page.locator(".format-choice summary").click()
    await page.locator(".format-choice .menu").get_by_role("button", name="HTML").click()
    return await html_editor(page)


async def html_editor(page: Page) -> Locator:
    """Return where HTML is written, as soon as the code editor has replaced the text field."""
    body = page.get_by_label("Message (HTML)")
    await expect(body).to_have_attribute("contenteditable", "true", timeout=PATIENCE)
    return body
